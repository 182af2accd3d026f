package smtp

import (
	"context"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/delivery"
)

// client sends mails to one of the Servers over connections that it keeps. Safe for concurrent use.
type client struct {
	config  Config
	pool    *pool
	health  *delivery.Breaker // what Servers goes by
	encoder *delivery.Encoder
	tried   func(server string, fail *delivery.Error, took time.Duration) // nil: not observed
}

// admit acquires a connection, or the right to open one (kept is nil), and asks the breaker for an attempt. end ends the attempt; see
// startAttempt. end and fail are nil if the mail should go to another server: the breaker admits none, or all connections stayed in use
// while another server was up, as otherUp reports.
func (s *client) admit(ctx context.Context, otherUp func() bool) (kept *session, end func(verdict error), fail *delivery.Error) {
	state, _ := s.health.State()
	if state == gobreaker.StateOpen {
		return nil, nil, nil
	}
	patience := forever
	switch {
	case state == gobreaker.StateHalfOpen:
		patience = 0
	case otherUp():
		patience = crowdedAfter
	}
	kept, ok, fail := s.pool.acquire(ctx, patience)
	if !ok {
		return nil, nil, fail
	}
	if end = s.startAttempt(otherUp); end == nil {
		s.pool.release(kept, true)
	}
	return kept, end, nil
}

// deliver offers the mail to the server, once, and returns the reply that accepted it. It gives back what admit acquired.
//
// If a kept connection fails before the server asked for the content, deliver tries once more on a fresh connection; it retries nothing
// else. If ctx ends before the final dot, the message was not sent (Temporary); if it ends after the dot, the outcome is Unknown. A slow
// server may answer as late as ten minutes after the dot.
func (s *client) deliver(ctx context.Context, kept *session, mail *delivery.Rendered) (reply string, fail *delivery.Error) {
	if kept != nil {
		reply, usable, fail := kept.deliver(ctx, mail)
		if fail == nil || ctx.Err() != nil || !worthFreshConnection(fail) {
			s.pool.release(kept, usable)
			return reply, fail
		}
		kept.closeSocket() // the fresh one takes its place
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

// worthFreshConnection reports whether a kept connection failed, and not the message, before the server said 354: the server cannot have
// accepted anything, and probably closed the connection because it was idle.
func worthFreshConnection(fail *delivery.Error) bool {
	early := fail.Stage == delivery.StageMail || fail.Stage == delivery.StageRcpt || fail.Stage == delivery.StageData
	return early && !leavesSessionUsable(fail)
}

const (
	// slowAfter is when a mail that is still under way counts as a fault, provided another server is up: by then the
	// recipient has waited long.
	slowAfter = 5 * time.Second
	// crowdedAfter is how long a mail waits for a connection to a server while another one is up.
	crowdedAfter = time.Second
)

// breakerVerdict returns the verdict on the server for its circuit breaker: fail, if the server is at fault; ErrNoVerdict, if the outcome
// tells nothing about it, as after the final dot; else nil, also if the recipient or the content was refused.
func breakerVerdict(ctx context.Context, fail *delivery.Error) error {
	switch {
	case fail == nil:
		return nil
	case fail.Class == delivery.Unknown, fail.Status == 0 && ctx.Err() != nil:
		return delivery.ErrNoVerdict
	case fail.Class == delivery.Rejected:
		return nil
	case fail.Status/100 != 4, fail.Status == 421:
		return fail // no readable reply, a wrong one, or a refusal of us
	case fail.Stage == delivery.StageRcpt, fail.Stage == delivery.StageData, fail.Stage == delivery.StageDot:
		return nil // "later" to this recipient or this message
	}
	return fail // no recipient has been named yet
}

// startAttempt starts an attempt, and returns nil if the breaker admits none. The caller calls end once, with the verdict on the attempt.
// An attempt that takes longer than slowAfter counts as a fault if another server is up by then, as otherUp reports.
func (s *client) startAttempt(otherUp func() bool) (end func(verdict error)) {
	report, ok := s.health.Allow()
	if !ok {
		return nil
	}
	var once sync.Once
	slow := time.AfterFunc(slowAfter, func() {
		if otherUp() {
			once.Do(func() { report(errSlow) })
		}
	})
	return func(verdict error) {
		slow.Stop()
		once.Do(func() { report(verdict) })
	}
}
