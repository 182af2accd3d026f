package verification

import (
	"context"
	"errors"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// takeQuota lets the limiter, the first gate, count the send. Error: fault.Unavailable.
//
// If the process dies before the method write has returned, the limiter may count a send that has
// no row. It does so until the windows of the rules end. But if the client repeats the request with
// its Idempotency-Key, the send ID is the same, so the limiter counts the send only once.
func (s *sendService) takeQuota(ctx context.Context, send claimedSend) (countedSend, *Answer, error) {
	if send.checkRequired && send.pass.checker == "" {
		answer, err := s.refuseWithoutPass(ctx, send, quota.Decision{})
		return countedSend{}, answer, err
	}
	taken, err := s.Gates.TakeSend(ctx, gates.Send{
		Plan: send.plan, ID: send.limiterID(), Lower: send.lower[send.pass.Pass],
		Browser: send.Kind != BackEnd, Named: send.resendOf.ID != "",
	})
	switch {
	case errors.Is(err, quota.ErrRefunded): // an earlier send with this ID was refunded; the next request gets a new ID
		return countedSend{}, nil, fault.Unavailable
	case err != nil:
		return countedSend{}, nil, err
	case taken.OnlyLower:
		answer, err := s.refuseWithoutPass(ctx, send, taken.Lower)
		return countedSend{}, answer, err
	case !taken.Admitted:
		return countedSend{}, s.refuse(ctx, send.parsedRequest, taken.Refusal, "refused"), nil
	}
	return countedSend{send, taken.Decision, taken.AskedAt}, nil, nil
}

// refuseWithoutPass answers a request that has not passed a human check (a pass), or only an easier
// one. Without a full pass, some rules have lower limits; see the field lower. If a pass would
// admit the request, the answer asks for a human check. If the full limits refuse the request too,
// the answer is a refusal. To find this out, refuseWithoutPass reads the recipient's rows.
//
// The parameter taken is the limiter's refusal by the lower limits. It is the zero value if the
// request always needs a pass, even while the rules would admit it. Except in this case, takeQuota
// calls refuseWithoutPass only if the limiter's full limits admit the send. So a flood of requests
// beyond the full limits of the wider scopes reads no rows here. Error: fault.Unavailable.
func (s *sendService) refuseWithoutPass(ctx context.Context, send claimedSend, taken quota.Decision) (*Answer, error) {
	current, err := s.peek(ctx, send.plan)
	if err != nil {
		return nil, err
	}
	if !current.Allowed() {
		return s.refuse(ctx, send.parsedRequest, current, "refused"), nil
	}
	return s.askForCheck(ctx, send, current.Decision, taken)
}
