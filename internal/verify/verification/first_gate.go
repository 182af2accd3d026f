package verification

import (
	"context"
	"errors"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// takeQuota asks the limiter, the first gate, to count the send. If the limiter refuses, takeQuota
// calls statesOfRefusal, which may read the recipient's rows. If the refusal's RetryAfter has
// passed by the end of this read, takeQuota asks the limiter once more. Errors: *earlyAnswer,
// fault.Unavailable.
//
// If the process dies before the method write has returned, the limiter may count a send that has
// no row. It does so until the windows of the rules end. But if the client repeats the request with
// its Idempotency-Key, the send ID is the same, so the limiter counts the send only once.
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

// refuseWithoutPass answers a request that has not passed a human check (a pass), or only an easier
// one. Without a full pass, some rules have lower limits; see the field lower. If a pass would
// admit the request, the answer asks for a human check. If the full limits refuse the request too,
// the answer is a refusal. To find this out, refuseWithoutPass reads the recipient's rows.
//
// The parameter taken is the limiter's refusal by the lower limits. It is the zero value if the
// request always needs a pass, even while the rules would admit it. Except in this case, takeQuota
// calls refuseWithoutPass only if the limiter's full limits admit the send. So a flood of requests
// beyond the full limits of the wider scopes reads no rows here. Errors: *earlyAnswer,
// fault.Unavailable.
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
