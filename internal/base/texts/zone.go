package texts

import (
	"fmt"
	"time"
)

// In returns the same words with another time zone for the times that a page shows.
func (w Words) In(zone *time.Location) Words {
	w.zone = zone
	return w
}

// Zone returns the time zone that In set; UTC without one.
func (w Words) Zone() *time.Location {
	if w.zone == nil {
		return time.UTC
	}
	return w.zone
}

// UTCOffset returns the time zone's offset from UTC at a time: "UTC+8", "UTC−3:30".
func (w Words) UTCOffset(at time.Time) string {
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

// Clock returns a time in the time zone of the words. Pages show the time without milliseconds.
func (w Words) Clock(t time.Time) DisplayTime { return DisplayTime{Time: w.inZone(t)} }

// WithMilliseconds returns a time in the time zone of the words. Pages show the time with
// milliseconds.
func (w Words) WithMilliseconds(t time.Time) DisplayTime {
	return DisplayTime{Time: w.inZone(t), Exact: true}
}

// inZone returns a time in the time zone of the words. The zero time means that there is no time,
// so inZone returns it unchanged.
func (w Words) inZone(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(w.Zone())
}
