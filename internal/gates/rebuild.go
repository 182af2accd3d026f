package gates

import (
	"context"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// rebuildBatch is how many events of one bucket Rebuild records in one call.
const rebuildBatch = 256

// Rebuild adds the log's counted sends and failures to an in-process limiter, which starts empty, or kept too little for a new policy.
// Instants on the given clock, the limiter's own, are used as they are. Events in the limiter stay. Sends of purposes that are no
// longer configured are left out. Error: of the log or the limiter.
func (g *Gate) Rebuild(ctx context.Context, clock string) error {
	set := g.policy.Get()
	history := map[string][]quota.Event{}
	keep := map[string]time.Duration{}
	err := g.log.CountedSends(ctx, clock, set.LongestWindow(), func(c store.CountedSend) error {
		p, ok := set.Purposes[c.Purpose]
		if !ok {
			return nil
		}
		b := policy.RecipientBucket(c.App, c.Channel, p.Policy.Name, c.Recipient)
		keep[b] = p.Window()
		if history[b] = append(history[b], c.Event); len(history[b]) < rebuildBatch {
			return nil
		}
		events := history[b]
		delete(history, b)
		return g.shared.Record(ctx, b, keep[b], events)
	})
	if err != nil {
		return err
	}
	for b, events := range history {
		if err := g.shared.Record(ctx, b, keep[b], events); err != nil {
			return err
		}
	}
	return g.rebuildFailures(ctx, set.FailureWindow())
}

func (g *Gate) rebuildFailures(ctx context.Context, window time.Duration) error {
	if window == 0 {
		return nil
	}
	return g.log.AllRejected(ctx, window, func(c store.CountedSend) error {
		return g.shared.Record(ctx, policy.FailuresBucket(c.App, c.Channel, c.Recipient), window, []quota.Event{c.Event})
	})
}
