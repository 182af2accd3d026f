// Package quota decides whether one more event is let in: every rule of a policy, over every scope, in one
// atomic step, with the truth about waiting.
//
// It stands after the recipient is known and before anything is written or rendered: the use case calls Take,
// and only what Take admits goes on to the log. The package knows nothing of mail, SMS or HTTP.
//
// A rule is "fewer than Limit events since a cutoff". An event at t counts while now−t < Window, so a place is
// free again exactly at t+Window (QUOTA-1). Times are whole microseconds on the limiter's own clock.
package quota

import (
	"errors"
	"time"
)

// Scope says whose events a rule counts. Each scope of a request has a bucket of its own.
type Scope string

// The scopes that a rule can have.
const (
	Recipient Scope = "recipient" // one mailbox or phone
	IP        Scope = "ip"        // one IPv4 address or one IPv6 /64
)

// Rule admits fewer than Limit events in each sliding Window.
type Rule struct {
	Name   string        // unique within its policy; appears in answers and headers
	Scope  Scope         //
	Limit  int           // events, at least 1
	Window time.Duration // 1 s to 31 days, whole seconds
}

// Policy is a named list of rules. Purposes that share a policy share its buckets.
type Policy struct {
	Name  string
	Rules []Rule
}

// Event is one counted event of a bucket.
type Event struct {
	ID string    // opaque, at most 64 bytes; the same ID is the same event
	At time.Time // on the clock of the limiter that counted it, whole µs
}

// Request names one event and the buckets that it falls into.
type Request struct {
	ID      string           // opaque, 1 to 64 bytes; Take is idempotent per ID, so a repeated call counts once (QUOTA-8)
	Rules   []Rule           // all of them decide, or nothing is spent
	Buckets map[Scope]string // bucket of each scope; Take refuses to run when a rule's scope has none, Peek leaves the rule out
}

// State is what one rule says at the instant of a decision.
type State struct {
	Rule
	Used       int           // events counted now
	ResetAfter time.Duration // until the oldest counted event leaves; 0 if none is counted
	RetryAfter time.Duration // until the rule lets one more in; 0 if it does now
}

// Remaining is how many more events the rule lets in now, never negative.
func (s State) Remaining() int { return max(0, s.Limit-s.Used) }

// Decision is a limiter's answer. It is a value, not an error: a refusal is an ordinary outcome, and every answer,
// a success too, carries the state of each rule after it.
type Decision struct {
	Admitted bool      // Take counted the event; always false from Peek
	At       time.Time // instant of the decision, whole µs
	Clock    string    // names the clock that At was read from; instants of different clocks are not comparable
	Rules    []State   // in the order of the request
}

// Allowed reports whether the next event would be let in at the instant of the decision.
func (d Decision) Allowed() bool { return d.RetryAfter() == 0 }

// RetryAfter is the wait until every rule lets one more event in (the longest of them), 0 if all do now.
func (d Decision) RetryAfter() time.Duration {
	s, _ := d.Blocking()
	return s.RetryAfter
}

// Blocking returns the rule that blocks longest, and false if none blocks.
func (d Decision) Blocking() (State, bool) {
	var worst State
	for _, s := range d.Rules {
		if s.RetryAfter > worst.RetryAfter {
			worst = s
		}
	}
	return worst, worst.RetryAfter > 0
}

// Violated names every rule that blocks, in the order of the request.
func (d Decision) Violated() []string {
	var names []string
	for _, s := range d.Rules {
		if s.RetryAfter > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// ErrRefunded is what Take answers for an event that was refunded a moment ago: a late copy of a finished call.
var ErrRefunded = errors.New("quota: event was refunded")

// ErrBadRequest wraps what a caller got wrong: no ID, a rule without a bucket, a limit below 1.
var ErrBadRequest = errors.New("quota: bad request")
