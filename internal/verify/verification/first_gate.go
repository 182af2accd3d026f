package verification

import (
	"context"
	"errors"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// takeQuota lets the limiter, the first gate, count the send. After a refusal, takeQuota calls
// statesOfRefusal, which may read the recipient's rows. If the wait ends during this read,
// takeQuota calls the limiter once more. If the process dies before the method write has returned,
// the limiter may count a send without a row until the windows of the rules end. A repeated request
// with the Idempotency-Key has the same send ID, so the limiter counts the send once. Errors:
// *earlyAnswer, fault.Unavailable.
func (s *sendService) takeQuota(ctx context.Context, send claimedSend) (counted countedSend, err error) {
	if send.checkRequired && send.pass.checker == "" {
		return counted, s.refuseWithoutPass(ctx, send, quota.Decision{})
	}
	mayCount := false // the limiter did not answer, and may count the send
	defer func() {
		if mayCount && err != nil {
			s.Gates.RefundLater(send.limiterID(), buckets.OfCountedScopes(send.plan.Buckets)...)
		}
	}()
	var refusal gates.Answer
	lower := send.lower[send.pass.Pass]
	for range 2 {
		askedAt := s.Now()
		taken, unanswered, err := s.Gates.TakeSend(ctx, send.plan, send.limiterID(), lower)
		mayCount = mayCount || unanswered
		if errors.Is(err, quota.ErrRefunded) { // an earlier send with this ID was refunded; the next request gets a new ID
			err = fault.Unavailable
		}
		if err != nil {
			return counted, err
		}
		full := taken
		full.Rules = taken.Rules[len(lower):]
		switch {
		case taken.Admitted:
			return countedSend{send, full, askedAt}, nil
		case full.Allowed() && !taken.Allowed(): // only a pass is lacking
			return counted, s.refuseWithoutPass(ctx, send, taken)
		}
		if refusal, err = s.statesOfRefusal(ctx, send.parsedRequest, full, askedAt); err != nil {
			return counted, err
		}
		if !refusal.Allowed() {
			break
		}
		refusal.Rules = full.Rules // after the second refusal, even a wait that has ended is shown
	}
	return counted, s.refuse(ctx, send.parsedRequest, refusal, "refused")
}

// refuseWithoutPass answers a request that lacks a pass. If a pass would admit the request, the
// answer asks for a human check. Otherwise the answer is a refusal. Without a full pass, some rules
// have lower limits (see the field lower). The parameter taken is the limiter's refusal by these
// lower limits. It is the zero value if the request needs a pass even while the rules would admit
// it. refuseWithoutPass reads the recipient's rows. If the full limits refuse a send, takeQuota
// does not call refuseWithoutPass. So a flood of browsers' new requests beyond the full limits of
// the wider scopes reads no rows. Errors: *earlyAnswer, fault.Unavailable.
func (s *sendService) refuseWithoutPass(ctx context.Context, send claimedSend, taken quota.Decision) error {
	current, err := s.peek(ctx, send.plan)
	if err != nil {
		return err
	}
	if !current.Allowed() {
		return s.refuse(ctx, send.parsedRequest, current, "refused")
	}
	return s.askForCheck(ctx, send, current.Decision, taken)
}
