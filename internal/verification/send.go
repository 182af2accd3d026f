package verification

import (
	"context"
	"errors"

	"sendcode/internal/store"
	"sendcode/quota"
)

// Answer is what a request for a code came to. A refusal is a value: Admitted is false, and View is zero unless the
// request named a verification.
type Answer struct {
	Admitted bool
	Replayed bool // an earlier request with the same key was let in; this one did nothing
	View     View
	Quota    quota.Decision
	Policy   quota.Policy
}

// Send decides a request for a code and, when both gates let it in, has it on its way before it returns. Errors:
// *InvalidError, *TooManyChecksError while its code could not be checked, ErrNotFound, ErrUnavailable, ErrBusy, ErrOtherRequest.
func (s *Service) Send(ctx context.Context, ask Ask) (Answer, error) {
	a, err := s.understand(ctx, ask)
	if err != nil {
		return Answer{}, err
	}
	if a.turn, err = s.lines.enter(ctx, a.buckets()[quota.Recipient]); err != nil {
		return Answer{}, err
	}
	defer a.turn.end()
	c, err := s.claim(ctx, a)
	if err != nil {
		return Answer{}, err
	}
	if c.done != nil {
		return s.replay(ctx, a, *c.done)
	}
	answer, err := s.decide(ctx, a, c)
	s.settle(ctx, c, answer, err)
	return answer, err
}

// decide asks both gates. A client that hangs up must not leave a place taken and nothing sent; it is only not waited for.
func (s *Service) decide(waiting context.Context, a asked, c claim) (Answer, error) {
	ctx := context.WithoutCancel(waiting)
	// A lockout and a carrier's hold come after the rules: a caller whose own network is refused learns of neither.
	lockout, locked := s.lockedOut(a)
	if _, held, err := s.embargo(ctx, a.to.Channel(), a.hash); locked || held || err != nil {
		d, err := s.peek(ctx, a.Caller, a.to.Channel(), a.area, a.purpose, a.hash)
		if err != nil {
			return Answer{}, err
		}
		if !d.Allowed() {
			return s.refused(a, d, "refused"), nil
		}
	}
	if locked {
		return Answer{}, s.refusedByChecks(a, lockout)
	}
	decision, err := s.take(ctx, a, c)
	switch {
	case errors.Is(err, quota.ErrRefunded): // an inherited send that was given back a moment ago: the next try gets an ID of its own
		return Answer{}, ErrUnavailable
	case err != nil:
		return Answer{}, err
	}
	decision, a.longer = withoutChecks(decision)
	if !decision.Admitted {
		return s.refused(a, s.whole(ctx, a, decision), "refused"), nil
	}
	begun, err := s.begin(ctx, a, c, decision)
	switch {
	case err != nil:
		return Answer{}, err
	case begun.Lockout.Wait > 0:
		s.outbox.giveBackNow(ctx, string(c.send[:]), a.buckets())
		s.lockouts.remember(a.lockoutKey(begun.Lockout.ByBrowser), begun.Lockout, s.Now())
		return Answer{}, s.refusedByChecks(a, begun.Lockout)
	case !begun.Admitted:
		return s.refused(a, s.correct(ctx, a, c.send, decision, begun), "refused_by_log"), nil
	case begun.Repeated && c.inherited: // its first holder lives, or a replica takes it over
		return s.replay(ctx, a, store.Claimed{Send: begun.Send, Verification: begun.Verification, Now: begun.Now})
	}
	return s.admitted(waiting, a, s.agreed(ctx, a, decision, begun), begun)
}

// admitted answers, with the send on its way or, where the caller waits for it, at its end.
func (s *Service) admitted(ctx context.Context, a asked, d quota.Decision, begun store.Begun) (Answer, error) {
	a.turn.letIn()
	outcome := "admitted"
	if d.Clock == store.LogClock {
		outcome = "admitted_by_log_alone"
		s.teachLater(a, begun.Send.ID, begun.Send.LoggedAt)
	}
	s.Observer.Decided(a.to.Channel(), a.App, outcome, "")
	for _, rule := range begun.Send.Observed {
		s.Observer.Observed(a.to.Channel(), a.App, rule)
	}
	began := s.Now()
	send := s.startAndWait(ctx, store.Work{Send: begun.Send, Verification: begun.Verification}, a.Wait)
	if a.Wait > 0 || begun.Repeated || d.Clock == store.LogClock {
		d = s.waitsNow(ctx, a, d)
	}
	return Answer{Admitted: true, View: s.view(begun.Verification, send, begun.Now.Add(s.Now().Sub(began))), Quota: Public(d, a.Caller, Pending), Policy: a.purpose.Policy}, nil
}

// waitsNow reads the waits again: time has passed, a refund may have given the place back, or no limiter told them. The
// send is in the log and goes out, so older waits are better than no answer.
func (s *Service) waitsNow(ctx context.Context, a asked, told quota.Decision) quota.Decision {
	var d quota.Decision
	var err error
	if told.Clock == store.LogClock { // a limiter that is back by now may not have heard of this send
		d, err = s.explainAlone(ctx, a.App, a.to.Channel(), a.hash, a.purpose, a.buckets())
	} else {
		d, err = s.peek(ctx, a.Caller, a.to.Channel(), a.area, a.purpose, a.hash)
	}
	if err != nil {
		return told
	}
	return d
}

// take asks the first gate. While it is away, its answer is that of the other scopes alone, on the log's clock.
func (s *Service) take(ctx context.Context, a asked, c claim) (quota.Decision, error) {
	r := s.withChecks(a, quota.Request{ID: string(c.send[:]), Rules: a.purpose.Policy.Rules, Buckets: a.buckets(), Repeated: c.keyed, Logged: a.purpose.logged()})
	d, err := s.limits.Take(ctx, r)
	if !errors.Is(err, errAway) {
		return d, err
	}
	s.limits.outage.sends.Add(1)
	d, err = s.limits.takeAlone(ctx, r)
	if err != nil || d.Admitted {
		return d, err
	}
	s.outbox.giveBack(r.ID, r.Buckets) // it may have counted there all the same
	return s.explainAlone(ctx, a.App, a.to.Channel(), a.hash, a.purpose, r.Buckets)
}

func (s *Service) begin(ctx context.Context, a asked, c claim, d quota.Decision) (store.Begun, error) {
	id := c.send
	intent, err := s.intent(a, id, d)
	if err != nil {
		s.outbox.giveBack(string(id[:]), a.buckets())
		return store.Begun{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	begun, err := s.Log.Begin(ctx, intent)
	if err != nil {
		s.Logger.Error("log could not take a send", "error", err)
		s.Observer.Decided(a.to.Channel(), a.App, "unavailable", "")
		if errors.Is(err, store.ErrUncertain) {
			s.outbox.remember(unsettled{send: c.send, buckets: a.buckets(), uncertain: true})
			return begun, errUncertain
		}
		s.outbox.giveBack(string(id[:]), a.buckets())
		return begun, ErrUnavailable
	}
	return begun, nil
}
