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
// If the process dies before write has returned, the limiter may count a send that has no row,
// until the windows of the rules end. If the client repeats the request with its Idempotency-Key,
// the send has the same ID, so it is counted once.
func (s *sendService) takeQuota(ctx context.Context, send claimedSend) (countedSend, *Answer, error) {
	if send.checkRequired && send.pass.checker == "" {
		answer, err := s.refuseWithoutPass(ctx, send, quota.Decision{})
		return countedSend{}, answer, err
	}
	taken, err := s.Gates.TakeSend(ctx, gates.Send{
		Plan: send.plan, ID: send.limiterID(), LowerLimits: send.lowerLimits[send.pass.Pass],
		Browser: send.Kind != BackEnd, Named: send.resendOf.ID != "",
	})
	switch {
	case errors.Is(err, quota.ErrRefunded): // an earlier send with this ID was refunded; the next request gets a new ID
		return countedSend{}, nil, fault.Unavailable
	case err != nil:
		return countedSend{}, nil, err
	case taken.LowerLimits != nil:
		answer, err := s.refuseWithoutPass(ctx, send, *taken.LowerLimits)
		return countedSend{}, answer, err
	case !taken.Admitted:
		return countedSend{}, s.refuse(ctx, send.parsedRequest, taken.Refusal, "refused"), nil
	}
	return countedSend{send, taken.Decision, taken.AskedAt}, nil, nil
}

// refuseWithoutPass answers a request that has no pass, or only one of an easier human check. For
// such a request some rules have lower limits; see parsedRequest.lowerLimits. If a full pass would
// admit the request, the answer asks for a human check. Otherwise it is a refusal. To find this
// out, refuseWithoutPass reads the recipient's rows.
//
// taken is the limiter's refusal by the lower limits, or zero if the request needs a pass although
// the rules would admit it. If taken isn't zero, the limiter's full limits admit the send: a flood
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
