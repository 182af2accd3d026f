package page

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/web"
)

// minWaitShownAsClock is the shortest wait that is told by the time of the day at its end, and not
// by a count of seconds. clockFrom of static/time.js has the same value.
const minWaitShownAsClock = 10 * time.Minute

// relativeTime is a time, relative to the answer, in a text. The script writes it as a time of the
// day; readers without scripts get Else.
type relativeTime struct {
	MS      int64  // from now; negative: in the past
	Pattern string // with {c}, and {d} for the duration until then
	Round   string // "up": the time of the day is rounded up to a minute; else down
	Else    string
	// with {d}: a countdown in place of Pattern if the clocks change before that time, or the browser tells no time zone; "": there is none
	Counted string
}

// Placeholder returns a text about as long as the one that the script will write. The page reserves
// its room, so that nothing moves.
func (m relativeTime) Placeholder() string {
	return fill(m.Pattern, "c", "00:00 0000")
}

// relativeTimeIn returns the time that is d from now; with a negative d it is in the past. pattern
// and otherwise are its Pattern and Else.
func relativeTimeIn(d time.Duration, pattern, otherwise string) relativeTime {
	return relativeTime{MS: d.Milliseconds(), Pattern: pattern, Else: otherwise}
}

// validity returns the time that a code is valid for, by the keys of two texts: the time of the day
// when it ends, and how long that is.
func (t words) validity(until, otherwise string, left time.Duration) relativeTime {
	m := relativeTimeIn(left, t[until], t.fill(otherwise, "d", t.durationRoundedDown(left)))
	m.Counted = t[otherwise]
	return m
}

// minutesAndSeconds returns a wait as 0:42. It rounds up, so that 0:00 never appears before the
// end.
func minutesAndSeconds(d time.Duration) string {
	s := quota.Seconds(d)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// durationRoundedUp returns a duration in words, rounded up: 42 s, 28 min, 3 h 20 min.
func (t words) durationRoundedUp(d time.Duration) string { return texts.DurationRoundedUp(t, d) }

// durationRoundedDown returns a duration in words, rounded down: 9 min; under a minute in seconds.
func (t words) durationRoundedDown(d time.Duration) string {
	if d < time.Minute {
		return t.durationRoundedUp(max(d.Truncate(time.Second), time.Second))
	}
	return t.durationRoundedUp(d.Truncate(time.Minute))
}

// countdown returns a wait that the script counts down, and its text until the script runs. The
// text key+"In" is for waits below ten minutes. For longer ones, key+"At" has the time of the day;
// until the script runs, key+"Else" is shown or, if there is none, key+"In". done is the text after
// the wait.
func (t words) countdown(key string, d time.Duration, done string) (wait web.PageCountdown, now string) {
	wait = web.PageCountdown{MS: quota.Milliseconds(d), Short: t[key+"In"], Long: t[key+"At"], Done: done}
	if d < minWaitShownAsClock {
		return wait, fill(wait.Short, "t", minutesAndSeconds(d), "d", t.durationRoundedUp(d))
	}
	return wait, fill(cmp.Or(t[key+"Else"], wait.Short), "d", t.durationRoundedUp(d))
}

// waitInMinutes is countdown for a button's description. A screen reader may say the description
// again whenever it changes, so it changes only once a minute.
func (t words) waitInMinutes(d time.Duration) (wait web.PageCountdown, now string) {
	wait = web.PageCountdown{MS: quota.Milliseconds(d), Short: t["AvailableWithin"], Long: t["AgainClock"]}
	if d < minWaitShownAsClock {
		return wait, fill(wait.Short, "d", t.durationRoundedUp((d + time.Minute - 1).Truncate(time.Minute)))
	}
	return wait, t.fill("AgainElse", "d", t.durationRoundedUp(d))
}

// quotaPips returns the pips of each rule of the recipient, and of a rule of a network or an app
// only while it refuses.
func (t words) quotaPips(rules []quota.State) []web.Pips {
	var rows []web.Pips
	for _, s := range rules {
		p, name := web.PipsOf(s), t[sharedRuleTextKey(s.Scope)]
		switch {
		case s.Scope == quota.Recipient:
			p.Name = t.ruleName(s.Rule)
			p.Spoken = t.fill("PipsSpoken", "used", strconv.Itoa(p.Used), "limit", strconv.Itoa(p.Limit))
		case p.Blocked && name != "":
			p = web.Pips{Name: name, Blocked: true}
		default:
			continue
		}
		p.Note = t.plural("PipsLeft", s.Remaining())
		if p.Blocked {
			p.Wait, p.Note = t.countdown("Pips", s.RetryAfter, t.plural("PipsLeft", 1))
		}
		rows = append(rows, p)
	}
	return rows
}

// sharedRuleTextKey returns the key of the name of a rule that counts more than one recipient's
// sends; "" if the page does not show it.
func sharedRuleTextKey(s quota.Scope) string {
	switch s {
	case quota.IP, quota.Network:
		return "YourNetwork"
	case quota.App, quota.Purpose, quota.Global, policy.BreakerScope:
		return "AllTogether"
	}
	return ""
}

// namedWindows are the windows of the default rules, by name.
var namedWindows = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// timeSpanTextKey returns the key of the name of a rule's time span, such as Today; "" if the span
// has no name.
func timeSpanTextKey(r quota.Rule) string {
	switch {
	case r.Name == verification.CarrierRuleName:
		return "CarrierRule"
	case r.Days == 1:
		return "Today"
	case r.Per != "":
		return map[quota.Period]string{
			quota.Hour: "ThisHour", quota.Day: "Today", quota.Week: "ThisWeek",
			quota.Month: "ThisMonth",
		}[r.Per]
	case r.Days == 0 && r.Window == namedWindows[r.Name]:
		return map[string]string{"minute": "PerMinute", "hour": "PerHour", "day": "PerDay"}[r.Name]
	}
	return ""
}

// ruleName returns the name of a rule's time span.
func (t words) ruleName(r quota.Rule) string {
	const day = 24 * time.Hour
	switch key := timeSpanTextKey(r); {
	case key != "":
		return t[key]
	case r.Days > 0:
		return t.fill("Within", "d", t.plural("Days", r.Days))
	case r.Window >= 2*day && r.Window%day == 0:
		return t.fill("Within", "d", t.plural("Days", int(r.Window/day)))
	}
	return t.fill("Within", "d", t.durationRoundedUp(r.Window))
}
