package texts

import (
	"fmt"
	"time"
)

// In are the words with the zone that a page shows its times in.
func (w Words) In(zone *time.Location) Words {
	w.zone = zone
	return w
}

// Zone is that of the times, UTC unless there is another.
func (w Words) Zone() *time.Location {
	if w.zone == nil {
		return time.UTC
	}
	return w.zone
}

// ZoneName says how far the zone is from UTC at a time: "UTC+8", "UTC−3:30".
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

// Clock is a time of a page, to the second.
func (w Words) Clock(t time.Time) Clock { return Clock{Time: w.in(t)} }

// Exactly is a time of a page, to the millisecond.
func (w Words) Exactly(t time.Time) Clock { return Clock{Time: w.in(t), Exact: true} }

// in leaves no time as it is: the zero time says that there is none.
func (w Words) in(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(w.Zone())
}
