package verification

import (
	"context"
)

// refuseBeforeGates refuses a send for a reason that is known before the gates count it. Errors:
// *HoldUntilError, *admission.OverloadedError if the message would go out too late,
// *FailedCheckLimitError, fault.Unavailable.
func (s *sendService) refuseBeforeGates(ctx context.Context, send claimedSend) (*Answer, error) {
	if left := s.HoldUntil.Sub(s.Now()); left > 0 {
		return nil, &HoldUntilError{s.HoldUntil, left}
	}
	if err := s.refuseIfLate(send); err != nil {
		return nil, err
	}
	if answer, err := s.refuseIfLockedOutOrHeld(ctx, send.parsedRequest); answer != nil || err != nil {
		return answer, err
	}
	return s.refuseIfRefusedBefore(ctx, send)
}

// refuseIfLockedOutOrHeld refuses a send during a cached lockout, which begins after too many wrong
// codes, or while the carrier refuses messages to the recipient (a hold). A hold is shown as one of
// the rules. If a rule also refuses the send, the answer shows that rule and not the lockout, so
// that a caller over its own limits learns nothing about the recipient. Errors:
// *FailedCheckLimitError, fault.Unavailable.
func (s *sendService) refuseIfLockedOutOrHeld(ctx context.Context, r *parsedRequest) (*Answer, error) {
	lockout, err := s.knownLockout(ctx, r)
	if err != nil {
		return nil, err
	}
	// If carrierHold fails, peek reads the hold again and returns the error of that read.
	if _, held, err := s.carrierHold(ctx, r.plan); lockout == 0 && !held && err == nil {
		return nil, nil
	}
	current, err := s.peek(ctx, r.plan)
	switch {
	case err != nil:
		return nil, err
	case !current.Allowed():
		return s.refuse(ctx, r, current, "refused"), nil
	case lockout > 0:
		return nil, s.refuseSendByLockout(r, lockout)
	}
	return nil, nil
}

// refuseIfRefusedBefore acts only in a process without Redis. It refuses a send if the recipient's
// rows refused one before and still would; see gates.Gates.AnswerRefusedBefore. Error:
// fault.Unavailable.
func (s *sendService) refuseIfRefusedBefore(ctx context.Context, send claimedSend) (*Answer, error) {
	if send.mayBeWritten { // the rows may have this send
		return nil, nil
	}
	refusal, refused, err := s.Gates.AnswerRefusedBefore(ctx, send.plan)
	if err != nil || !refused {
		return nil, err
	}
	return s.refuse(ctx, send.parsedRequest, refusal, "refused"), nil
}
