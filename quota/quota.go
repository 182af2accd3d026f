// Package quota is a rate limiter. It decides whether every rule of a policy admits one more event
// and, if one doesn't, exactly how long to wait. A decision covers all scopes (a recipient, a
// network, an app) in one atomic step; only a Redis Cluster needs a step for each bucket.
//
// Evaluate computes a decision from any list of events. Memory counts in one process, with the same
// functions. Redis counts for all replicas, in take.lua, and tests compare its answers with
// Memory's. Queue lets callers wait their turn. No code here depends on what the events are;
// quotahttp is for HTTP servers.
//
// Times are whole microseconds on the limiter's own clock. If that clock is set back, events that
// then lie in the future are moved to the present.
package quota

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Scope names the bucket of a request in which a rule counts. The constants name common scopes; any
// other name is a scope, too.
type Scope string

const (
	Recipient Scope = "recipient" // one person or thing that the events are for
	IP        Scope = "ip"        // one IPv4 address or one IPv6 /64
	Network   Scope = "network"   // the wider network: one IPv4 /24 or one IPv6 /48
	App       Scope = "app"       // one tenant
	Purpose   Scope = "purpose"   // one purpose of one tenant
	Global    Scope = "global"    // everything
)

// Rule admits an event while fewer than Limit earlier events count. Set exactly one of Window, Per
// and Days:
//
//   - Window slides: an event at t counts while now−t < Window, so it leaves exactly at t+Window.
//   - Per counts since the start of the current hour, day, week or month. All events leave at its
//     end.
//   - Days counts today and the Days−1 dates before it.
type Rule struct {
	Name   string // unique within its policy; appears in answers and headers
	Scope  Scope
	Limit  int           // events, 1 to MaxLimit
	Window time.Duration // whole seconds, MinWindow to MaxWindow
	Per    Period
	Days   int            // 1 to MaxDays
	Zone   *time.Location // of Per and Days; nil is UTC
	// Observe makes the rule count but never refuse; Decision.Observed names it when it would have
	// refused.
	Observe bool
	// Recorded is for events that are only known after the decision, such as failed logins. Take
	// applies the rule and doesn't count the event for it: only Record adds events. Set it in all
	// rules of a scope or in none.
	Recorded bool
}

// Policy is a named list of rules. Purposes that share a policy share its buckets.
type Policy struct {
	Name  string
	Rules []Rule
}

// Event is an event in the history of a bucket, for Evaluate.
type Event struct {
	ID string    // opaque, at most 64 bytes; the same ID is the same event
	At time.Time // whole µs
}

// AgedEvent is an event for Record. It has an age rather than an instant, because its clock may not
// be the limiter's.
type AgedEvent struct {
	ID  string        // as Event.ID
	Age time.Duration // a negative age counts as 0
	// AsOf is when, on the limiter's clock, the event was Age old: for example the At of a
	// Decision. With it, a Record that runs late doesn't date the event too late. Zero means the
	// time at which Record runs.
	AsOf time.Time
}

// Request names one event and the buckets that it falls into.
type Request struct {
	ID    string // opaque, 1 to 64 bytes; a retry of Take has the same ID, and counts once
	Rules []Rule // all must admit the event
	// Also has rules that only show up in Decision.Also: they refuse nothing, and nothing is
	// counted for them. They may count too few, because buckets keep events only as long as Rules
	// require.
	Also []Rule
	// Buckets names the bucket of each scope; see [Bucket]. Without one, Take fails and Peek leaves
	// the scope's rules out.
	Buckets map[Scope]string
	// Repeated says that another process may have taken this ID before. Only [Queue] reads it.
	Repeated bool
	// Tenant is the app or customer that asks, if any. Only [Queue] reads it, to bound how many of
	// a tenant's callers wait.
	Tenant string
}

// State is one rule at the instant of a decision. For a rule with Per, Window is the length of the
// current period. For a rule with Days, it is the length of all counted dates together. The events
// of a period leave together, and so do the events of a date.
type State struct {
	Rule
	Used       int
	ResetAfter time.Duration // until the oldest counted event leaves; 0 if none is counted
	// RetryAfter is the time until Used is below Limit; 0 if it is already. Observing rules have a
	// RetryAfter, too.
	RetryAfter time.Duration
}

// Remaining returns how many more events the rule admits now.
func (s State) Remaining() int { return max(0, s.Limit-s.Used) }

func (s State) blocks() bool { return s.RetryAfter > 0 && !s.Observe }

// Decision is a limiter's answer. A refusal is a decision, too, and not an error. Rules and Also
// have the states after the decision, in the request's order.
type Decision struct {
	Admitted bool      // Take counted the event; always false from Peek
	At       time.Time // whole µs, on the limiter's clock
	Rules    []State
	Also     []State
	// Local says that the shared limiter was unavailable, so the caller's process decided. Callers
	// set it; the limiters here don't.
	Local bool
}

// Allowed reports whether one more event would be admitted at d.At.
func (d Decision) Allowed() bool { return d.RetryAfter() == 0 }

// RetryAfter returns the wait until all rules admit one more event; 0 if they do now.
func (d Decision) RetryAfter() time.Duration {
	s, _ := d.Blocking()
	return s.RetryAfter
}

// Blocking returns the rule that blocks longest, if any does.
func (d Decision) Blocking() (State, bool) {
	var longest State
	for _, s := range d.Rules {
		if s.blocks() && s.RetryAfter > longest.RetryAfter {
			longest = s
		}
	}
	return longest, longest.RetryAfter > 0
}

// Violated returns the names of the rules that block, in the request's order.
func (d Decision) Violated() []string {
	var names []string
	for _, s := range d.Rules {
		if s.blocks() {
			names = append(names, s.Name)
		}
	}
	return names
}

// Public returns the decision without what clients must not see: Also, observing rules, and
// Recorded rules unless they block. If no rule is left out, the result shares Rules with d.
func (d Decision) Public() Decision {
	d.Also = nil
	hidden := func(s State) bool { return s.Observe || s.Recorded && !s.blocks() }
	if slices.ContainsFunc(d.Rules, hidden) {
		d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), hidden)
	}
	return d
}

// Observed names the observing rules that would have refused the event: those that were at their
// limit before the event was counted or, if it wasn't counted, are at it now. After a repeated
// Take, the counts at the repetition decide.
func (d Decision) Observed() []string {
	var names []string
	for _, s := range d.Rules {
		before := s.Used
		if d.Admitted && !s.Recorded {
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
// Both can lose counts: Memory with its process, Redis in a flush, a restart, an eviction or a
// failover. The limiter then admits more than the rules allow. Callers that can't accept that keep
// the events elsewhere as well, and Record the lost ones.
type Limiter interface {
	// Take counts the event in every bucket if all rules admit it, and otherwise in none. Observing
	// rules never refuse but do count. Recorded rules can refuse, but Take leaves their buckets as
	// they are.
	//
	// However often Take is repeated with an admitted ID, it counts once: a bucket that has the ID
	// neither decides nor counts it again. Only a Recorded rule may refuse the repetition. A bucket
	// has an ID until the event is as old as LongestKeep of its rules. Errors:
	// ErrBadRequest, ErrRefunded, ErrUnavailable.
	Take(ctx context.Context, req Request) (Decision, error)

	// Peek returns the state of each rule that has a bucket. It counts nothing and needs no ID.
	// Errors: ErrBadRequest, ErrUnavailable.
	Peek(ctx context.Context, req Request) (Decision, error)

	// Refund removes the ID from the buckets and leaves a tombstone for 60 s, even in buckets that
	// never had the ID. Until the tombstone ends, Take returns ErrRefunded for the ID and Record
	// skips it, so a late copy of a Take can't count it again. Repeating a Refund is harmless.
	// Errors: ErrBadRequest, ErrUnavailable.
	Refund(ctx context.Context, id string, buckets ...string) error

	// Record adds events without deciding, so a bucket may exceed a limit. It never makes a bucket
	// less strict: if the bucket has an ID, the later of the two instants stays. keep is
	// LongestKeep of the bucket's rules. Record skips events at least that old, and those that a
	// refund or a reset excludes. Repeating it is harmless. Errors: ErrBadRequest, ErrUnavailable.
	Record(ctx context.Context, bucket string, keep time.Duration, events []AgedEvent) error

	// Reset deletes the events of the buckets. For 60 s, Record then skips events dated up to 10 s
	// after the reset, so that callers that read the events before the reset can't add them again.
	// (Such a caller may date events after the reset: Record subtracts an age that was read earlier
	// from a later instant.) Refunded IDs stay refunded. Errors: ErrBadRequest, ErrUnavailable.
	Reset(ctx context.Context, buckets ...string) error
}

var (
	_ Limiter = (*Memory)(nil)
	_ Limiter = (*Redis)(nil)
)

// ErrUnavailable is wrapped by the errors of calls that reached no decision, because the limiter
// didn't answer. The event isn't admitted, but may be counted: Refund the ID, or repeat the Take,
// which counts it once.
var ErrUnavailable = errors.New("quota: limiter is unavailable")

// ErrRefunded is returned by Take for an ID that was refunded less than 60 s ago, as when a copy of
// a finished call arrives late.
var ErrRefunded = errors.New("quota: event was refunded")

// ErrBadRequest is wrapped by errors that are the caller's mistake, such as no ID, no rules, a rule
// without a bucket, or a limit or a window out of bounds.
var ErrBadRequest = errors.New("quota: bad request")
