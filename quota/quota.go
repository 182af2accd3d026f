// Package quota is a rate limiter. It decides whether all rules of a policy admit one more event.
// Each rule has a scope, such as a recipient or a network, and counts the events in the bucket of
// that scope. The decision is one atomic step. Only in a Redis Cluster, each bucket has an atomic
// step of its own. If a rule refuses, the limiter returns the exact time to wait.
//
// In sendcode, Take runs before a send is rendered or written. Only an admitted send reaches the
// database. This package knows nothing of mail, SMS or HTTP.
//
// A rule admits an event while it counts fewer than Limit earlier events. There are three kinds of
// rules:
//
//   - A rule with a sliding Window counts an event of the instant t while now−t < Window. So the
//     event leaves (stops counting) exactly at t+Window.
//   - A rule with Per counts the events since the start of the current hour, day, week or month.
//     All these events leave when that period ends.
//   - A rule with Days counts the events of today and of the Days−1 dates before today.
//
// Times are whole microseconds on the limiter's own clock. If that clock is set back, the limiter
// may find an event in the future. It then moves the event to the present instant.
//
// Evaluate computes decisions for any list of events. Memory keeps events in one process and uses
// the same functions. Redis keeps events for all replicas and decides in take.lua. Tests compare
// the answers of Redis with the answers of Memory.
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
	// Failures counts sends to one mailbox or phone that failed because the address accepts no
	// messages; see Counted.
	Failures Scope = "failures"

	FailedChecks Scope = "checks" // failed checks (wrong codes); see Counted
	// Backoff counts sends to one mailbox or phone that failed for a reason other than the address;
	// see Counted.
	Backoff Scope = "backoff"
)

// Counted reports whether Take counts the event in the scope's bucket. It returns false for
// Failures, FailedChecks and Backoff, because their events are known only after a send or a check
// has failed. Record then adds these events. Take applies the rules of these scopes like all other
// rules.
func (s Scope) Counted() bool { return s != Failures && s != FailedChecks && s != Backoff }

// Rule admits an event while the rule counts fewer than Limit events. It counts events in a sliding
// Window, in a calendar period (Per), or on the last Days dates. Exactly one of Window, Per and
// Days is set.
type Rule struct {
	Name   string         // unique within its policy; appears in answers and headers
	Scope  Scope          // the property that the rule counts by
	Limit  int            // events, at least 1
	Window time.Duration  // 1 s to 31 days, whole seconds; 0 if Per or Days is set
	Per    Period         // empty if Window or Days is set
	Days   int            // 1 to 31: today and the Days-1 local dates before it; else 0
	Zone   *time.Location // time zone of Per and Days; nil is UTC
	// If Observe is true, the rule counts and never refuses. Decision.Observed names the rule if
	// the rule would have refused.
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

// AgedEvent is an event that Record adds. It has an age instead of an instant, because the event
// may have been dated by another clock than the limiter's clock.
type AgedEvent struct {
	ID  string        // as Event.ID
	Age time.Duration // a negative age counts as 0
	// AsOf is the instant, on the limiter's clock, at which the age of the event was Age. A caller
	// can take this instant from the field At of a Decision. If Record runs some time after that
	// instant, AsOf keeps the event from being dated too late. If AsOf is zero, Age is the age at
	// the time when Record runs.
	AsOf time.Time
}

// Request names one event and the buckets that it falls into.
type Request struct {
	ID    string // opaque, 1 to 64 bytes; Take is idempotent per ID, so a repeated call counts once
	Rules []Rule // the event is counted only if all these rules admit it
	// Also has rules whose states are only reported, in Decision.Also. They refuse no event, and no
	// event is counted because of them. Buckets keep events only as long as the rules in Rules need
	// the events, so a rule in Also may count too few.
	Also []Rule
	// Buckets has the bucket of each scope. If the scope of a rule has no bucket, Take fails, and
	// Peek leaves out the rule.
	Buckets map[Scope]string
	// another process may have taken this ID before; only [Queue] reads this field
	Repeated bool
	// Tenant is the app or customer that makes the request, or empty. Only [Queue] reads Tenant, to
	// bound the number of a tenant's waiting callers.
	Tenant string
}

// State is the state of one rule at the instant of a decision. For a rule with Per, Window is the
// length of the current period. All its events leave (stop counting) at the end of the period. For
// a rule with Days, Window is the length of all counted dates together. The events of one date
// leave together, when that date is no longer one of the counted dates.
type State struct {
	Rule
	Used       int           // events counted now
	ResetAfter time.Duration // until the oldest counted event leaves; 0 if none is counted
	// RetryAfter is the time until Used is below Limit, or 0 if Used is below Limit now. An
	// observing rule never refuses, but it also has a RetryAfter.
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
	// Alone is true if the decision was made in the caller's process, because the shared limiter
	// was unavailable. The caller sets this field. No limiter of this package sets it.
	Alone bool
}

// Allowed reports whether the next event would be admitted at the instant of the decision.
func (d Decision) Allowed() bool { return d.RetryAfter() == 0 }

// RetryAfter returns the wait until all rules admit one more event, or 0 if all rules admit one
// more event now.
func (d Decision) RetryAfter() time.Duration {
	s, _ := d.Blocking()
	return s.RetryAfter
}

// Blocking returns the rule that blocks longest, or false if no rule blocks. An observing rule
// never blocks.
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
// Also and the observing rules. A rule whose scope is not Counted is also removed, unless the rule
// blocks. If no rule of Rules is removed, the result shares Rules with d.
func (d Decision) Public() Decision {
	d.Also = nil
	hidden := func(s State) bool { return s.Observe || !s.Scope.Counted() && !s.blocks() }
	if slices.ContainsFunc(d.Rules, hidden) {
		d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), hidden)
	}
	return d
}

// Observed returns the names of the observing rules that would have refused the event, in the order
// of the request. If the event was counted, these are the rules that were at their limit before the
// event was counted. If the event was not counted, these are the rules that are at their limit now.
// After a repeated Take, the counts at the time of the repetition decide.
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
// Memory loses its counts when its process ends. Redis may lose its counts when it is flushed,
// restarts, evicts keys or fails over. Then the limiter admits more events than the rules allow. A
// caller that must prevent this also stores the events in another place, and adds lost events with
// Record.
type Limiter interface {
	// Take counts the event in every bucket of the request if all rules admit the event. Otherwise
	// it counts the event in no bucket. An observing rule never refuses, but Take counts the event
	// in the rule's bucket. A rule whose scope is not Counted can refuse, but Take does not change
	// the rule's bucket.
	//
	// A repeated Take of an admitted ID is admitted, and counts once: if a bucket already counts
	// the ID, the rules of the bucket do not decide, and the bucket does not count the ID again.
	// The bucket treats the ID as new only if the event with the ID is older than LongestKeep of
	// the bucket's rules. Errors: ErrBadRequest, ErrRefunded, ErrUnavailable.
	Take(ctx context.Context, req Request) (Decision, error)

	// Peek returns the state of each rule that has a bucket. It counts nothing, leaves Admitted
	// false and needs no ID. Errors: ErrBadRequest, ErrUnavailable.
	Peek(ctx context.Context, req Request) (Decision, error)

	// Refund removes this ID from the buckets and leaves a tombstone for 60 s, even in a bucket
	// that never had the ID. Until the tombstone ends, Take returns ErrRefunded for the ID, and
	// Record skips the ID. So a late copy of a Take cannot count the ID again. A repeated Refund is
	// harmless. Errors: ErrBadRequest, ErrUnavailable.
	Refund(ctx context.Context, id string, buckets ...string) error

	// Record adds events to a bucket without a decision, so the bucket may exceed a limit. Record
	// never makes a bucket less strict. If the bucket already counts an ID, it keeps the later of
	// the two instants of this ID. The parameter keep is LongestKeep of the bucket's rules. Record
	// skips events that are at least as old as keep, and events that a refund or a reset excludes.
	// A repeated Record is harmless. Errors: ErrBadRequest, ErrUnavailable.
	Record(ctx context.Context, bucket string, keep time.Duration, events []AgedEvent) error

	// Reset deletes the events of the buckets and leaves a mark for 60 s. Until the mark ends,
	// Record skips events that are dated up to 10 s after the reset. So a caller that read events
	// before the reset cannot add them again. Such an event may be dated after the reset, because
	// its age was read earlier and Record subtracts this age from a later instant. A refunded ID
	// stays refunded. Errors: ErrBadRequest, ErrUnavailable.
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
