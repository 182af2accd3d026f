// Package quota is a rate limiter. It decides in one atomic step whether all rules of a policy,
// over all their scopes, admit one more event. If a rule refuses, the limiter returns the exact
// time to wait.
//
// In sendcode, Take runs before a send is rendered or written; only an admitted send reaches the
// database. This package knows nothing of mail, SMS or HTTP.
//
// A rule admits an event while it counts fewer than Limit events since a cutoff. In a sliding
// window an event at t counts while now−t < Window, so the event leaves (stops counting) exactly at
// t+Window. A calendar rule counts the events since the start of the current hour, day, week or
// month, until that period ends; or the events of today and of some dates before today. Times are
// whole microseconds on the limiter's own clock. If that clock is set back, the first call that
// sees an event in the future moves the event to the present instant.
//
// Evaluate computes decisions for any list of events. Memory keeps events in one process and uses
// the same functions. Redis keeps events for all replicas and decides in take.lua; tests compare
// its answers with those of Memory.
package quota

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Scope is the property that a rule counts by. Each scope of a request has its own bucket.
type Scope string

// The scopes that a rule can have.
const (
	Recipient Scope = "recipient" // one mailbox or phone
	IP        Scope = "ip"        // one IPv4 address or one IPv6 /64
	Network   Scope = "network"   // the wider network: one IPv4 /24 or one IPv6 /48
	App       Scope = "app"       // one tenant
	Purpose   Scope = "purpose"   // one purpose of one tenant
	Country   Scope = "country"   // one country of phone numbers
	Prefix    Scope = "prefix"    // phone numbers that differ only in their last four digits
	Global    Scope = "global"    // everything
	// sends to one mailbox or phone that failed because the address takes no messages; see Counted
	Failures Scope = "failures"

	FailedChecks Scope = "checks" // failed checks (wrong codes); see Counted
	// sends to one mailbox or phone that failed for another reason than the address; see Counted
	Backoff Scope = "backoff"
)

// Counted reports whether Take counts its event in the scope's bucket. It is false for Failures,
// FailedChecks and Backoff. Rules of these scopes decide like all others, but their events are
// added by Record, after a send or a check has failed.
func (s Scope) Counted() bool { return s != Failures && s != FailedChecks && s != Backoff }

// Rule admits an event while it counts fewer than Limit: in a sliding Window, in a calendar period
// (Per), or on the last Days dates. Exactly one of the three is set.
type Rule struct {
	Name   string         // unique within its policy; appears in answers and headers
	Scope  Scope          // the property that the rule counts by
	Limit  int            // events, at least 1
	Window time.Duration  // 1 s to 31 days, whole seconds; 0 if Per or Days is set
	Per    Period         // empty if Window or Days is set
	Days   int            // 1 to 31: today and the Days-1 local dates before it; else 0
	Zone   *time.Location // time zone of Per and Days; nil is UTC
	// the rule counts and never refuses; Decision.Observed names the rule if it would have refused
	Observe bool
}

// Policy is a named list of rules. Purposes that share a policy share its buckets.
type Policy struct {
	Name  string
	Rules []Rule
}

// Event is one counted event of a bucket.
type Event struct {
	ID string    // opaque, at most 64 bytes; the same ID is the same event
	At time.Time // whole µs; all events of a call of Evaluate are on one clock
}

// AgedEvent is an event that Record adds. It has an age instead of an instant, so that it can be
// read on one clock and recorded on another clock.
type AgedEvent struct {
	ID  string        // as Event.ID
	Age time.Duration // a negative age counts as 0
	// the instant of the limiter's clock at which the event had this age, such as a Decision's At.
	// Then a late Record does not date the event too late. Zero: the instant at which Record runs
	AsOf time.Time
}

// Request names one event and the buckets that it falls into.
type Request struct {
	ID    string // opaque, 1 to 64 bytes; Take is idempotent per ID, so a repeated call counts once
	Rules []Rule // the event is counted only if all these rules admit it
	// rules that are reported in Decision.Also. They refuse nothing and count nothing. Their
	// buckets keep events as long as Rules need the events
	Also []Rule
	// bucket of each scope; if a rule's scope has none, Take fails and Peek leaves the rule out
	Buckets map[Scope]string
	// another process may have taken this ID before; only [Queue] reads this field
	Repeated bool
	// the app or customer that asks, or empty; [Queue] alone reads it, to bound the waiting callers
	// of a tenant
	Tenant string
}

// State is the state of one rule at the instant of a decision. Of a calendar rule, Window is the
// length of the current period, and all events leave at its end. Of a rule with Days, Window is the
// length of all counted dates, and the events of one date leave together, when a later date begins.
type State struct {
	Rule
	Used       int           // events counted now
	ResetAfter time.Duration // until the oldest counted event leaves; 0 if none is counted
	// the time until Used is below Limit; 0 if Used is below Limit now. An observing rule, which
	// never refuses, has a wait, too
	RetryAfter time.Duration
}

// Remaining returns how many more events the rule admits now, never negative.
func (s State) Remaining() int { return max(0, s.Limit-s.Used) }

// blocks reports whether the rule refuses the next event.
func (s State) blocks() bool { return s.RetryAfter > 0 && !s.Observe }

// Decision is a limiter's answer. A refusal is also a Decision, not an error. Rules has the states
// of the rules after the decision.
type Decision struct {
	Admitted bool      // Take counted the event; always false from Peek
	At       time.Time // instant of the decision, whole µs, on the limiter's clock
	Rules    []State   // in the order of the request
	Also     []State   // of Request.Also, in its order
	// the decision was made in the caller's process, since its shared limiter was unavailable. The
	// caller sets this field; no limiter of this package does
	Alone bool
}

// Allowed reports whether the next event would be admitted at the instant of the decision.
func (d Decision) Allowed() bool { return d.RetryAfter() == 0 }

// RetryAfter returns the wait until all rules admit one more event; 0 if all admit one now.
func (d Decision) RetryAfter() time.Duration {
	s, _ := d.Blocking()
	return s.RetryAfter
}

// Blocking returns the rule that blocks longest, and false if none blocks. A rule that observes
// blocks nothing.
func (d Decision) Blocking() (State, bool) {
	var longest State
	for _, s := range d.Rules {
		if s.blocks() && s.RetryAfter > longest.RetryAfter {
			longest = s
		}
	}
	return longest, longest.RetryAfter > 0
}

// Violated returns the names of all rules that block, in the order of the request.
func (d Decision) Violated() []string {
	var names []string
	for _, s := range d.Rules {
		if s.blocks() {
			names = append(names, s.Name)
		}
	}
	return names
}

// Public returns the decision without the rules that clients must not see. These are the rules of
// Also, observing rules, and rules of a scope that is not Counted, unless such a rule blocks. If no
// rule is removed, the result shares Rules with d.
func (d Decision) Public() Decision {
	d.Also = nil
	hidden := func(s State) bool { return s.Observe || !s.Scope.Counted() && !s.blocks() }
	if slices.ContainsFunc(d.Rules, hidden) {
		d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), hidden)
	}
	return d
}

// Observed returns the names of the observing rules that would have refused the event, in the order
// of the request: the rules that were at their limit before the event was counted. If the event was
// not counted, these are the observing rules that are at their limit now. After a repeated Take,
// the counts at the repetition decide.
func (d Decision) Observed() []string {
	var names []string
	for _, s := range d.Rules {
		before := s.Used
		if d.Admitted && s.Scope.Counted() {
			before-- // the event itself
		}
		if s.Observe && before >= s.Limit {
			names = append(names, s.Name)
		}
	}
	return names
}

// Limiter is implemented by [Memory] and [Redis]. One contract suite tests both.
//
// A limiter may lose its counts: Memory when its process ends, Redis when it is flushed, restarts,
// evicts keys or fails over. Then it admits more events than the rules allow. A caller that must
// prevent this also counts the events elsewhere, and adds lost events with Record.
type Limiter interface {
	// Take counts the event in every bucket of the request if all rules admit the event; otherwise
	// in no bucket. An observing rule never refuses, but its bucket counts. A rule of a scope that
	// is not Counted decides, but its bucket is not changed. A bucket that already counts the ID
	// neither decides nor counts it again. So a repeated Take of an admitted ID is admitted, and
	// counts once. A bucket treats an ID that is older than its longest rule as new. Errors:
	// ErrBadRequest, ErrRefunded, ErrUnavailable.
	Take(ctx context.Context, req Request) (Decision, error)

	// Peek returns the state of each rule that has a bucket. It counts nothing, leaves Admitted
	// false and needs no ID. Errors: ErrBadRequest, ErrUnavailable.
	Peek(ctx context.Context, req Request) (Decision, error)

	// Refund removes this ID from the buckets and leaves a tombstone for 60 s, even in a bucket
	// that never had the ID. Until the tombstone ends, Take returns ErrRefunded for the ID, and
	// Record skips the ID. So a late copy of a Take cannot count the ID again. A repeated Refund is
	// harmless. Errors: ErrBadRequest, ErrUnavailable.
	Refund(ctx context.Context, id string, buckets ...string) error

	// Record adds events to a bucket, without a decision, so the bucket may exceed a limit. It only
	// ever makes the bucket stricter: if the bucket counts an ID already, the later instant stays.
	// keep is LongestKeep of the bucket's rules; events that are as old as keep are skipped, and so
	// are events that a refund or a reset keeps out. A repeated Record is harmless. Errors:
	// ErrBadRequest, ErrUnavailable.
	Record(ctx context.Context, bucket string, keep time.Duration, events []AgedEvent) error

	// Reset deletes the events of the buckets and leaves a mark for 60 s. Until the mark ends,
	// Record skips events that are dated up to 10 s after the reset. The reason: an event's age is
	// that of its read, so an event from before the reset may seem younger when Record runs. A
	// refunded ID stays refunded. Errors: ErrBadRequest, ErrUnavailable.
	Reset(ctx context.Context, buckets ...string) error
}

var (
	_ Limiter = (*Memory)(nil)
	_ Limiter = (*Redis)(nil)
)

// ErrUnavailable is wrapped by the errors of calls that reached no decision, because the limiter
// did not answer. The caller must treat the event as not admitted, although the limiter may have
// counted it. The caller refunds the ID, or repeats the Take, which counts the ID once.
var ErrUnavailable = errors.New("quota: limiter is unavailable")

// ErrRefunded is returned by Take for an ID that was refunded within the last 60 s. For example, a
// copy of a finished call may arrive late.
var ErrRefunded = errors.New("quota: event was refunded")

// ErrBadRequest is wrapped by errors that report a mistake of the caller: no ID, no rules, a rule
// without a bucket, a limit or a window out of bounds.
var ErrBadRequest = errors.New("quota: bad request")
