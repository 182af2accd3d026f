package verification

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/quota"
)

// takeQuota has the limiter count the send: the first gate. If a wait has ended while a refusal was
// looked up, the limiter is asked once more. If the process dies before write has ended, the
// limiter may count a send without a row until its windows end. A repetition with the key has the
// same ID, and counts once. Errors: *earlyAnswer, fault.Unavailable.
func (s *Service) takeQuota(ctx context.Context, send claimedSend) (counted countedSend, err error) {
	if send.checkRequired && send.pass.by == "" {
		return counted, s.refuseWithoutPass(ctx, send, quota.Decision{})
	}
	mayCount := false // the limiter did not answer, and may count the send
	defer func() {
		if mayCount && err != nil {
			s.Gates.RefundLater(send.limiterID(), buckets.OfCountedScopes(send.buckets)...)
		}
	}()
	var refusal gates.Answer
	for range 2 {
		asked := s.Now()
		taken, unanswered, err := s.askLimiter(ctx, send)
		mayCount = mayCount || unanswered
		full := byFullLimits(taken)
		switch {
		case err != nil:
			return counted, err
		case taken.Admitted:
			return countedSend{send, full, asked}, nil
		case full.Allowed() && !taken.Allowed(): // only a pass is lacking
			return counted, s.refuseWithoutPass(ctx, send, taken)
		}
		if refusal, err = s.statesOfRefusal(ctx, send.parsedRequest, full, asked); err != nil {
			return counted, err
		}
		if !refusal.Allowed() {
			break
		}
		refusal.Rules = full.Rules // after the second refusal a wait that has ended is told, too
	}
	return counted, s.refuse(ctx, send.parsedRequest, refusal, "refused")
}

// askLimiter takes the send's places by the limits of its pass. unanswered: the limiter did not
// answer, and may count the send. Errors: those of gates.Gates.TakeSend, and fault.Unavailable.
func (s *Service) askLimiter(ctx context.Context, send claimedSend) (taken quota.Decision, unanswered bool, err error) {
	limits := send.subject.Purpose.ForPass(send.subject.Class, send.pass.Pass).Policy.Rules
	taken, unanswered, err = s.Gates.TakeSend(ctx, quota.Request{
		ID: send.limiterID(), Rules: limits, Also: s.alsoAsked(send, limits), Buckets: send.buckets,
	})
	if errors.Is(err, quota.ErrRefunded) { // an earlier request with the key had this ID; the next one gets a new ID
		err = fault.Unavailable
	}
	return taken, unanswered, err
}

// alsoAsked returns the rules whose states the limiter tells with its decision, so that no second
// call is needed: the rules that a pass makes lower, with their full limits, and for a code that
// can be guessed the app's rule on failed checks.
func (s *Service) alsoAsked(send claimedSend, limits []quota.Rule) (also []quota.Rule) {
	for i, full := range send.subject.Purpose.Policy.Rules {
		if full.Limit != limits[i].Limit {
			also = append(also, full)
		}
	}
	if send.subject.Class != store.SecretKeyClass {
		checks := s.Policy.Get().Checks.App
		checks.Scope = quota.FailedChecks
		also = append(also, checks)
	}
	return also
}

// byFullLimits returns a decision of askLimiter with the states by the full limits.
func byFullLimits(taken quota.Decision) quota.Decision {
	if len(taken.Also) == 0 {
		return taken
	}
	full := taken
	full.Rules = slices.Clone(taken.Rules)
	for _, x := range taken.Also {
		if i := slices.IndexFunc(full.Rules, func(s quota.State) bool { return s.Name == x.Name && s.Scope == x.Scope }); i >= 0 {
			full.Rules[i] = x
		}
	}
	return full
}

// refuseWithoutPass answers a request that lacks a pass: it asks for a human check if a pass would
// admit the request. taken is the refusal by the limits of its pass; zero: it needs a pass wherever
// the rules have places. It reads the recipient's rows; where all places are taken it is not
// called, so that a flood reads none. Errors: *earlyAnswer, fault.Unavailable.
func (s *Service) refuseWithoutPass(ctx context.Context, send claimedSend, taken quota.Decision) error {
	current, err := s.peek(ctx, send.subject)
	if err != nil {
		return err
	}
	if !current.Allowed() {
		return s.refuse(ctx, send.parsedRequest, current, "refused")
	}
	return s.askForCheck(send, current.Decision, taken)
}

// statesOfRefusal returns the answer to a refusal by the limiter or this process; see
// gates.Gates.AnswerRefusal. A browser that is told a rule of another scope than recipient,
// failures or backoff is told nothing about the recipient's rules, so the database is asked only if
// the browser has a verification, and then it need not answer. Error: fault.Unavailable if the
// database does not answer, since only both gates know how long to wait.
func (s *Service) statesOfRefusal(ctx context.Context, r *parsedRequest, refused quota.Decision, asked time.Time) (gates.Answer, error) {
	shown, _ := visibleRefusal(refused)
	wide := r.Kind != BackEnd && !policy.CountedInDatabase(shown.Rule) && shown.Scope != quota.Backoff
	if wide && r.resendOf.ID == "" {
		return gates.Answer{Decision: refused}, nil
	}
	refusal, err := s.Gates.AnswerRefusal(ctx, r.subject, refused, asked)
	if wide && err != nil {
		return gates.Answer{Decision: refused}, nil
	}
	return refusal, err
}
