package verification

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/audit"
	"sendcode/quota"
)

// sealLabel separates the key that encrypts recipients from the others of the ring.
const sealLabel = "recipient"

// With less life left than min(120 s, life/5), a resend would arrive as good as expired and opens a new verification
// instead (DESIGN.md, section 3).
const (
	maxMinLife   = 120 * time.Second
	minLifeShare = 5
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
// *InvalidError, ErrNotFound, ErrUnavailable, ErrBusy, ErrOtherRequest.
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
	decision, err := s.take(ctx, a, c)
	switch {
	case errors.Is(err, quota.ErrRefunded): // an inherited send that was given back a moment ago: the next try gets an ID of its own
		return Answer{}, ErrUnavailable
	case err != nil:
		return Answer{}, err
	}
	if !decision.Admitted {
		return s.refused(a, decision, "refused"), nil
	}
	begun, err := s.begin(ctx, a, c.send, decision)
	switch {
	case err != nil:
		return Answer{}, err
	case !begun.Admitted:
		return s.refused(a, s.correct(ctx, a, c.send, decision, begun), "refused_by_log"), nil
	case begun.Repeated && c.inherited: // its first holder lives, or a replica takes it over
		return s.replay(ctx, a, audit.Claimed{Send: begun.Send, Verification: begun.Verification, Now: begun.Now})
	}
	return s.admitted(waiting, a, decision, begun)
}

// admitted answers, with the send on its way or, where the caller waits for it, at its end.
func (s *Service) admitted(ctx context.Context, a asked, d quota.Decision, begun audit.Begun) (Answer, error) {
	a.turn.letIn()
	outcome := "admitted"
	if d.Clock == audit.LogClock {
		outcome = "admitted_by_log_alone"
		s.teachLater(a, begun.Send.ID, begun.Send.LoggedAt)
	}
	s.Observer.Decided(a.to.Channel(), a.App, outcome, "")
	for _, rule := range begun.Send.Observed {
		s.Observer.Observed(a.to.Channel(), a.App, rule)
	}
	began := s.Now()
	send := s.startAndWait(ctx, audit.Work{Send: begun.Send, Verification: begun.Verification}, a.Wait)
	if a.Wait > 0 || d.Clock == audit.LogClock {
		d = s.waitsNow(ctx, a, d)
	}
	return Answer{Admitted: true, View: s.view(begun.Verification, send, begun.Now.Add(s.Now().Sub(began))), Quota: d.Told(), Policy: a.purpose.Policy}, nil
}

// waitsNow reads the waits again: time has passed, a refund may have given the place back, or no limiter told them. The
// send is in the log and goes out, so older waits are better than no answer.
func (s *Service) waitsNow(ctx context.Context, a asked, told quota.Decision) quota.Decision {
	var d quota.Decision
	var err error
	if told.Clock == audit.LogClock { // a limiter that is back by now may not have heard of this send
		d, err = s.explainAlone(ctx, a.App, a.to.Channel(), a.hash, a.purpose, a.buckets())
	} else {
		d, err = s.peek(ctx, a.Caller, a.to.Channel(), a.purpose, a.hash)
	}
	if err != nil {
		return told
	}
	return d
}

// take asks the first gate. While it is away, its answer is that of the other scopes alone, on the log's clock.
func (s *Service) take(ctx context.Context, a asked, c claim) (quota.Decision, error) {
	r := quota.Request{ID: string(c.send[:]), Rules: a.purpose.Policy.Rules, Buckets: a.buckets(), Repeated: c.keyed}
	d, err := s.limits.Take(ctx, r)
	if !errors.Is(err, errAway) {
		return d, err
	}
	s.Logger.Warn("the limiter is away; the log decides alone", "error", err)
	d, err = s.limits.takeAlone(ctx, r)
	if err != nil || d.Admitted {
		return d, err
	}
	s.outbox.giveBack(r.ID, r.Buckets) // it may have counted there all the same
	return s.explainAlone(ctx, a.App, a.to.Channel(), a.hash, a.purpose, r.Buckets)
}

func (s *Service) begin(ctx context.Context, a asked, id uuid.UUID, d quota.Decision) (audit.Begun, error) {
	intent, err := s.intent(a, id, d)
	if err != nil {
		s.outbox.giveBack(string(id[:]), a.buckets())
		return audit.Begun{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	begun, err := s.Log.Begin(ctx, intent)
	if err != nil {
		s.Logger.Error("log could not take a send", "error", err)
		s.Observer.Decided(a.to.Channel(), a.App, "unavailable", "")
		if errors.Is(err, audit.ErrUncertain) {
			return begun, errUncertain
		}
		s.outbox.giveBack(string(id[:]), a.buckets())
		return begun, ErrUnavailable
	}
	return begun, nil
}

func (s *Service) intent(a asked, id uuid.UUID, d quota.Decision) (audit.Intent, error) {
	fresh, err := s.fresh(a)
	if err != nil {
		return audit.Intent{}, err
	}
	row := a.row()
	row.ID, row.TakenAt, row.Clock, row.VerificationID = id, d.At, d.Clock, ""
	row.Observed = d.Observed()
	return audit.Intent{
		Send: row, Verification: fresh, Join: a.join,
		Rules: gated(a.purpose.Policy.Rules), Rejections: onFailures(a.purpose.Policy.Rules), Purposes: a.purpose.Shares,
		Life: a.purpose.Life, MinLife: min(maxMinLife, a.purpose.Life/minLifeShare), Lease: s.Lease,
	}, nil
}

// fresh is the verification that Begin opens when there is none to join.
func (s *Service) fresh(a asked) (audit.Verification, error) {
	id, err := newVerificationID()
	if err != nil {
		return audit.Verification{}, err
	}
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return audit.Verification{}, err
	}
	sealed, err := s.Ring.Seal(sealLabel, []byte(a.to.Address()), []byte(id))
	if err != nil {
		return audit.Verification{}, err
	}
	return audit.Verification{
		ID: id, App: a.App, Channel: a.to.Channel(), Purpose: a.purpose.Name, Recipient: a.hash, To: a.to.Masked(),
		Sealed: sealed, Holder: a.holder, Nonce: nonce, KeyID: s.Ring.Current(), CodeLength: a.purpose.CodeLength, Alphabet: string(a.purpose.Alphabet),
		Locale: a.Locale, Reference: a.Reference, MaxAttempts: maxAttempts,
	}, nil
}

// newVerificationID is 160 random bits: the ID is a capability (API-6).
func newVerificationID() (string, error) {
	raw := make([]byte, 20)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw)), nil
}

// correct tells the limiter what the log knew better: its own place goes, the true history comes in. The answer is the
// log's, and of each rule what the limiter says where that is longer, or where the log does not decide it. The limiter
// may still say that there is room: its clock was set ahead, and what it counts already keeps its instant.
func (s *Service) correct(ctx context.Context, a asked, id uuid.UUID, taken quota.Decision, begun audit.Begun) quota.Decision {
	own := quota.OfScope(a.purpose.Policy.Rules, quota.Recipient)
	if r := onFailures(a.purpose.Policy.Rules); r.Limit > 0 {
		own = append(own, r)
	}
	d := quota.Evaluate(own, map[quota.Scope][]quota.Event{quota.Recipient: begun.History, quota.Failures: begun.Rejected}, begun.Now)
	d.Clock = begun.Clock
	states := taken.Rules
	if learnt, err := s.teach(ctx, a, id, taken, begun); err == nil {
		states = learnt.Rules
		d.Rules = stricter(d.Rules, states)
	} else {
		s.outbox.giveBack(string(id[:]), a.buckets())
	}
	for _, state := range states {
		if !slices.ContainsFunc(own, func(r quota.Rule) bool { return r.Name == state.Name }) {
			d.Rules = append(d.Rules, state)
		}
	}
	d.Rules = inOrder(a.purpose.Policy.Rules, d.Rules)
	return d
}

// stricter is of each of the first states the one with the longer wait.
func stricter(states, others []quota.State) []quota.State {
	for i, s := range states {
		for _, o := range others {
			if o.Name == s.Name && o.RetryAfter > s.RetryAfter {
				states[i] = o
			}
		}
	}
	return states
}

// errOtherClock says that the limiter can't be told a history, as it is not on its clock.
var errOtherClock = errors.New("verification: the history is on another clock")

func (s *Service) teach(ctx context.Context, a asked, id uuid.UUID, taken quota.Decision, begun audit.Begun) (quota.Decision, error) {
	if begun.Clock != taken.Clock || begun.Clock == audit.LogClock {
		return quota.Decision{}, errOtherClock
	}
	history := slices.Clone(begun.History)
	for i := range history { // an age is an age, wherever the log saw the limiter's now
		history[i].At = history[i].At.Add(taken.At.Sub(begun.Now))
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	if err := s.Limiter.Refund(ctx, string(id[:]), values(a.buckets())...); err != nil {
		return quota.Decision{}, err
	}
	keep := quota.Longest(quota.OfScope(a.purpose.Policy.Rules, quota.Recipient))
	if err := s.Limiter.Record(ctx, a.buckets()[quota.Recipient], keep, history); err != nil {
		return quota.Decision{}, err
	}
	if err := s.learnFailures(ctx, failuresBucket(a.App, a.to.Channel(), a.hash), begun.Rejected, begun.Now); err != nil {
		return quota.Decision{}, err
	}
	return s.Limiter.Peek(ctx, quota.Request{Rules: a.purpose.Policy.Rules, Buckets: a.buckets()})
}

// values are the buckets that a place is taken in, and given back.
func values(buckets map[quota.Scope]string) []string {
	var all []string
	for scope, b := range buckets {
		if scope.Counted() {
			all = append(all, b)
		}
	}
	return all
}

func (s *Service) refused(a asked, d quota.Decision, outcome string) Answer {
	worst, _ := d.Blocking()
	s.alarmed(worst)
	row := a.row()
	row.Status, row.BlockedBy, row.RetryAfter, row.Count = audit.Refused, worst.Name, worst.RetryAfter, 1
	s.refusals.add(row, s.Now())
	s.Observer.Decided(a.to.Channel(), a.App, outcome, worst.Name)
	return Answer{Quota: d.Told(), Policy: a.purpose.Policy, View: View{To: a.to.Masked(), Channel: a.to.Channel(), Purpose: a.purpose.Name}}
}
