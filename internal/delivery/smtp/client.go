package smtp

import (
	"context"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/delivery"
	"sendcode/internal/failover"
)

// Client sends messages to one of the Servers over kept connections. Safe for concurrent use.
type Client struct {
	config  Config
	pool    *pool
	health  *failover.Breaker // what Servers goes by
	layouts *delivery.Layouts
}

// New checks the configuration and dials nothing.
func New(config Config) (*Client, error) {
	config = config.filled()
	if err := config.check(); err != nil {
		return nil, err
	}
	return &Client{config: config, pool: newPool(config), health: failover.New(config.address(), false), layouts: &delivery.Layouts{}}, nil
}

// admit asks for a place and for the leave to try the server; spare says whether another one is up. nil without a
// failure means that the mail is better offered elsewhere.
func (s *Client) admit(ctx context.Context, spare func() bool) (*trial, *delivery.Error) {
	state, _ := s.health.State()
	if state == gobreaker.StateOpen {
		return nil, nil
	}
	patience := forever
	switch {
	case state == gobreaker.StateHalfOpen:
		patience = 0
	case spare():
		patience = crowdedAfter
	}
	entered, fail := s.pool.enter(ctx, patience)
	if !entered {
		return nil, fail
	}
	done, err := s.health.Allow()
	if err != nil {
		s.pool.leave()
		return nil, nil
	}
	return newTrial(s.health, done, spare), nil
}

// deliver offers the mail to the server, once. It needs a place, and gives it back.
//
// A failure on a kept connection before the message itself was begun is tried once more on a fresh one;
// nothing else is retried. ctx bounds the whole: done before the final dot, the message was not sent
// (Temporary); done after it, the outcome is Unknown. A slow server may answer as late as ten minutes after the dot.
func (s *Client) deliver(ctx context.Context, mail *delivery.Rendered) (delivery.Receipt, *delivery.Error) {
	receipt := delivery.Receipt{Provider: s.config.Host}
	answer, fail := s.transfer(ctx, mail)
	if fail != nil {
		receipt.Code, receipt.Enhanced = fail.Status, fail.Code
		return receipt, fail
	}
	receipt.Code, receipt.Enhanced = answer.code, answer.enhanced
	return receipt, nil
}

func (s *Client) transfer(ctx context.Context, mail *delivery.Rendered) (reply, *delivery.Error) {
	kept, fail := s.pool.take(ctx)
	if fail != nil {
		s.pool.leave()
		return reply{}, fail
	}
	if kept != nil {
		answer, usable, fail := kept.deliver(ctx, mail)
		if fail == nil || ctx.Err() != nil || !wornOut(fail) {
			s.pool.release(kept, usable)
			return answer, fail
		}
		kept.cut() // the fresh one takes its place
		s.pool.dropIdle()
	}
	return s.sendFresh(ctx, mail)
}

// sendFresh delivers over a new connection; the caller's place goes with it.
func (s *Client) sendFresh(ctx context.Context, mail *delivery.Rendered) (reply, *delivery.Error) {
	fresh, fail := open(ctx, s.config)
	if fail != nil {
		s.pool.failed()
		return reply{}, fail
	}
	answer, usable, fail := fresh.deliver(ctx, mail)
	s.pool.release(fresh, usable)
	return answer, fail
}

// wornOut holds for failures of the connection, not of the message, before the server said 354: the server
// cannot have accepted anything, and on a kept connection its patience is the likely reason.
func wornOut(fail *delivery.Error) bool {
	early := fail.Stage == delivery.StageMail || fail.Stage == delivery.StageRcpt || fail.Stage == delivery.StageData
	return early && !inStep(fail)
}

// Examine opens a connection of its own, encrypts and logs in as configured, and says NOOP and QUIT. It sends nothing, and returns how
// the connection was encrypted. The error is a [*delivery.Error] that says at which stage it ended.
func (s *Client) Examine(ctx context.Context) (Encryption, error) {
	if _, fail := s.pool.enter(ctx, forever); fail != nil {
		return Encryption{}, fail
	}
	defer s.pool.leave()
	s.pool.dropIdle() // makes room for one more connection
	session, fail := open(ctx, s.config)
	if fail != nil {
		return Encryption{}, fail
	}
	defer session.quit()
	stop := context.AfterFunc(ctx, session.cut)
	defer stop()
	seen := session.encryption()
	if fail := session.step(ctx, delivery.StageHello, session.client.Noop); fail != nil {
		return seen, fail
	}
	return seen, nil
}

// Close says farewell to idle connections, within about a second. Sends under way end undisturbed; later
// ones fail with Temporary.
func (s *Client) Close() error {
	s.pool.close()
	return nil
}
