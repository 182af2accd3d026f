package verification

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
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
	if a.slot, err = s.recipients.Enter(ctx, a.buckets[quota.Recipient]); err != nil { // the line is too long, or the client is gone
		return Answer{}, ErrUnavailable
	}
	defer a.slot.Release()
	c, err := s.claim(ctx, a)
	if err != nil {
		return Answer{}, err
	}
	if c.done != nil {
		return s.replay(ctx, a, *c.done)
	}
	answer, err := s.decide(ctx, a, c)
	s.releaseKey(ctx, c, answer, err)
	return answer, err
}

// decide is the order of a send: carrier hold and lockout, limiter, log, outbox. A client that hangs up must not leave a place taken
// and nothing sent; it is only not waited for.
func (s *Service) decide(waiting context.Context, a asked, c claim) (Answer, error) {
	ctx := context.WithoutCancel(waiting)
	if answer, err := s.heldBack(ctx, a); answer != nil {
		return *answer, err
	}
	began := s.Now()
	decision, err := s.take(ctx, a, c)
	if err != nil {
		return Answer{}, err
	}
	decision, a.longer = withoutChecks(decision)
	if !decision.Admitted {
		return s.refused(a, s.completed(ctx, a, decision), "refused"), nil
	}
	begun, err := s.begin(ctx, a, c, decision)
	switch {
	case err != nil:
		return Answer{}, err
	case begun.Lockout.Wait > 0:
		s.Outbox.RefundNow(ctx, string(c.send[:]), a.buckets)
		s.lockouts.remember(a.lockoutKey(begun.Lockout.ByBrowser), begun.Lockout, s.Now())
		return Answer{}, s.refusedByChecks(a, begun.Lockout)
	case !begun.Admitted:
		return s.refusedByLog(ctx, a, c, decision, begun), nil
	case begun.Repeated: // another process holds it, or held it: the first one, or one that went on while this one stood still
		return s.replay(ctx, a, store.Claimed{Send: begun.Send, Verification: begun.Verification, Now: begun.Now})
	}
	return s.admitted(waiting, a, s.Gate.MergeAdmitted(ctx, a.subject, decision, s.Now().Sub(began), begun), begun)
}

// heldBack refuses a send whose code could not be checked, or whose carrier takes nothing for the recipient. Both come after the
// rules: a caller whose own network is refused learns of neither. A carrier's hold alone is then one of the rules. nil: neither
// holds, and the gates decide.
func (s *Service) heldBack(ctx context.Context, a asked) (*Answer, error) {
	lockout, locked := s.lockedOut(a)
	if _, held, err := s.carrierHold(ctx, a.subject); !locked && !held && err == nil {
		return nil, nil
	}
	d, err := s.look(ctx, a.subject)
	switch {
	case err != nil:
		return &Answer{}, err
	case !d.Allowed():
		refusal := s.refused(a, d, "refused")
		return &refusal, nil
	case locked:
		return &Answer{}, s.refusedByChecks(a, lockout)
	}
	return nil, nil
}

// take asks the first gate.
func (s *Service) take(ctx context.Context, a asked, c claim) (quota.Decision, error) {
	r := s.withChecks(a, quota.Request{
		ID: string(c.send[:]), Rules: a.purpose.Policy.Rules, Buckets: a.buckets, Repeated: c.keyed, Logged: gates.Logged(a.purpose),
	})
	d, giveBack, err := s.Gate.TakeSend(ctx, a.subject, r)
	if giveBack {
		s.Outbox.RefundLater(r.ID, r.Buckets)
	}
	if errors.Is(err, quota.ErrRefunded) { // an inherited send that was given back a moment ago: the next try gets an ID of its own
		return d, ErrUnavailable
	}
	if c.inherited && err == nil && d.Admitted {
		s.Gate.Recount(ctx, a.subject, r.ID, d)
	}
	return d, err
}

// begin asks the second gate, which writes the send.
func (s *Service) begin(ctx context.Context, a asked, c claim, d quota.Decision) (store.Begun, error) {
	id, buckets := string(c.send[:]), a.buckets
	intent, err := s.intent(a, c.send, d)
	if err != nil {
		s.Outbox.RefundLater(id, buckets)
		return store.Begun{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	begun, err := s.Store.Begin(ctx, intent)
	if err == nil {
		return begun, nil
	}
	s.Logger.ErrorContext(ctx, "log could not take a send", "error", err)
	s.Observer.Decided(a.to.Channel(), a.App, "unavailable", "")
	if errors.Is(err, store.ErrUncertain) {
		s.Outbox.ReconcileLater(c.send, buckets)
		return begun, ErrUncertain
	}
	s.Outbox.RefundLater(id, buckets)
	return begun, ErrUnavailable
}

// admitted answers, with the send on its way or, where the caller waits for it, at its end.
func (s *Service) admitted(ctx context.Context, a asked, d quota.Decision, begun store.Begun) (Answer, error) {
	a.slot.ReleaseNow()
	outcome := "admitted"
	if d.Clock == store.LogClock {
		outcome = "admitted_by_log_alone"
		s.Outbox.RecordLater(a.subject, string(begun.Send.ID[:]), begun.Send.LoggedAt)
	}
	s.Observer.Decided(a.to.Channel(), a.App, outcome, "")
	for _, rule := range begun.Send.Observed {
		s.Observer.Observed(a.to.Channel(), a.App, rule)
	}
	began := s.Now()
	work := store.Work{Send: begun.Send, Verification: begun.Verification}
	if begun.Opened() { // the recipient of one that it joined may be spelt in another way
		work.To, work.Address = a.to, a.address
	}
	send := s.Outbox.Deliver(ctx, work, min(a.Wait, MaxWait))
	if a.Wait > 0 || begun.Repeated || d.Clock == store.LogClock {
		d = s.waitsNow(ctx, a, d)
	}
	return Answer{Admitted: true, View: s.viewOf(begun.Verification, send, begun.Now.Add(s.Now().Sub(began)), work.Address), Quota: Public(d, a.Caller, Pending), Policy: a.purpose.Policy}, nil
}

// waitsNow reads the waits again: time has passed, a refund may have given the place back, or the limiter did not say them. The
// send is in the log and goes out, so older waits are better than no answer.
func (s *Service) waitsNow(ctx context.Context, a asked, before quota.Decision) quota.Decision {
	d, err := s.Gate.PeekAfter(ctx, a.subject, before)
	if err == nil && before.Clock != store.LogClock {
		d, err = s.withCarrierHold(ctx, a.subject, d)
	}
	if err != nil {
		return before
	}
	return d
}

// completed is a refusal by the limiter, completed from the log where the caller reads the recipient's rules.
func (s *Service) completed(ctx context.Context, a asked, d quota.Decision) quota.Decision {
	if worst, _ := d.Blocking(); a.Kind != Secret && !policy.InLog(worst.Rule) {
		return d
	}
	return s.Gate.Complete(ctx, a.subject, d)
}

// refusedByLog answers a send that the limiter let in and the log refused.
func (s *Service) refusedByLog(ctx context.Context, a asked, c claim, taken quota.Decision, begun store.Begun) Answer {
	d, giveBack := s.Gate.RevertOverruled(ctx, a.subject, c.send, taken, begun)
	if giveBack {
		s.Outbox.RefundLater(string(c.send[:]), a.buckets)
	}
	return s.refused(a, d, "refused_by_log")
}

// refused records a refusal and answers it.
func (s *Service) refused(a asked, d quota.Decision, outcome string) Answer {
	worst, _ := d.Blocking()
	s.breaker.note(s, worst)
	row := a.row()
	row.Status, row.BlockedBy, row.RetryAfter, row.Count = store.Refused, worst.Name, worst.RetryAfter, 1
	row.Reference = "" // free text, and nothing came of the request that it could be found by
	s.Refusals.Add(row, worst.Scope)
	s.Observer.Decided(a.to.Channel(), a.App, outcome, worst.Name)
	return Answer{Quota: Public(d, a.Caller, a.own), Policy: a.purpose.Policy, View: View{To: a.to.Masked(), Channel: a.to.Channel(), Purpose: a.purpose.Name}}
}

// LongCode is how many characters a browser's new code has at least while an app's bound on failed checks is passed: a hundredth
// of the guesses are then right.
const LongCode = 8

// withChecks has a browser's Take look at the app's failed checks as well, in the same round trip.
func (s *Service) withChecks(a asked, r quota.Request) quota.Request {
	if a.Kind != Browser {
		return r
	}
	rule := s.Policy.Get().ChecksOrDefault().App
	rule.Scope, rule.Observe = quota.FailedChecks, true
	r.Rules = append(slices.Clip(r.Rules), rule)
	r.Buckets = maps.Clone(r.Buckets)
	r.Buckets[quota.FailedChecks] = policy.AppChecksBucket(a.App, a.to.Channel())
	return r
}

// withoutChecks is the decision on the send alone, and whether its new code is to be longer.
func withoutChecks(d quota.Decision) (own quota.Decision, longer bool) {
	ofChecks := func(r quota.State) bool { return r.Scope == quota.FailedChecks }
	i := slices.IndexFunc(d.Rules, ofChecks)
	if i < 0 {
		return d, false
	}
	longer = d.Rules[i].Used >= d.Rules[i].Limit
	own = d
	own.Rules = slices.DeleteFunc(slices.Clone(d.Rules), ofChecks)
	return own, longer
}

// codeLength is that of a new code.
func (a asked) codeLength() int {
	if a.longer {
		return max(LongCode, a.purpose.CodeLength)
	}
	return a.purpose.CodeLength
}

// CarrierRule is what a carrier's own limit is called among the rules of an answer.
const CarrierRule = "carrier"

// carrierHold is a carrier's hold on the recipient, as a rule: until it ends, asking the carrier again would be of no use. It is in the
// log alone, so that all replicas know it, and no flush of the limiter ends it.
func (s *Service) carrierHold(ctx context.Context, of policy.Subject) (quota.State, bool, error) {
	if of.Channel != recipient.SMS || s.Texts == nil {
		return quota.State{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	e, err := s.Store.HeldBack(ctx, of.Channel, of.Recipient)
	if err != nil || e.Left <= 0 {
		return quota.State{}, false, err
	}
	rule := quota.Rule{Name: CarrierRule, Scope: quota.Recipient, Limit: 1, Window: max(e.Whole, quota.MinWindow)}
	return quota.State{Rule: rule, Used: 1, ResetAfter: e.Left, RetryAfter: e.Left}, true, nil
}

func (s *Service) withCarrierHold(ctx context.Context, of policy.Subject, d quota.Decision) (quota.Decision, error) {
	carrier, held, err := s.carrierHold(ctx, of)
	if held {
		d.Rules = append(d.Rules, carrier)
	}
	return d, err
}

// MaxWait bounds how long a request may wait for its outcome.
const MaxWait = 20 * time.Second
