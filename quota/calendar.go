package quota

import "time"

// Period is the unit in which a calendar rule counts: the clock hour, day, week or month.
type Period string

// The periods. A week begins on Monday (ISO 8601), a month on its first day.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// maxTurnBack is the most by which a period may be longer than usual, because a zone turns its
// clock back. No zone has turned its clock back by more than this, except to move across the date
// line. A period that would be longer is cut off.
const maxTurnBack = 4 * time.Hour

// Calendar reports whether the rule counts by a calendar, in periods or dates, and not in a sliding
// window.
func (r Rule) Calendar() bool { return r.Per != "" || r.Days != 0 }

// Keep returns the longest time for which an event can count for the rule. For a rule with a
// sliding window, Keep returns the window. For a calendar rule, Keep returns the greatest possible
// length of the period or of the dates.
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
	return longest + maxTurnBack
}

// Period returns the span in which a calendar rule counts events at the instant now. With Per, the
// span is the hour, day, week or month that contains the instant now. With Days, the span is the
// current local date and the Days-1 dates before it. The end is exclusive. The bounds are local
// times of the rule's zone. If a clock change skips a local time, the bound is the instant of the
// change. If a local time occurs twice, the bound is the first of the two instants. So a day lasts
// 23, 24 or 25 hours, and a repeated hour lasts two hours. A date that the zone skipped still
// counts as one of the dates. The span of a rule with Window ends now.
func (r Rule) Period(now time.Time) (start, end time.Time) {
	if !r.Calendar() {
		return now.Add(-r.Window), now
	}
	if r.Days == 0 {
		_, start, end = r.periodAround(now)
		return start, end
	}
	wall, _, end := r.daysAsOneDay().periodAround(now)
	start = time.Unix(firstInstantOf(wall-int64(r.Days-1)*secondsPerDay, r.zone()), 0).UTC()
	if first := end.Add(-r.Keep()); first.After(start) {
		start = first
	}
	return start, end
}

// daysAsOneDay returns a rule with Days as a rule of one calendar day. The result is used to find
// when a date begins, because the span of a rule with Days moves at that instant. Other rules are
// returned unchanged.
func (r Rule) daysAsOneDay() Rule {
	if r.Days > 0 {
		r.Per, r.Days = Day, 0
	}
	return r
}

// expiryByDate returns the instant at which a rule with Days stops counting an event that happened
// at the given instant. The result is the start of the date that is Days dates after the event's
// date. The result is never after the start of the date on which the duration Keep has passed since
// the event.
func (r Rule) expiryByDate(at time.Time) time.Time {
	wall, _, _ := r.daysAsOneDay().periodAround(at)
	end := time.Unix(firstInstantOf(wall+int64(r.Days)*secondsPerDay, r.zone()), 0).UTC()
	if _, lastKept, _ := r.daysAsOneDay().periodAround(at.Add(r.Keep())); lastKept.Before(end) {
		return lastKept
	}
	return end
}

// periodAround returns the period that contains the instant now. The result wall is the local time
// at which the period began. periodAround ignores Days.
func (r Rule) periodAround(now time.Time) (wall int64, start, end time.Time) {
	zone := r.zone()
	wall = r.wallStart(now.In(zone))
	from, to := firstInstantOf(wall, zone), firstInstantOf(r.nextPeriodStart(wall), zone)
	at := now.Unix()
	for at >= to { // the zone's clock showed the end already, before it was turned back
		wall = r.nextPeriodStart(wall)
		from, to = to, firstInstantOf(r.nextPeriodStart(wall), zone)
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

// periodStarts returns the starts of four periods: the previous period, the current period and the
// next two periods. For a rule with Days, each period is one date. The four starts are for the
// limiter's script in Redis, which uses its own clock. Even if that clock differs a little from the
// instant now, the script finds the start of its current period among them.
func (r Rule) periodStarts(now time.Time) [4]time.Time {
	one := r.daysAsOneDay()
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

// cutoff returns the rule's cutoff at the instant now. An event counts if it is later than the
// cutoff. Both instants are in µs since 1970.
func (r Rule) cutoff(now int64) int64 {
	if !r.Calendar() {
		return now - r.Window.Microseconds()
	}
	start, _ := r.Period(microsToTime(now))
	return start.UnixMicro() - 1
}

// A wall time is the reading of a local clock, in seconds since 1970 as if the zone were UTC.

const secondsPerDay = 24 * 60 * 60

// wallStart returns the wall time at which the period of t began.
func (r Rule) wallStart(t time.Time) int64 {
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

// nextPeriodStart returns the wall time at which a period ends. The parameter start is the wall
// time at which the period begins.
func (r Rule) nextPeriodStart(start int64) int64 {
	t := time.Unix(start, 0).UTC()
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

// firstInstantOf returns the first instant, in seconds since 1970, at which the zone's clock shows
// the wall time or a later one. It walks through the changes of the zone's offset, because
// time.Date may return either of two possible instants.
func firstInstantOf(wall int64, zone *time.Location) int64 {
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
