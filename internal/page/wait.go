package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
	"sendcode/quota"
	"sendcode/web"
)

// minWaitShownAsClock is the wait from which on the time of the day says more than a count of seconds.
// page.js has it too.
const minWaitShownAsClock = 10 * time.Minute

// relativeTime is a time ahead or behind. The script writes it as a time of the reader's day, Else is for
// all others.
type relativeTime struct {
	MS      int64  // from now, negative when behind
	Pattern string // with {c}, and {d} for the duration until then
	Round   string // of the time of the day: "up" to the next minute, else down to the minute
	Else    string
}

// Placeholder returns a text about as long as what the script will write in place of Else. The page
// keeps room for it, so that nothing moves then.
func (m relativeTime) Placeholder() string {
	return fill(m.Pattern, "c", "00:00 0000")
}

// relativeTimeIn returns the moment in d, or -d ago; pattern and otherwise are its Pattern and Else.
func relativeTimeIn(d time.Duration, pattern, otherwise string) relativeTime {
	return relativeTime{MS: d.Milliseconds(), Pattern: pattern, Else: otherwise}
}

// minutesAndSeconds returns a wait as 0:42, rounded up, so that it is never 0:00 before its end.
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

// countdown returns a wait that the script counts down, and what it shows before the script runs.
// The texts' keys begin with key: In has digits or a duration, At the time of the day, from ten
// minutes on, and Else, where In has digits, a duration in its place. done stands at the end.
func (t words) countdown(key string, d time.Duration, done string) (wait web.PageCountdown, now string) {
	wait = web.PageCountdown{MS: quota.Milliseconds(d), Short: t[key+"In"], Long: t[key+"At"], Done: done}
	if d < minWaitShownAsClock {
		return wait, fill(wait.Short, "t", minutesAndSeconds(d), "d", t.durationRoundedUp(d))
	}
	return wait, fill(cmp.Or(t[key+"Else"], wait.Short), "d", t.durationRoundedUp(d))
}

// waitInMinutes is countdown for a button's description, which a screen reader may say again
// whenever it changes: it changes with the minutes alone.
func (t words) waitInMinutes(d time.Duration) (wait web.PageCountdown, now string) {
	wait = web.PageCountdown{MS: quota.Milliseconds(d), Short: t["AvailableWithin"], Long: t["AgainClock"]}
	if d < minWaitShownAsClock {
		return wait, fill(wait.Short, "d", t.durationRoundedUp((d + time.Minute - 1).Truncate(time.Minute)))
	}
	return wait, t.fill("AgainElse", "d", t.durationRoundedUp(d))
}

// fewPlacesLeft is how many places may be left of a rule before the card shows its rules unasked.
const fewPlacesLeft = 2

// addRules adds the rules to a card: folded while all but the shortest of the recipient's rules
// have many places left.
func (l *visit) addRules(k *card) {
	rules := l.answer.Quota.Rules
	k.Rows = l.t.quotaPips(l.answer.Quota)
	var shortest time.Duration
	for _, s := range rules {
		if s.Scope == quota.Recipient && (shortest == 0 || s.Window < shortest) {
			shortest = s.Window
		}
	}
	k.RulesOpen = slices.ContainsFunc(rules, func(s quota.State) bool {
		if s.Scope != quota.Recipient {
			return s.RetryAfter > 0 && sharedRuleKey(s.Scope) != ""
		}
		return s.Remaining() <= fewPlacesLeft && (s.Limit > fewPlacesLeft || s.Window > shortest)
	})
}

// quotaPips returns the dots that show how much of each rule is used: the recipient's rules, and a
// rule of a network or of all only while it refuses.
func (t words) quotaPips(d quota.Decision) []web.Pips {
	var rows []web.Pips
	for _, s := range d.Rules {
		p, name := web.PipsOf(s), t[sharedRuleKey(s.Scope)]
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

// sharedRuleKey returns the key of the name of a rule that is not the recipient's; "" if it is not
// shown.
func sharedRuleKey(s quota.Scope) string {
	switch s {
	case quota.IP, quota.Network:
		return "YourNetwork"
	case quota.App, quota.Purpose, quota.Global, policy.Everything:
		return "AllTogether"
	}
	return ""
}

// namedWindows are the windows of the default rules, by name.
var namedWindows = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// timeSpanKey returns the key of the name of a rule's time span; "" for a span without a name of
// its own.
func timeSpanKey(r quota.Rule) string {
	switch {
	case r.Name == verification.CarrierRule:
		return "CarrierRule"
	case r.Days == 1:
		return "Today"
	case r.Per != "":
		return map[quota.Period]string{quota.Hour: "ThisHour", quota.Day: "Today", quota.Week: "ThisWeek",
			quota.Month: "ThisMonth"}[r.Per]
	case r.Days == 0 && r.Window == namedWindows[r.Name]:
		return map[string]string{"minute": "PerMinute", "hour": "PerHour", "day": "PerDay"}[r.Name]
	}
	return ""
}

// ruleName returns the name of a rule's time span.
func (t words) ruleName(r quota.Rule) string {
	const day = 24 * time.Hour
	switch key := timeSpanKey(r); {
	case key != "":
		return t[key]
	case r.Days > 0:
		return t.fill("Within", "d", t.plural("Days", r.Days))
	case r.Window >= 2*day && r.Window%day == 0:
		return t.fill("Within", "d", t.plural("Days", int(r.Window/day)))
	}
	return t.fill("Within", "d", t.durationRoundedUp(r.Window))
}
