// Package quota decides whether one more event is let in: every rule of a policy, over every scope, in one
// atomic step, with the truth about waiting.
//
// It stands after the recipient is known and before anything is written or rendered: the use case calls Take,
// and only what Take admits goes on to the log. The package knows nothing of mail, SMS or HTTP.
//
// A rule is "fewer than Limit events since a cutoff". In a sliding window an event at t counts while now−t < Window, so
// a place is free again exactly at t+Window (QUOTA-1); by the calendar all that happened since the hour, day, week or
// month began counts, until it ends (QUOTA-18), or all that happened today and on so many dates before. Times are whole microseconds on the limiter's own clock.
//
// Evaluate is the arithmetic, for any history. Memory and Redis keep histories and decide by it: Memory in one process,
// Redis for all replicas, in take.lua, to which Memory is the model.
package quota

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Scope says whose events a rule counts. Each scope of a request has a bucket of its own.
type Scope string

// The scopes that a rule can have.
const (
	Recipient Scope = "recipient" // one mailbox or phone
	IP        Scope = "ip"        // one IPv4 address or one IPv6 /64
	Network   Scope = "network"   // the wider network: one IPv4 /24 or one IPv6 /48
	App       Scope = "app"       // one tenant
	Purpose   Scope = "purpose"   // one purpose of one tenant
	Country   Scope = "country"   // one country of phone numbers
	Prefix    Scope = "prefix"    // phone numbers that differ in their last four digits alone
	Global    Scope = "global"    // everything
	Failures  Scope = "failures"  // what failed for good for one mailbox or phone; see Counted

	FailedChecks Scope = "checks" // codes that were wrong; see Counted
)

// Counted reports whether Take counts its event in the scope's bucket. One that is not counted is only looked at: its rules
// decide like all others, and its events come by Record, once it is known that something failed.
func (s Scope) Counted() bool { return s != Failures && s != FailedChecks }

// Rule lets an event in where it counts fewer than Limit: in the sliding Window, in a period of the calendar, or on the last Days dates.
// It has one of the three.
type Rule struct {
	Name    string         // unique within its policy; appears in answers and headers
	Scope   Scope          //
	Limit   int            // events, at least 1
	Window  time.Duration  // 1 s to 31 days, whole seconds; 0 with Per and Days
	Per     Period         // empty: the rule slides, or has Days
	Days    int            // 1 to 31: today and the Days-1 local dates before it; 0: not by dates
	Zone    *time.Location // whose clock Per and Days go by; nil is UTC
	Observe bool           // counts and never refuses; Decision.Observed tells when it would have
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
	ID       string           // opaque, 1 to 64 bytes; Take is idempotent per ID, so a repeated call counts once (QUOTA-8)
	Rules    []Rule           // all of them decide, or nothing is spent
	Buckets  map[Scope]string // bucket of each scope; Take refuses to run when a rule's scope has none, Peek leaves the rule out
	Repeated bool             // the ID may have been taken before by another process: a [Remembering] then asks, whatever it remembers
	// scopes whose events a log has as well, each with a name for all that is read there; the answer tells which are Incomplete
	Logged map[Scope]string
}

// History is all that a log has of one bucket, to be written into it by Restore.
type History struct {
	Bucket string
	Keep   time.Duration // how far back it reaches: at least Longest of the bucket's rules
	Life   string        // from Decision.Incomplete of the answer after which the log was read
	Events []Event       // on the limiter's clock

	// Settle, unless it is 0, is for how long a bucket that lacked one of the events is not marked: it may have lost others that the
	// log does not have yet. One without any of them is not marked either.
	Settle time.Duration
}

// State is what one rule says at the instant of a decision. The Window of a calendar rule is here the length of its
// current period, and its events all leave when that ends. That of a rule with Days is the length of the dates that it counts now,
// and the events of one date leave together, when another begins.
type State struct {
	Rule
	Used       int           // events counted now
	ResetAfter time.Duration // until the oldest counted event leaves; 0 if none is counted
	RetryAfter time.Duration // until the rule lets one more in, or would if it did not only observe; 0 if it does now
}

// Remaining is how many more events the rule lets in now, never negative.
func (s State) Remaining() int { return max(0, s.Limit-s.Used) }

// blocks reports whether the rule keeps the next event out.
func (s State) blocks() bool { return s.RetryAfter > 0 && !s.Observe }

// Decision is a limiter's answer. It is a value, not an error: a refusal is an ordinary outcome, and every answer,
// a success too, carries the state of each rule after it.
type Decision struct {
	Admitted bool      // Take counted the event; always false from Peek
	At       time.Time // instant of the decision, whole µs
	Clock    string    // names the clock that At was read from; instants of different clocks are not comparable
	Rules    []State   // in the order of the request

	// Incomplete are those scopes of Request.Logged whose buckets may lack events: they were never restored, or for a shorter
	// time, from another source, or before the server was restarted or failed over. Each has the life of its server, for
	// Restore. Peek tells them, and Take where it does not admit. A wait may be too short for what they lack.
	Incomplete map[Scope]string
}

// Allowed reports whether the next event would be let in at the instant of the decision.
func (d Decision) Allowed() bool { return d.RetryAfter() == 0 }

// RetryAfter is the wait until every rule lets one more event in (the longest of them), 0 if all do now.
func (d Decision) RetryAfter() time.Duration {
	s, _ := d.Blocking()
	return s.RetryAfter
}

// Blocking returns the rule that blocks longest, and false if none blocks. A rule that observes blocks nothing.
func (d Decision) Blocking() (State, bool) {
	var worst State
	for _, s := range d.Rules {
		if s.blocks() && s.RetryAfter > worst.RetryAfter {
			worst = s
		}
	}
	return worst, worst.RetryAfter > 0
}

// Violated names every rule that blocks, in the order of the request.
func (d Decision) Violated() []string {
	var names []string
	for _, s := range d.Rules {
		if s.blocks() {
			names = append(names, s.Name)
		}
	}
	return names
}

// Public is the decision as clients may read it: without the rules that observe, which limit no request, and without those of
// a scope that is only looked at, but for one that blocks. Where all of them stay, they are not copied.
func (d Decision) Public() Decision {
	hidden := func(s State) bool { return s.Observe || !s.Scope.Counted() && !s.blocks() }
	if slices.ContainsFunc(d.Rules, hidden) {
		d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), hidden)
	}
	return d
}

// Observed names every observing rule that would have refused the event, in the order of the request: its limit was
// reached before the event was counted. Of an event that was not counted it names those that would refuse it now. A
// repeated Take is judged by what its buckets count at the repetition.
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

// Limiter is what [Memory] and [Redis] both do; one contract suite runs over both.
type Limiter interface {
	// Take counts the event in every bucket of the request, if all rules let it in, or spends nothing at all. A rule that
	// observes is not asked; its bucket counts all the same. A scope that is not Counted decides, and its bucket stays as it is.
	// Admitted means that each of the others counts the ID now: a bucket that counted it already neither decides nor
	// counts again, so a repeated Take of an admitted ID is admitted and counts once. An ID that the longest rule of a
	// bucket no longer counts is new to it. Errors: ErrBadRequest, ErrRefunded, ErrUnavailable.
	Take(ctx context.Context, req Request) (Decision, error)

	// Peek answers with the state of each rule that has a bucket: it writes nothing, never admits and needs no ID.
	// Errors: ErrBadRequest, ErrUnavailable.
	Peek(ctx context.Context, req Request) (Decision, error)

	// Refund removes exactly this ID from the buckets. For 60 s, Take answers ErrRefunded for it and Record skips it,
	// also in a bucket that never had it: a copy of its Take that is still under way cannot spend the place again.
	// Repeating is harmless. Errors: ErrBadRequest, ErrUnavailable.
	Refund(ctx context.Context, id string, buckets ...string) error

	// Record writes history found elsewhere into a bucket that keeps events for keep, which is Longest of its rules. It decides nothing: a
	// bucket may come to hold more than a limit. Events that keep does not count are dropped, an ID that the bucket counts already
	// counts from the later instant, refunded IDs are skipped; repeating is harmless. Errors: ErrBadRequest, ErrUnavailable.
	Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error

	// Restore is Record of all that a log has of a bucket, and marks the bucket as complete from then on, until the mark is lost
	// with the events: with the key, the server's memory, or a failover. A mark of a life that has ended meanwhile says nothing.
	// With History.Settle it marks only a bucket that has lost nothing for so long, as far as the events show.
	// Errors: ErrBadRequest, ErrUnavailable.
	Restore(ctx context.Context, h History) error

	// Reset forgets the events of the buckets. A refunded ID stays refunded. Errors: ErrBadRequest, ErrUnavailable.
	Reset(ctx context.Context, buckets ...string) error
}

var (
	_ Limiter = (*Memory)(nil)
	_ Limiter = (*Redis)(nil)
	_ Limiter = (*Remembering)(nil)
)

// ErrUnavailable wraps every failure to reach a decision. Nothing was admitted as far as the caller may assume, but the
// event may or may not have been counted: who gives up on it refunds its ID, who repeats the Take counts it once.
var ErrUnavailable = errors.New("quota: limiter is unavailable")

// ErrRefunded is what Take answers for an event that was refunded a moment ago: a late copy of a finished call.
var ErrRefunded = errors.New("quota: event was refunded")

// ErrBadRequest wraps what a caller got wrong: no ID, no rules, a rule without a bucket, a limit or a window out of bounds.
var ErrBadRequest = errors.New("quota: bad request")
