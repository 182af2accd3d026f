// Package quotahttp puts a quota in front of a net/http server, for example 100 requests in 60 s
// for each resource and IP address. It also formats a quota.Decision for HTTP: as the headers
// RateLimit-Policy, RateLimit and Retry-After, and as members of a JSON response. The middleware
// (Guard) and the service's API use the same format.
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

// Rule is the JSON form of one rule's state.
type Rule struct {
	Name  string `json:"name"`
	Scope string `json:"scope,omitempty"`
	Limit int    `json:"limit"`
	// For a calendar rule, Window is the length of the current period, or of all counted dates.
	Window     int    `json:"window"`
	Per        string `json:"per,omitempty"`  // hour, day, week or month of a calendar rule
	Days       int    `json:"days,omitempty"` // of a rule that counts today and days-1 dates before
	Remaining  int    `json:"remaining"`
	ResetAfter int    `json:"reset_after"` // until the oldest counted event leaves, 0 if there is none
	RetryAfter int    `json:"retry_after"` // until the rule admits one more event; 0 if it admits one now
}

// Describe returns the decision for a JSON response, only with its Public rules.
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

// SetRateLimit sets the headers RateLimit-Policy and RateLimit. RateLimit-Policy has every public
// rule. RateLimit has only one rule, the tightest (see the function tightest). If there are no
// public rules, SetRateLimit sets no header. Both headers are structured fields, as in version 10
// of draft-ietf-httpapi-ratelimit-headers (September 2025; version 11 appeared in May 2026). They
// have no partition key, because a partition key would reveal whose requests are counted. Error: a
// rule's name or number does not fit in a header.
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

// Canonical keys of RateLimit-Policy and RateLimit in http.Header.
const (
	headerPolicy = "Ratelimit-Policy"
	headerLimit  = "Ratelimit"
)

// tightest returns the state of one rule, and the time until this rule admits more events. It is
// the rule that blocks longest or, if none blocks, the rule with the fewest remaining events.
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

// fieldList builds the text of a structured-field list (RFC 9651 section 3.1). The response to
// every send has two lists, so fieldList is written for speed and uses no library. Tests compare
// fieldList with a library.
type fieldList struct {
	text []byte
	err  error
}

// appendItem appends a string item with one integer parameter. appendParameter can add more.
func (l *fieldList) appendItem(name, key string, value int) {
	if len(l.text) > 0 {
		l.text = append(l.text, ", "...)
	}
	l.appendString(name)
	l.appendParameter(key, value)
}

// appendString appends a string (RFC 9651 section 4.1.6).
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

// maxInteger is the largest integer that a structured field can contain (RFC 9651 section 3.3.1).
const maxInteger = 999_999_999_999_999

func (l *fieldList) appendParameter(name string, value int) {
	if value < -maxInteger || value > maxInteger {
		l.err = errTooLarge
	}
	l.text = append(append(append(l.text, ';'), name...), '=')
	l.text = strconv.AppendInt(l.text, int64(value), 10)
}

// Reasons why a rule cannot be written to a header.
var (
	errNotASCII = errors.New("quotahttp: the name of a rule is not of visible ASCII characters and spaces")
	errTooLarge = errors.New("quotahttp: a number of a rule is too large for a header")
)

// SetRetryAfter sets the header Retry-After (RFC 9110, section 10.2.3) to a wait: whole seconds,
// rounded up, at least 1.
func SetRetryAfter(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.Itoa(seconds(wait)))
}

// seconds returns a refusal's wait in whole seconds, rounded up, at least 1.
func seconds(wait time.Duration) int { return max(1, quota.Seconds(wait)) }

// ProblemSlug and ProblemTitle describe the problem of a spent quota. They are the same for every
// quota. ProblemSlug is the last segment of the problem's type. ProblemTitle is the title of the
// problem.
const (
	ProblemSlug  = "quota-exceeded"
	ProblemTitle = "Quota exceeded"
)

// ProblemMembers returns the additional members of a problem document (RFC 9457) with status 429.
// The members say when to retry, and which rules block. The caller adds type, title, status and
// detail.
func ProblemMembers(d quota.Decision) map[string]any {
	q := Describe(d)
	return map[string]any{
		"blocked_by": q.BlockedBy, "retry_after": seconds(d.RetryAfter()),
		"retry_after_ms":    max(1, quota.Milliseconds(d.RetryAfter())),
		"violated-policies": d.Violated(), "quota": q,
	}
}
