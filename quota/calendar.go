package quota

import "time"

// Period is the calendar period of a rule. A week begins on Monday (ISO 8601).
type Period string

const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// maxTurnBack is the most by which turning a clock back can lengthen a period. periodAround cuts a
// longer period. No zone has ever turned its clock back further, except to move across the date
// line.
const maxTurnBack = 4 * time.Hour

// Calendar reports whether the rule counts in periods or dates, and not in a sliding window.
func (r Rule) Calendar() bool { return r.Per != "" || r.Days != 0 }

// Keep returns the longest time for which the rule can count an event: its window or, for a
// calendar rule, the greatest possible length of the period or dates.
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

// Period returns the span, without its end, in which a calendar rule counts events at now: the
// hour, day, week or month around now or, with Days, the current date and the Days-1 dates before
// it. For a rule with Window, start is now−Window and end is now.
//
// The bounds are local times of the rule's zone. If a clock change skips such a time, the bound is
// the instant of the change. If such a time occurs twice, the bound is the first occurrence. A day
// with a clock change therefore lasts 23 or 25 hours in most zones, and a repeated hour lasts two.
// A date that the zone skipped counts as one of the dates.
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

// daysAsOneDay returns a rule with Days as a rule of one calendar day, to find when a date begins:
// only then does what a rule with Days counts move. It returns other rules as they are.
func (r Rule) daysAsOneDay() Rule {
	if r.Days > 0 {
		r.Per, r.Days = Day, 0
	}
	return r
}

// expiryByDate returns when a rule with Days stops counting an event: at the start of the date that
// is Days dates after the event's date, but no later than the start of the date on which the event
// gets as old as Keep.
func (r Rule) expiryByDate(at time.Time) time.Time {
	wall, _, _ := r.daysAsOneDay().periodAround(at)
	end := time.Unix(firstInstantOf(wall+int64(r.Days)*secondsPerDay, r.zone()), 0).UTC()
	if _, lastKept, _ := r.daysAsOneDay().periodAround(at.Add(r.Keep())); lastKept.Before(end) {
		return lastKept
	}
	return end
}

// periodAround returns the period around now, and the wall time at which it began. It ignores Days.
func (r Rule) periodAround(now time.Time) (wall int64, start, end time.Time) {
	zone := r.zone()
	wall = r.wallStart(now.In(zone))
	from, to := firstInstantOf(wall, zone), firstInstantOf(r.nextPeriodStart(wall), zone)
	at := now.Unix()
	for at >= to { // the zone's clock showed the end already, before it was turned back
		wall = r.nextPeriodStart(wall)
		from, to = to, firstInstantOf(r.nextPeriodStart(wall), zone)
	}
	for longest := int64(r.Keep() / time.Second); to-from > longest; {
		if at < from+longest {
			to = from + longest
		} else {
			from += longest
		}
	}
	return wall, time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC()
}

// periodStarts returns the starts of the previous, the current and the next two periods or, with
// Days, dates. Among them, take.lua finds the current one even if Redis's clock differs a little
// from now.
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

// cutoff returns an instant in µs since 1970, like now. An event counts if it is later than this
// instant.
func (r Rule) cutoff(now int64) int64 {
	if !r.Calendar() {
		return now - r.Window.Microseconds()
	}
	start, _ := r.Period(microsToTime(now))
	return start.UnixMicro() - 1
}

// A wall time is the time that a local clock shows, in seconds since 1970 as if the zone were UTC.

const secondsPerDay = 24 * 60 * 60

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
// the wall time or a later one. time.Date won't do, because it may return either of two such
// instants.
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
