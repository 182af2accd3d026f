package store

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// A bot that asks for codes at other people's addresses never enters them, and no rule stops it if
// it uses many recipients and networks. The watch on conversion compares how many messages an app
// sent to strangers with how many of their codes were entered. It only tells, and has strangers
// asked for a human check: a bot must not be able to switch off an app's sign-up.

// ConversionWatch says when an app's conversion is low.
type ConversionWatch struct {
	Span    time.Duration // of the sends that count; it ends Age ago
	Age     time.Duration // of the newest send that counts: its code could be entered for so long
	Sends   int           // least sends to judge an app
	Percent int           // of the codes entered; the conversion is low below it
}

// DefaultConversionWatch is the watch of the service. A launch or a newsletter has its codes
// entered, so 1,000 messages in an hour of which hardly any led to a sign-in are a bot's, or didn't
// arrive.
var DefaultConversionWatch = ConversionWatch{Span: 50 * time.Minute, Age: 10 * time.Minute, Sends: 1000, Percent: 5}

// Conversion has the messages of an app to strangers, and how many of their codes were entered.
type Conversion struct {
	App             string
	Sends, Approved int
}

// IsLow reports whether a period of low conversion begins.
func (w ConversionWatch) IsLow(c Conversion) bool {
	return c.Sends >= w.Sends && 100*c.Approved < w.Percent*c.Sends
}

// HasRecovered reports whether a period of low conversion ends: with fewer than half of the sends
// that began it, or twice the percentage. So figures near the bounds begin and end no period again
// and again.
func (w ConversionWatch) HasRecovered(c Conversion) bool {
	return 2*c.Sends < w.Sends || 100*c.Approved >= 2*w.Percent*c.Sends
}

// LowConversion is a period in which few of the codes that an app sent to strangers were entered.
type LowConversion struct {
	ID       uuid.UUID
	App      string
	Since    time.Time
	Sends    int       // counted when it began
	Approved int       // how many of them were approved, by their codes
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
