package texts

import (
	"fmt"
	"time"
)

// In returns the words with another time zone, in which a page shows its times.
func (w Words) In(zone *time.Location) Words {
	w.zone = zone
	return w
}

// Zone returns the time zone; UTC unless In set another.
func (w Words) Zone() *time.Location {
	if w.zone == nil {
		return time.UTC
	}
	return w.zone
}

// ZoneName returns the zone's distance from UTC at a time: "UTC+8", "UTC−3:30".
func (w Words) ZoneName(at time.Time) string {
	_, east := at.In(w.Zone()).Zone()
	sign, minutes := "+", east/60
	switch {
	case minutes == 0:
		return "UTC"
	case minutes < 0:
		sign, minutes = "−", -minutes
	}
	if minutes%60 == 0 {
		return fmt.Sprintf("UTC%s%d", sign, minutes/60)
	}
	return fmt.Sprintf("UTC%s%d:%02d", sign, minutes/60, minutes%60)
}

// Clock returns a time in the zone of the words, to be shown to the second.
func (w Words) Clock(t time.Time) Clock { return Clock{Time: w.in(t)} }

// Exactly returns a time in the zone of the words, to be shown to the millisecond.
func (w Words) Exactly(t time.Time) Clock { return Clock{Time: w.in(t), Exact: true} }

// in returns a time in the zone; the zero time, which means none, stays zero.
func (w Words) in(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(w.Zone())
}
