package support

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Policy is a current policy with the names of the purposes that share it.
type Policy struct {
	quota.Policy
	Purposes []string       // sorted
	Reserve  map[string]int // of each rule, by name; see policy.Purpose
}

// Policies returns the current policies, sorted by name.
func (d *Desk) Policies() []Policy {
	byName := map[string]Policy{}
	for _, p := range d.Policy.Get().Purposes {
		byName[p.Policy.Name] = Policy{p.Policy, slices.Sorted(slices.Values(p.Shares)), p.Reserve}
	}
	var all []Policy
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// RecipientsAtLimit returns the recipients who have used up a rule of the policy, at most limit,
// those with the newest send first, and the number of all of them. The rule must have the scope
// recipient, since the database counts no other. Error: fault.Unavailable.
func (d *Desk) RecipientsAtLimit(ctx context.Context, p Policy, rule quota.Rule, limit int) ([]store.HeavyRecipient,
	int, error) {
	now := d.Now()
	within := now.Sub(quota.Cutoffs([]quota.Rule{rule}, now)[0])
	crowds, all, err := d.Store.HeavyRecipients(ctx,
		store.HeavyRecipientsQuery{Purposes: p.Purposes, Within: within, AtLeast: rule.Limit, Limit: limit})
	return crowds, all, err
}

// ReplayResult counts what other rules would have refused of the past sends.
type ReplayResult struct {
	Sends, Refused       int            // all admitted sends, and those that would have been refused
	Recipients, Affected int            // all recipients, and those that would have been refused at least once
	ByRule               map[string]int // refusals by each rule that blocked; one send may be in several
}

// maxReplayedSends is the largest number of sends that are replayed, since the history of their
// recipients is held in memory.
const maxReplayedSends = 2_000_000

// ErrTooManySends says that the replayed time has more sends than maxReplayedSends.
var ErrTooManySends = errors.New("more sends than can be replayed")

// ReplaySends evaluates other rules of the scope recipient for the admitted sends of the last
// period. A send that they would have refused counts for no later one. Requests that were refused
// are not replayed, so ReplaySends shows the effect of stricter rules only. Errors:
// ErrTooManySends, fault.Unavailable.
func (d *Desk) ReplaySends(ctx context.Context, p Policy, rules []quota.Rule, period time.Duration) (ReplayResult, error) {
	r := whatIfRun{
		ReplayResult: ReplayResult{ByRule: map[string]int{}}, rules: rules, longest: quota.LongestKeep(rules),
		since: d.Now().Add(-period), history: map[replayedBucket]*replayedHistory{},
	}
	err := d.Store.CountedSends(ctx, period+r.longest, func(c store.CountedSend) error {
		if !slices.Contains(p.Purposes, c.Purpose) {
			return nil
		}
		return r.tally(c)
	})
	if errors.Is(err, ErrTooManySends) {
		return ReplayResult{}, err
	}
	return r.ReplayResult, err
}

type replayedBucket struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
}

// replayedHistory has the events that a bucket counts, oldest first.
type replayedHistory struct {
	events  []quota.Event
	seen    bool // within the period
	refused bool
}

type whatIfRun struct {
	ReplayResult
	rules   []quota.Rule
	longest time.Duration
	since   time.Time
	history map[replayedBucket]*replayedHistory
	read    int
}

// tally evaluates the rules for the next send and counts the outcome; sends before the period only
// fill the window. Error: ErrTooManySends.
func (r *whatIfRun) tally(c store.CountedSend) error {
	if r.read++; r.read > maxReplayedSends {
		return ErrTooManySends
	}
	b := replayedBucket{c.App, c.Channel, c.Recipient}
	past, ok := r.history[b]
	if !ok {
		past = &replayedHistory{}
		r.history[b] = past
	}
	now := c.Event.At
	past.events = slices.DeleteFunc(past.events, func(e quota.Event) bool { return now.Sub(e.At) >= r.longest })
	d := quota.Evaluate(r.rules, map[quota.Scope][]quota.Event{quota.Recipient: past.events}, now)
	if d.Allowed() {
		past.events = append(past.events, c.Event)
	}
	if !now.After(r.since) {
		return nil
	}
	r.Sends++
	if !past.seen {
		past.seen = true
		r.Recipients++
	}
	if d.Allowed() {
		return nil
	}
	r.Refused++
	if !past.refused {
		past.refused = true
		r.Affected++
	}
	for _, name := range d.Violated() {
		r.ByRule[name]++
	}
	return nil
}
