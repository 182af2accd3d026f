package smtp

import (
	"context"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/delivery"
	"sendcode/internal/failover"
)

// client sends messages to one of the Servers over kept connections. Safe for concurrent use.
type client struct {
	config  Config
	pool    *pool
	health  *failover.Breaker // what Servers goes by
	layouts *delivery.Layouts
}

// newClient checks the configuration and dials nothing.
func newClient(config Config) (*client, error) {
	config = config.filled()
	if err := config.check(); err != nil {
		return nil, err
	}
	return &client{config: config, pool: &pool{least: config.MinConns, most: config.MaxConns, maxMails: config.MaxMails}, health: failover.New(config.address(), false), layouts: &delivery.Layouts{}}, nil
}

// admit acquires a connection, or the right to open one, and asks for the leave to try the server; spare says whether another one is up.
// end is nil without a failure if the mail is better offered elsewhere; see try.
func (s *client) admit(ctx context.Context, spare func() bool) (kept *session, end func(verdict error), fail *delivery.Error) {
	state, _ := s.health.State()
	if state == gobreaker.StateOpen {
		return nil, nil, nil
	}
	patience := forever
	switch {
	case state == gobreaker.StateHalfOpen:
		patience = 0
	case spare():
		patience = crowdedAfter
	}
	kept, ok, fail := s.pool.acquire(ctx, patience)
	if !ok {
		return nil, nil, fail
	}
	if end = s.try(spare); end == nil {
		s.pool.release(kept, true)
	}
	return kept, end, nil
}

// deliver offers the mail to the server, once, and returns the reply that accepted it. It gives back what admit acquired.
//
// A failure on a kept connection before the message itself was begun is tried once more on a fresh one;
// nothing else is retried. ctx bounds the whole: done before the final dot, the message was not sent
// (Temporary); done after it, the outcome is Unknown. A slow server may answer as late as ten minutes after the dot.
func (s *client) deliver(ctx context.Context, kept *session, mail *delivery.Rendered) (reply string, fail *delivery.Error) {
	if kept != nil {
		reply, usable, fail := kept.deliver(ctx, mail)
		if fail == nil || ctx.Err() != nil || !wornOut(fail) {
			s.pool.release(kept, usable)
			return reply, fail
		}
		kept.cut() // the fresh one takes its place
		s.pool.dropIdle()
	}
	fresh, fail := open(ctx, s.config)
	if fail != nil {
		s.pool.release(nil, false)
		return "", fail
	}
	reply, usable, fail := fresh.deliver(ctx, mail)
	s.pool.release(fresh, usable)
	return reply, fail
}

// wornOut holds for failures of the connection, not of the message, before the server said 354: the server
// cannot have accepted anything, and on a kept connection its patience is the likely reason.
func wornOut(fail *delivery.Error) bool {
	early := fail.Stage == delivery.StageMail || fail.Stage == delivery.StageRcpt || fail.Stage == delivery.StageData
	return early && !inStep(fail)
}
