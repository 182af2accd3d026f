package verification

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// rebuildBatch is how many events of one bucket are recorded in one call.
const rebuildBatch = 256

// Rebuild writes the log's counting and rejected sends into a limiter in process that starts empty, or has kept less than new terms
// need, on the clock that they were taken on where it is the limiter's own. What it holds stays as it is. Sends of purposes that are no longer configured count for nothing.
func (s *Service) Rebuild(ctx context.Context, clock string) error {
	purposes := s.Terms().Purposes
	history := map[string][]quota.Event{}
	keep := map[string]time.Duration{}
	err := s.Log.CountedSends(ctx, clock, longestWindow(purposes), func(c store.CountedSend) error {
		p, ok := purposes[c.Purpose]
		if !ok {
			return nil
		}
		b := bucket(c.App, c.Channel, p.Policy.Name, quota.Recipient, c.Recipient.String())
		keep[b] = p.keep()
		if history[b] = append(history[b], c.Event); len(history[b]) < rebuildBatch {
			return nil
		}
		events := history[b]
		delete(history, b)
		return s.Limiter.Record(ctx, b, keep[b], events)
	})
	if err != nil {
		return err
	}
	for b, events := range history {
		if err := s.Limiter.Record(ctx, b, keep[b], events); err != nil {
			return err
		}
	}
	return s.rebuildFailures(ctx)
}

func (s *Service) rebuildFailures(ctx context.Context) error {
	memory := s.Terms().memory()
	if memory == 0 {
		return nil
	}
	return s.Log.AllRejected(ctx, memory, func(c store.CountedSend) error {
		return s.Limiter.Record(ctx, failuresBucket(c.App, c.Channel, c.Recipient), memory, []quota.Event{c.Event})
	})
}

func longestWindow(purposes map[string]Purpose) time.Duration {
	var d time.Duration
	for _, p := range purposes {
		d = max(d, p.keep())
	}
	return d
}
