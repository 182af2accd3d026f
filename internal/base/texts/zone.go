package texts

import (
	"fmt"
	"strconv"
	"time"
)

// WithZone returns the same words with another time zone for the times that a page shows.
func (w Words) WithZone(zone *time.Location) Words {
	w.zone = zone
	return w
}

// Zone returns the time zone that WithZone set, or UTC.
func (w Words) Zone() *time.Location {
	if w.zone == nil {
		return time.UTC
	}
	return w.zone
}

// UTCOffset returns the zone's offset at a time, as in "UTC+8" or "UTC−3:30".
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

// Clock shows a time without milliseconds, in the time zone of the words.
func (w Words) Clock(t time.Time) DisplayTime { return DisplayTime{Time: w.inZone(t)} }

// WithMilliseconds is Clock with milliseconds.
func (w Words) WithMilliseconds(t time.Time) DisplayTime {
	return DisplayTime{Time: w.inZone(t), Exact: true}
}

// DisplayDay is a time of which a page shows only Text, such as the day.
type DisplayDay struct {
	DisplayTime
	Text string // "26 Dec"; of NearDay also "Friday" or "15:04"
}

// Day returns the day in the time zone of the words, with the year if it isn't that of now.
func (w Words) Day(t, now time.Time) DisplayDay {
	d, key := w.Clock(t), "day"
	if d.Year() != w.inZone(now).Year() {
		key = "day.year"
	}
	return DisplayDay{d, d.Format(w.Get(key))}
}

// NearDay is [Words.Day] for a sentence. The text is the weekday for a day less than a week away,
// and hours and minutes for today.
func (w Words) NearDay(t, now time.Time) DisplayDay {
	d, today := w.Day(t, now), w.inZone(now)
	noon := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 12, 0, 0, 0, time.UTC) }
	switch days := int(noon(d.Time).Sub(noon(today)) / (24 * time.Hour)); {
	case days == 0:
		d.Text = d.Format("15:04")
	case -7 < days && days < 7:
		d.Text = w.Get("weekday." + strconv.Itoa(int(d.Weekday())))
	}
	return d
}

// inZone leaves the zero time unchanged, because it means that there is no time.
func (w Words) inZone(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(w.Zone())
}
