// Package quotahttp says a quota.Decision in HTTP: the headers RateLimit-Policy, RateLimit and Retry-After, and the
// members of a JSON answer. It is the only place where that is written: the service's API and the middleware in package
// echoquota both use it, so that a client reads one language. It decides nothing and writes no answer itself.
package quotahttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"sendcode/quota"
)

// Quota is a decision as programs read it. Durations are whole seconds, rounded up.
type Quota struct {
	Allowed    bool   `json:"allowed"`
	RetryAfter int    `json:"retry_after"`          // 0 when allowed, else at least 1
	RetryAt    string `json:"retry_at,omitempty"`   // RFC 3339, UTC, to the ms, rounded up
	BlockedBy  string `json:"blocked_by,omitempty"` // the rule that blocks longest
	Rules      []Rule `json:"rules"`
}

// Rule is what one rule says.
type Rule struct {
	Name       string `json:"name"`
	Scope      string `json:"scope,omitempty"`
	Limit      int    `json:"limit"`
	Window     int    `json:"window"`         // of a calendar rule the length of its current period, or of the dates that it counts now
	Per        string `json:"per,omitempty"`  // hour, day, week or month of a calendar rule
	Days       int    `json:"days,omitempty"` // of a rule that counts today and so many dates less one before it
	Remaining  int    `json:"remaining"`
	ResetAfter int    `json:"reset_after"` // until the oldest counted event leaves, 0 if there is none
	RetryAfter int    `json:"retry_after"` // until this rule lets one more in, 0 if it does now
}

// Describe is the decision as a JSON answer shows it, told of what limits the client alone.
func Describe(d quota.Decision) *Quota {
	d = d.Public()
	out := &Quota{Allowed: d.Allowed(), RetryAfter: quota.Seconds(d.RetryAfter()), Rules: []Rule{}}
	if worst, blocked := d.Blocking(); blocked {
		out.BlockedBy = worst.Name
		out.RetryAt = instant(d.At.Add(d.RetryAfter()).Add(time.Millisecond - 1)) // rounded up, never early
	}
	for _, s := range d.Rules {
		out.Rules = append(out.Rules, Rule{
			Name: s.Name, Scope: string(s.Scope.Base()), Limit: s.Limit, Window: quota.Seconds(s.Window), Per: string(s.Per), Days: s.Days,
			Remaining: s.Remaining(), ResetAfter: quota.Seconds(s.ResetAfter), RetryAfter: quota.Seconds(s.RetryAfter),
		})
	}
	return out
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// SetRateLimit writes RateLimit-Policy and RateLimit as structured fields (draft-ietf-httpapi-ratelimit-headers-10):
// every rule as a policy, and the one rule that a client has to mind first. No partition key is sent: it could only
// come from whom the rule counts. A decision without rules, or with none that limits the client, writes nothing.
func SetRateLimit(h http.Header, d quota.Decision) error {
	d = d.Public()
	if len(d.Rules) == 0 {
		return nil
	}
	policies := list{text: make([]byte, 0, 40*len(d.Rules))}
	for _, s := range d.Rules {
		policies.item(s.Name, "q", s.Limit)
		if s.Days == 0 { // no window says when events that count by dates leave
			policies.parameter("w", quota.Seconds(s.Window))
		}
	}
	next, left := tightest(d)
	limits := list{text: make([]byte, 0, 40)}
	limits.item(next.Name, "r", next.Remaining())
	limits.parameter("t", quota.Seconds(left))
	if err := errors.Join(policies.err, limits.err); err != nil {
		return err
	}
	h[headerPolicy] = []string{string(policies.text)}
	h[headerLimit] = []string{string(limits.text)}
	return nil
}

// RateLimit-Policy and RateLimit as http.Header has them.
const (
	headerPolicy = "Ratelimit-Policy"
	headerLimit  = "Ratelimit"
)

// tightest is the rule that blocks longest or, when none does, the one with the least left; and the time until it
// lets more in.
func tightest(d quota.Decision) (quota.State, time.Duration) {
	if s, blocked := d.Blocking(); blocked {
		return s, s.RetryAfter
	}
	least := d.Rules[0]
	for _, s := range d.Rules[1:] {
		if s.Remaining() < least.Remaining() {
			least = s
		}
	}
	return least, least.ResetAfter
}

// list is a list of structured fields (RFC 9651 section 3.1) as it goes over the wire. It is written by hand, since a send has two of
// them; the tests compare it with what a library writes.
type list struct {
	text []byte
	err  error
}

// item appends a string with a parameter that is an integer. More of them may follow.
func (l *list) item(name, key string, value int) {
	if len(l.text) > 0 {
		l.text = append(l.text, ", "...)
	}
	l.string(name)
	l.parameter(key, value)
}

// string appends a string (RFC 9651 section 4.1.6).
func (l *list) string(s string) {
	l.text = append(l.text, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			l.err = errNotASCII
		case c == '"', c == '\\':
			l.text = append(l.text, '\\', c)
		default:
			l.text = append(l.text, c)
		}
	}
	l.text = append(l.text, '"')
}

// maxInteger is the largest integer that a structured field has (RFC 9651 section 3.3.1).
const maxInteger = 999_999_999_999_999

func (l *list) parameter(name string, value int) {
	if value < -maxInteger || value > maxInteger {
		l.err = errTooLarge
	}
	l.text = append(append(append(l.text, ';'), name...), '=')
	l.text = strconv.AppendInt(l.text, int64(value), 10)
}

// What keeps a rule out of a header.
var (
	errNotASCII = errors.New("quotahttp: the name of a rule is not of visible ASCII characters and spaces")
	errTooLarge = errors.New("quotahttp: a number of a rule is too large for a header")
)

// Wait is the value of Retry-After for a refusal: whole seconds, rounded up, at least 1.
func Wait(d quota.Decision) int { return max(1, quota.Seconds(d.RetryAfter())) }

// SetRetryAfter writes Retry-After (RFC 9110, section 10.2.3) for a refusal.
func SetRetryAfter(h http.Header, d quota.Decision) { h.Set("Retry-After", strconv.Itoa(Wait(d))) }

// Refusal are the members that a problem (RFC 9457) with status 429 has beside type, title, status and detail: all that
// a client needs in order to come back at the right moment.
func Refusal(d quota.Decision) map[string]any {
	q := Describe(d)
	return map[string]any{
		"blocked_by": q.BlockedBy, "retry_after": Wait(d), "retry_after_ms": max(1, quota.Milliseconds(d.RetryAfter())),
		"violated-policies": d.Violated(), "quota": q,
	}
}
