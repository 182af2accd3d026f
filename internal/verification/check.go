package verification

import (
	"context"
	"errors"

	"sendcode/internal/code"
	"sendcode/internal/fault"
	"sendcode/internal/keys"
	"sendcode/internal/proof"
	"sendcode/internal/recipient"
	"sendcode/internal/runbook"
	"sendcode/internal/store"
	"sendcode/internal/testrecipient"
	"sendcode/quota"
)

// CheckResult is the result of a check. A wrong, used or expired code is a result, not an error.
type CheckResult struct {
	View
	Valid bool
	Proof string // when valid: a signed token that a back end can check offline
	Known string // when valid, for a browser: the token for Request.Known, to be kept for KnownTokenLife
}

// checkInProgress is one check, from the request to the comparison.
type checkInProgress struct {
	Caller
	id    string
	typed string // the code as it was typed, or pasted with the message around it
	code  string // as it is compared; empty: not read yet
	// what was counted for the client's networks, which is refunded unless the code is wrong;
	// without Buckets: nothing was counted
	failed quota.Request
}

// Check compares a typed code with a verification's code and approves it if they are equal. The
// database counts the check and approves in one transaction, which is committed before any caller
// learns the result. Of several right checks exactly one approves. Errors: *fault.InvalidError for
// a text that has not the code's characters or length, which costs no attempt; fault.NotFound,
// ErrCallerCode, *TooManyChecksError, *admission.OverloadedError, fault.Unavailable, and
// fault.Uncertain if the attempt may count.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (result CheckResult, err error) {
	leave, err := s.enterAdmission(s.checks, checksAdmission, c.class())
	if err != nil {
		return CheckResult{}, err
	}
	defer func() { leave(!errors.Is(err, fault.Unavailable)) }()
	k := &checkInProgress{Caller: c, id: id, typed: typed}
	if err := s.takeNetworkQuota(ctx, k); err != nil {
		return CheckResult{}, err
	}
	// From here the check goes on, even if the client hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	checked, err := s.Store.Check(ctx, store.CheckRequest{ID: id, Network: c.network(), Judge: s.judge(k)})
	if wrong := err == nil && checked.Counted && !checked.Approved; !wrong && len(k.failed.Buckets) > 0 {
		s.Outbox.RefundLater(k.failed.ID, k.failed.Buckets)
	}
	switch s.teller().WakeForEvent(checked.Event); {
	// asks the limiter as often as for a verification that exists; the answer still takes less time
	case errors.Is(err, fault.NotFound):
		_, _, _ = s.Gates.PeekOrLocal(ctx, s.wrongCodeRequest(c.App, recipient.Email))
		return CheckResult{}, err
	case err != nil:
		return CheckResult{}, err
	case checked.Lockout.Wait > 0:
		return CheckResult{}, s.lockoutError(c, checked)
	case !checked.Counted:
		return s.checkResult(checked, "ended", recipient.Hash{}), nil
	case !checked.Approved:
		s.countWrongCode(ctx, c.App, checked.Verification.Channel)
		return s.checkResult(checked, "wrong", recipient.Hash{}), nil
	}
	return s.approvedResult(c, checked), nil
}

// judge returns the function by which the database learns whether a typed code is right. It fails
// as Check does, and with fault.Unavailable if the code cannot be derived.
func (s *Service) judge(k *checkInProgress) func(store.Verification, bool) (bool, store.NewEvent, error) {
	return func(v store.Verification, counts bool) (right bool, tell store.NewEvent, err error) {
		if err := s.parseTypedCode(k, v); err != nil || !counts {
			return false, tell, err
		}
		expected, err := s.rightCode(v)
		if err != nil { // the key is no longer in the ring
			return false, tell, fault.Unavailable.Wrap(err)
		}
		if right = code.Equal(k.code, expected); right || v.Attempts+1 >= v.MaxAttempts {
			tell, err = s.teller().NewEvent(v, store.CheckEventTypes[right])
		}
		return right && err == nil, tell, store.WrapUnavailable(err)
	}
}

// parseTypedCode checks that the caller may read the verification and parses the typed code, unless
// it has done so. Errors: fault.NotFound for another app's verification, and for a browser if a
// back end opened it; ErrCallerCode; *fault.InvalidError.
func (s *Service) parseTypedCode(k *checkInProgress, v store.Verification) (err error) {
	if !k.mayRead(v) {
		return fault.NotFound
	}
	if v.CallerChecks {
		return ErrCallerCode
	}
	if k.code == "" {
		k.code, err = s.codeShape(v).Find(k.typed)
	}
	return err
}

// approvedResult returns the result of a check that approved, or of Prove. The address is decrypted
// once.
func (s *Service) approvedResult(c Caller, checked store.CheckAnswer) CheckResult {
	v, outcome := checked.Verification, "approved"
	if v.Method == store.MethodEVP {
		outcome = "proven"
	}
	// not of the mailbox: reading mail for one spelling does not prove another one
	spelling, err := s.Vault.AddressHashOf(v)
	result := s.checkResult(checked, outcome, spelling)
	result.Valid = true
	if err == nil && c.Kind == Browser {
		result.Known, err = s.Vault.SealKnownToken(v, spelling)
	}
	if err == nil && s.Prover != nil {
		result.Proof, err = s.Prover.Sign(proof.Claims{ID: v.ID, App: v.App, Recipient: spelling.String(),
			Channel: string(v.Channel),
			Purpose: v.Purpose, Test: result.Test}, checked.Now)
	}
	if err != nil { // the approval is valid without
		s.Logger.Error("could not sign proof", "error", err, runbook.Defect.See())
	}
	return result
}

// checkResult returns the result of a check and counts it for the metrics. address is as for view.
func (s *Service) checkResult(checked store.CheckAnswer, outcome string, address recipient.Hash) CheckResult {
	s.Observer.Checked(checked.Verification.Channel, checked.Verification.App, outcome)
	return CheckResult{View: s.view(checked.Verification, store.Send{}, checked.Now, address)}
}

// CheckByRecipient is Check for a back end that did not keep the ID. It checks the newest pending
// verification that was requested with a secret key for the recipient, purpose and session of ask;
// never one of a browser or of another session. Errors: those of Check, and *fault.InvalidError for
// ask; fault.NotFound also if no such verification is pending, or if the caller has no secret key.
func (s *Service) CheckByRecipient(ctx context.Context, ask Request, typed string) (CheckResult, error) {
	if ask.Kind != BackEnd {
		return CheckResult{}, fault.NotFound
	}
	a, err := s.parseRequest(ctx, ask)
	if err != nil {
		return CheckResult{}, err
	}
	v, err := s.Store.NewestPending(ctx, store.HolderQuery{
		App: a.App, Channel: a.to.Channel(), Recipient: a.subject.Recipient, Purpose: a.subject.Purpose.Name,
		Holder: a.holder,
	})
	if err != nil {
		return CheckResult{}, err
	}
	return s.Check(ctx, a.Caller, v.ID, typed)
}

func (s *Service) testCodeOf(v store.Verification) (testrecipient.Code, bool) {
	return s.Policy.Get().TestRecipients.Of(s.Vault, v, s.Now())
}

// codeShape returns the shape of the right code for v: of the configured code for a test recipient,
// else of the derived one. Zero for a caller's code.
func (s *Service) codeShape(v store.Verification) code.Shape {
	if v.CallerChecks {
		return code.Shape{}
	}
	if t, ok := s.testCodeOf(v); ok {
		return code.ShapeOf(t.Code)
	}
	return keys.ShapeOf(v)
}

// rightCode returns the right code for v: the configured one for a test recipient, else the derived
// one.
func (s *Service) rightCode(v store.Verification) (string, error) {
	if t, ok := s.testCodeOf(v); ok {
		return t.Code, nil
	}
	return s.Vault.DeriveCode(v)
}

// Cancel ends a pending verification: its code is never accepted or sent again. A verification that
// has ended is not changed, so repeating is harmless. Errors: fault.NotFound, fault.Unavailable.
func (s *Service) Cancel(ctx context.Context, c Caller, id string) (Answer, error) {
	v, err := s.lookup(ctx, c, id)
	if err != nil {
		return Answer{}, err
	}
	tell, err := s.teller().NewEvent(v.Verification, store.VerificationCanceled)
	if err == nil {
		_, err = s.Store.Cancel(ctx, id, tell)
	}
	if s.teller().WakeForEvent(tell); err != nil {
		return Answer{}, err
	}
	return s.Get(ctx, c, id)
}
