package quota

import "time"

// Period is what a calendar rule counts in: the clock hour, day, week or month that an instant falls into.
type Period string

// The periods. A week begins on Monday (ISO 8601), a month on its first day.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// slack is how much longer than usual a period may be, because a zone turned its clock back. No zone has turned its
// clock back by more, but for those that moved across the date line; there a period ends early.
const slack = 4 * time.Hour

// Calendar reports whether the rule counts by a calendar, in periods or dates, and not in a sliding window.
func (r Rule) Calendar() bool { return r.Per != "" || r.Days != 0 }

// Keep is for how long the rule may need an event: its window, or the longest that its period or its dates can last.
func (r Rule) Keep() time.Duration {
	const day = 24 * time.Hour
	longest := 31 * day
	switch {
	case !r.Calendar():
		return r.Window
	case r.Per == "":
		longest = time.Duration(r.Days) * day
	case r.Per == Hour:
		longest = time.Hour
	case r.Per == Day:
		longest = day
	case r.Per == Week:
		longest = 7 * day
	}
	if r.zone() == time.UTC {
		return longest
	}
	return longest + slack
}

// Period gives the bounds of what a calendar rule counts at now: the period that now falls into, or all dates of a rule with
// Days, from its start to just before its end.
// They are local times of the rule's zone. A local time that a turn of the clock skips is the turn itself, and of one that
// occurs twice the first counts: days last 23, 24 or 25 hours, and an hour that is lived twice is one of two hours. A date
// that a zone left out is one of the dates all the same.
func (r Rule) Period(now time.Time) (start, end time.Time) {
	if r.Days == 0 {
		_, start, end = r.period(now)
		return start, end
	}
	wall, _, end := r.daily().period(now)
	start = time.Unix(reach(wall-int64(r.Days-1)*dayOnTheWall, r.zone()), 0).UTC()
	if first := end.Add(-r.Keep()); first.After(start) {
		start = first
	}
	return start, end
}

// daily is the rule of one date: what a rule with Days counts changes when a date begins.
func (r Rule) daily() Rule {
	if r.Days > 0 {
		r.Per, r.Days = Day, 0
	}
	return r
}

// leaves is the instant from which a rule with Days counts an event no more: the beginning of the date that is so many after its own.
func (r Rule) leaves(at time.Time) time.Time {
	wall, _, _ := r.daily().period(at)
	end := time.Unix(reach(wall+int64(r.Days)*dayOnTheWall, r.zone()), 0).UTC()
	if _, kept, _ := r.daily().period(at.Add(r.Keep())); kept.Before(end) {
		return kept
	}
	return end
}

// period is that of now, and the wall at which it began.
func (r Rule) period(now time.Time) (wall int64, start, end time.Time) {
	zone := r.zone()
	wall = r.floor(now.In(zone))
	from, to := reach(wall, zone), reach(r.next(wall), zone)
	at := now.Unix()
	for at >= to { // the clock had been past it before it was turned back
		wall = r.next(wall)
		from, to = to, reach(r.next(wall), zone)
	}
	for most := int64(r.Keep() / time.Second); to-from > most; {
		if at < from+most {
			to = from + most
		} else {
			from += most
		}
	}
	return wall, time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC()
}

// Turns are the four instants around now at which periods of a calendar rule begin: of the one before, of this one and
// of the two after it. Who decides on a clock that the caller does not read finds its period between them, or is outside.
// Those of a rule with Days are the beginnings of dates: with each of them another date counts.
func (r Rule) Turns(now time.Time) [4]time.Time {
	one := r.daily()
	start, end := one.Period(now)
	before, _ := one.Period(start.Add(-time.Microsecond))
	_, after := one.Period(end)
	return [4]time.Time{before, start, end, after}
}

func (r Rule) zone() *time.Location {
	if r.Zone == nil {
		return time.UTC
	}
	return r.Zone
}

// cutoff is the µs since 1970 after which an event counts at now.
func (r Rule) cutoff(now int64) int64 {
	if !r.Calendar() {
		return now - r.Window.Microseconds()
	}
	start, _ := r.Period(instant(now))
	return start.UnixMicro() - 1
}

// Walls are what a clock on the wall shows, as seconds since 1970 in a zone that never turns its clock.

const dayOnTheWall = 24 * 60 * 60

// floor is the wall at which the period of t began.
func (r Rule) floor(t time.Time) int64 {
	year, month, day := t.Date()
	hour := 0
	switch r.Per {
	case Hour:
		hour = t.Hour()
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
	case Month:
		day = 1
	}
	return time.Date(year, month, day, hour, 0, 0, 0, time.UTC).Unix()
}

// next is the wall at which the period after that of the wall begins.
func (r Rule) next(wall int64) int64 {
	t := time.Unix(wall, 0).UTC()
	switch r.Per {
	case Hour:
		t = t.Add(time.Hour)
	case Day:
		t = t.AddDate(0, 0, 1)
	case Week:
		t = t.AddDate(0, 0, 7)
	case Month:
		t = t.AddDate(0, 1, 0)
	}
	return t.Unix()
}

// reach is the first second since 1970 in which the zone's clock shows the wall or later. time.Date does not promise
// which of two instants it gives, so the zone's turns are gone through.
func reach(wall int64, zone *time.Location) int64 {
	const ahead = 26 * 60 * 60 // more than any zone is ahead of UTC
	for t := time.Unix(wall-ahead, 0).In(zone); ; {
		_, offset := t.Zone()
		_, turn := t.ZoneBounds()
		at := max(t.Unix(), wall-int64(offset))
		if turn.IsZero() || at < turn.Unix() {
			return at
		}
		t = turn
	}
}
