package store

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// A bot that asks for codes at other people's addresses never enters them, and no rule stops it if
// it uses many recipients and networks. The watch on conversion compares how many messages an app
// sent to strangers with how many of their codes were entered. It only reports a low conversion and
// makes the service ask strangers for a human check. It stops no messages, because a bot must not
// be able to switch off an app's sign-up.

// ConversionWatch says when an app's conversion is low.
type ConversionWatch struct {
	Span    time.Duration // length of the period whose sends count; the period ends Age ago
	Age     time.Duration // of the newest send that counts, so that there was this much time to enter its code
	Sends   int           // fewest sends by which an app is judged
	Percent int           // the conversion is low if a smaller share of the codes was entered
}

// DefaultConversionWatch is the watch of the service. After a launch or a newsletter, people enter
// their codes. If fewer than 5 % of 1,000 codes are entered, a bot asked for them, or the messages
// didn't arrive.
var DefaultConversionWatch = ConversionWatch{Span: 50 * time.Minute, Age: 10 * time.Minute, Sends: 1000, Percent: 5}

// Conversion counts the messages of an app to strangers, and their codes that were entered.
type Conversion struct {
	App             string
	Sends, Approved int
}

// IsLow reports whether a period of low conversion begins.
func (w ConversionWatch) IsLow(c Conversion) bool {
	return c.Sends >= w.Sends && 100*c.Approved < w.Percent*c.Sends
}

// HasRecovered reports whether a period of low conversion ends: with fewer than half of w.Sends, or
// with at least twice w.Percent. Without this margin, figures near w.Sends or w.Percent would begin
// and end a period again and again.
func (w ConversionWatch) HasRecovered(c Conversion) bool {
	return 2*c.Sends < w.Sends || 100*c.Approved >= 2*w.Percent*c.Sends
}

// LowConversion is a period in which few of the codes that an app sent to strangers were entered.
type LowConversion struct {
	ID       uuid.UUID
	App      string
	Since    time.Time
	Sends    int       // counted when it began
	Approved int       // how many of these sends had their codes approved
	EndedAt  time.Time // zero: not yet
}

func (l *LowConversion) Columns() []Column {
	return []Column{
		{"id", &l.ID, InsertedColumn},
		{"app", &l.App, InsertedColumn},
		{"since", &l.Since, InsertedColumn},
		{"sends", &l.Sends, InsertedColumn},
		{"approved", &l.Approved, InsertedColumn},
		{"ended_at", &l.EndedAt, 0},
	}
}

// EventReason returns the reason in the events about the period.
func (c Conversion) EventReason() string {
	return fmt.Sprintf("%d of %d codes entered", c.Approved, c.Sends)
}
