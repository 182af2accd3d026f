package verification

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// What a mail server or a carrier refuses for good gives its place back, so that a typing error costs nothing. So does what
// is not even tried, since its recipient is suppressed or its channel paused. Without more, a bad address could then be
// hammered for ever. So such sends count in a bucket of their own, which a rule of the
// scope failures looks at (QUOTA-15). The log decides that rule too, from its rows; the limiter is told of each failure,
// and again by a refusal of the log.

// failuresBucket is the recipient's under every policy: a bad address is one for whatever purpose.
func failuresBucket(app string, ch recipient.Channel, h recipient.Hash) string {
	return bucket(app, ch, "", quota.Failures, h.String())
}

// onFailures is the rule that the log decides; without a limit there is none.
func onFailures(rules []quota.Rule) quota.Rule {
	for _, r := range rules {
		if r.Scope == quota.Failures && !r.Observe {
			return r
		}
	}
	return quota.Rule{}
}

// memory is for how long any rule on failures looks back; 0 where there is none.
func (t Terms) memory() time.Duration {
	var longest time.Duration
	for _, p := range t.Purposes {
		longest = max(longest, quota.Longest(quota.OfScope(p.Policy.Rules, quota.Failures)))
	}
	return longest
}

// learnFailures writes failures into the limiter: each as old on its clock as it is at now on that of the events.
func (s *Service) learnFailures(ctx context.Context, bucket string, events []quota.Event, now time.Time) error {
	keep := s.Terms().memory()
	if keep == 0 || len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	clock, err := s.Limiter.Peek(ctx, quota.Request{
		Rules:   []quota.Rule{{Name: "clock", Scope: quota.Failures, Limit: 1, Window: quota.MinWindow}},
		Buckets: map[quota.Scope]string{quota.Failures: bucket},
	})
	if err != nil {
		return err
	}
	events = slices.Clone(events)
	for i := range events {
		events[i].At = events[i].At.Add(clock.At.Sub(now))
	}
	return s.Limiter.Record(ctx, bucket, keep, events)
}

// rejected has the limiter learn that a send was refused for good, or not even tried, now or once it is back.
func (o *outbox) rejected(s store.Send) {
	d := debt{id: string(s.ID[:]), buckets: []string{failuresBucket(s.App, s.Channel, s.Recipient)}, at: o.Now(), failed: true, keep: o.Terms().memory()}
	if err := o.pay(context.Background(), d); err != nil {
		o.Logger.Warn("a failure waits for the limiter", "send", s.ID, "error", err)
		o.owe(d)
	}
}
