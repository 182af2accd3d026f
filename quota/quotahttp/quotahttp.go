// Package quotahttp puts a quota in front of a net/http server, such as 100 requests in 60 s for
// each resource and IP address, and writes a quota.Decision as headers (RateLimit-Policy,
// RateLimit, Retry-After) and JSON. Guard, the middleware, and the service's API share this format.
package quotahttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"sendcode/quota"
)

// Quota is the JSON form of a decision. Durations are whole seconds, rounded up.
type Quota struct {
	Allowed    bool   `json:"allowed"`
	RetryAfter int    `json:"retry_after"`          // 0 when allowed, else at least 1
	RetryAt    string `json:"retry_at,omitempty"`   // RFC 3339, UTC, to the ms, rounded up
	BlockedBy  string `json:"blocked_by,omitempty"` // the rule that blocks longest
	Rules      []Rule `json:"rules"`
}

// Rule is the JSON form of a rule's state.
type Rule struct {
	Name  string `json:"name"`
	Scope string `json:"scope,omitempty"`
	Limit int    `json:"limit"`
	// Window is the length of a calendar rule's current period, or of all its dates.
	Window     int    `json:"window"`
	Per        string `json:"per,omitempty"`  // of a calendar rule
	Days       int    `json:"days,omitempty"` // of a rule that counts today and the days-1 dates before it
	Remaining  int    `json:"remaining"`
	ResetAfter int    `json:"reset_after"` // until the oldest counted event leaves; 0 if none is counted
	RetryAfter int    `json:"retry_after"` // until the rule admits one more event; 0 if it does now
}

// Describe returns the decision with its Public rules only.
func Describe(d quota.Decision) *Quota {
	d = d.Public()
	out := &Quota{Allowed: d.Allowed(), RetryAfter: quota.Seconds(d.RetryAfter()), Rules: []Rule{}}
	if blocking, blocked := d.Blocking(); blocked {
		out.BlockedBy = blocking.Name
		out.RetryAt = formatInstant(d.At.Add(d.RetryAfter()).Add(time.Millisecond - 1)) // rounded up, never early
	}
	for _, s := range d.Rules {
		out.Rules = append(out.Rules, Rule{
			Name: s.Name, Scope: string(s.Scope), Limit: s.Limit, Window: quota.Seconds(s.Window), Per: string(s.Per),
			Days:      s.Days,
			Remaining: s.Remaining(), ResetAfter: quota.Seconds(s.ResetAfter), RetryAfter: quota.Seconds(s.RetryAfter),
		})
	}
	return out
}

func formatInstant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// SetRateLimit sets RateLimit-Policy, with all public rules, and RateLimit, with the tightest one.
// Without public rules, it sets neither header. The headers are structured fields, as in version 10
// of draft-ietf-httpapi-ratelimit-headers (September 2025; version 11 appeared in May 2026),
// without a partition key, which would reveal whose requests are counted. Error: a rule's name or
// number doesn't fit in a header.
func SetRateLimit(h http.Header, d quota.Decision) error {
	d = d.Public()
	if len(d.Rules) == 0 {
		return nil
	}
	const item = 40 // bytes, about
	room := make([]byte, item*(len(d.Rules)+1))
	limits, policies := fieldList{text: room[:0:item]}, fieldList{text: room[item:item]}
	for _, s := range d.Rules {
		policies.appendItem(s.Name, "q", s.Limit)
		if s.Days == 0 { // with Days, no window says when events leave
			policies.appendParameter("w", quota.Seconds(s.Window))
		}
	}
	next, left := tightest(d)
	limits.appendItem(next.Name, "r", next.Remaining())
	limits.appendParameter("t", quota.Seconds(left))
	if err := errors.Join(policies.err, limits.err); err != nil {
		return err
	}
	values := []string{string(policies.text), string(limits.text)}
	h[headerPolicy], h[headerLimit] = values[:1:1], values[1:]
	return nil
}

// These are canonical keys of RateLimit-Policy and RateLimit in http.Header.
const (
	headerPolicy = "Ratelimit-Policy"
	headerLimit  = "Ratelimit"
)

// tightest returns the rule that blocks longest or, if no rule blocks, the one with the fewest
// places left, and the time until it admits more.
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

// fieldList builds a structured-field list (RFC 9651 section 3.1) by hand, for speed: each answer
// to a send has two. Tests compare it with a library.
type fieldList struct {
	text []byte
	err  error
}

func (l *fieldList) appendItem(name, key string, value int) {
	if len(l.text) > 0 {
		l.text = append(l.text, ", "...)
	}
	l.appendString(name)
	l.appendParameter(key, value)
}

// appendString follows RFC 9651 section 4.1.6.
func (l *fieldList) appendString(s string) {
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

// maxInteger is the largest integer of a structured field (RFC 9651 section 3.3.1).
const maxInteger = 999_999_999_999_999

func (l *fieldList) appendParameter(name string, value int) {
	if value < -maxInteger || value > maxInteger {
		l.err = errTooLarge
	}
	l.text = append(append(append(l.text, ';'), name...), '=')
	l.text = strconv.AppendInt(l.text, int64(value), 10)
}

var (
	errNotASCII = errors.New("quotahttp: the name of a rule is not of visible ASCII characters and spaces")
	errTooLarge = errors.New("quotahttp: a number of a rule is too large for a header")
)

// SetRetryAfter sets Retry-After (RFC 9110, section 10.2.3): whole seconds, rounded up, at least 1.
func SetRetryAfter(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.Itoa(seconds(wait)))
}

func seconds(wait time.Duration) int { return max(1, quota.Seconds(wait)) }

// For an exceeded quota, the type of the problem document ends with ProblemSlug, unless
// Config.ProblemType is set, and the title is ProblemTitle.
const (
	ProblemSlug  = "quota-exceeded"
	ProblemTitle = "Quota exceeded"
)

// ProblemMembers returns the members of a 429's problem document (RFC 9457) that say when to retry
// and which rules block. The caller adds type, title, status and detail.
func ProblemMembers(d quota.Decision) map[string]any {
	q := Describe(d)
	return map[string]any{
		"blocked_by": q.BlockedBy, "retry_after": seconds(d.RetryAfter()),
		"retry_after_ms":    max(1, quota.Milliseconds(d.RetryAfter())),
		"violated-policies": d.Violated(), "quota": q,
	}
}
