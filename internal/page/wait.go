package page

import (
	"fmt"
	"strconv"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/verification"
	"sendcode/quota"
	"sendcode/web"
)

// clockFrom is the wait from which on the time of the day says more than a count of seconds. page.js has it too.
const clockFrom = 10 * time.Minute

// until is a moment ahead or behind. The script writes it as a time of the reader's day, Else is for all others.
type until struct {
	MS      int64  // from now, negative when behind
	Pattern string // with {c}, and {d} for the duration until then
	Round   string // of the time of the day: "up" to the next minute, to the "second", else down to the minute
	Else    string
}

// Like returns a text about as long as what the script will write.
func (u until) Like() string {
	like := "00:00 0000"
	if u.Round == "second" {
		like = "00:00:00 0000"
	}
	return fill(u.Pattern, "c", like)
}

func at(d time.Duration, pattern, otherwise string) until {
	return until{MS: d.Milliseconds(), Pattern: pattern, Else: otherwise}
}

// counted is a wait that the script counts down.
func counted(d time.Duration, short, long, done string) web.Wait {
	return web.Wait{MS: quota.Milliseconds(d), Short: short, Long: long, Done: done}
}

// digits returns a wait as 0:42, rounded up, so that it is never 0:00 before its end.
func digits(d time.Duration) string {
	s := quota.Seconds(d)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// durationUp returns a duration in words, rounded up: 42 s, 28 min, 3 h 20 min.
func (t *cardTexts) durationUp(d time.Duration) string {
	seconds := quota.Seconds(d)
	minutes := (seconds + 59) / 60
	switch {
	case seconds < 60:
		return fill(t.Seconds, "s", strconv.Itoa(seconds))
	case minutes < 60:
		return fill(t.Minutes, "m", strconv.Itoa(minutes))
	case minutes%60 == 0:
		return fill(t.Hours, "h", strconv.Itoa(minutes/60))
	}
	return fill(t.HoursMinutes, "h", strconv.Itoa(minutes/60), "m", strconv.Itoa(minutes%60))
}

// durationDown returns a duration in words, rounded down: 9 min; under a minute in seconds.
func (t *cardTexts) durationDown(d time.Duration) string {
	if d < time.Minute {
		return t.durationUp(max(d.Truncate(time.Second), time.Second))
	}
	return t.durationUp(d.Truncate(time.Minute))
}

// ticking returns what a countdown shows before the script runs: digits, or words from ten minutes on.
func (t *cardTexts) ticking(d time.Duration, short, otherwise string) string {
	if d < clockFrom {
		return fill(short, "t", digits(d), "d", t.durationUp(d))
	}
	return fill(otherwise, "d", t.durationUp(d))
}

// pips returns the dots that show how much of each rule is used: the recipient's rules, and a rule of a network or of all only
// while it refuses.
func (t *cardTexts) pips(d quota.Decision) []web.Pips {
	var rows []web.Pips
	for _, s := range d.Rules {
		p, name := web.PipsOf(s), t.wideName(s.Scope)
		switch {
		case s.Scope.Base() == quota.Recipient:
			p.Name = t.ruleName(s.Rule)
			p.Spoken = fill(t.PipsSpoken, "used", strconv.Itoa(p.Used), "limit", strconv.Itoa(p.Limit))
		case p.Blocked && name != "":
			p = web.Pips{Name: name, Blocked: true}
		default:
			continue
		}
		switch {
		case p.Blocked:
			p.Note = t.ticking(s.RetryAfter, t.PipsIn, t.PipsElse)
			p.Wait = counted(s.RetryAfter, t.PipsIn, t.PipsAt, t.count(t.PipsLeft, 1))
		default:
			p.Note = t.count(t.PipsLeft, s.Remaining())
		}
		rows = append(rows, p)
	}
	return rows
}

// wideName returns the name of a rule that is not the recipient's; "" if it is not shown.
func (t *cardTexts) wideName(s quota.Scope) string {
	switch s.Base() {
	case quota.IP, quota.Network:
		return t.YourNetwork
	case quota.App, quota.Purpose, quota.Global, policy.Everything:
		return t.AllTogether
	}
	return ""
}

// ruleName returns the name of a rule's time span.
func (t *cardTexts) ruleName(r quota.Rule) string {
	if r.Name == verification.CarrierRule {
		return t.CarrierRule
	}
	switch {
	case r.Days == 1:
		return t.Today
	case r.Days > 1:
		return fill(t.Within, "d", t.count(t.Days, r.Days))
	}
	switch r.Per {
	case quota.Hour:
		return t.ThisHour
	case quota.Day:
		return t.Today
	case quota.Week:
		return t.ThisWeek
	case quota.Month:
		return t.ThisMonth
	}
	switch {
	case r.Name == "minute" && r.Window == time.Minute:
		return t.PerMinute
	case r.Name == "hour" && r.Window == time.Hour:
		return t.PerHour
	case r.Name == "day" && r.Window == 24*time.Hour:
		return t.PerDay
	case r.Window >= 48*time.Hour && r.Window%(24*time.Hour) == 0:
		return fill(t.Within, "d", t.count(t.Days, int(r.Window/(24*time.Hour))))
	}
	return fill(t.Within, "d", t.durationUp(r.Window))
}
