package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/proof"
	"sendcode/quota"
)

// CheckResult is the result of a check. A wrong, used or expired code is a result, not an error.
type CheckResult struct {
	View
	Valid      bool
	Proof      string // when valid: a signed token that a back end can check offline
	KnownToken string // when valid, for a browser: the token for Request.KnownTokens, to be kept for KnownTokenLife
}

// checkInProgress is one check, from the request to the comparison.
type checkInProgress struct {
	Caller
	id    string
	typed string // the code as it was typed, or pasted with the message around it
	code  string // the code in typed, as it is compared; empty: not parsed yet
	// the event that was counted for the client's networks before the comparison; it is refunded
	// unless the check counts as wrong; without Buckets: nothing was counted
	failed quota.Request
}

// Check compares a typed code with a verification's code and approves the verification if they are
// equal. The database counts the check and approves in one transaction, which is committed before
// any caller learns the result. Of several right checks exactly one approves. A check with the
// Idempotency-Key and the code of the last counted check gets that check's answer and counts nothing.
// If that check approved, the answer has the same proof, while the proof is valid. Errors:
// *fault.InvalidError for a text without the code's characters or length, and ErrKeyOfOtherCode,
// which cost no attempt; fault.NotFound, ErrCallerCode, *TooManyChecksError, *admission.OverloadedError,
// fault.Unavailable, and fault.Uncertain if the attempt may count.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (result CheckResult, err error) {
	leave, err := s.enterAdmission(s.checks, checksAdmissionName, c.classWithoutTokens())
	if err != nil {
		return CheckResult{}, err
	}
	defer func() { leave(!errors.Is(err, fault.Unavailable)) }()
	k := &checkInProgress{Caller: c, id: id, typed: typed}
	if err := s.takeNetworkQuota(ctx, k); err != nil {
		return CheckResult{}, err
	}
	// From here the check goes on, even if the client hangs up.
	ctx = context.WithoutCancel(ctx)
	checked, err := s.Store.Check(ctx, store.CheckRequest{ID: id, Network: c.network(), Judge: s.judgeFunc(k),
		Parse: func(v store.Verification) ([]byte, error) { return s.checkKey(k, v) }})
	if wrong := err == nil && checked.Counted && !checked.Approved; !wrong && len(k.failed.Buckets) > 0 {
		s.Outbox.RefundLater(k.failed.ID, k.failed.Buckets)
	}
	s.eventMaker().WakeForEvent(checked.Event)
	switch {
	// An unknown ID makes as many calls of the limiter as a known one, so that the time of the answer
	// tells less. It is still shorter.
	case errors.Is(err, fault.NotFound):
		_, _ = s.Gates.PeekOrLocal(ctx, s.wrongCodeRequest(c.App, recipient.Email))
		return CheckResult{}, err
	case err != nil:
		return CheckResult{}, err
	case checked.KeyReused:
		return CheckResult{}, ErrKeyOfOtherCode
	case checked.Repeated && s.repeatsApproval(k, checked):
		return s.approvedResult(c, checked), nil
	case checked.Repeated:
		return s.observedResult(checked, "repeated", recipient.Hash{}), nil
	case checked.Lockout.Wait > 0:
		return CheckResult{}, s.refuseCheckByLockout(c, checked)
	case !checked.Counted:
		return s.observedResult(checked, "ended", recipient.Hash{}), nil
	case !checked.Approved:
		s.countWrongCode(ctx, c.App, checked.Verification.Channel)
		return s.observedResult(checked, "wrong", recipient.Hash{}), nil
	}
	return s.approvedResult(c, checked), nil
}

// checkKey parses the typed code and returns the check's store.Verification.CheckKey. Errors: those
// of parseTypedCode. The first half hashes the Idempotency-Key without the kind of caller, so that a key
// that another kind of caller used is noticed (KeyReused), and costs no attempt.
func (s *Service) checkKey(k *checkInProgress, v store.Verification) ([]byte, error) {
	if err := s.parseTypedCode(k, v); err != nil || k.IdempotencyKey == "" {
		return nil, err
	}
	key, caller := s.Vault.KeyedHash(checkKeyLabel, k.App, k.IdempotencyKey), s.idempotencyKeyHash(checkKeyLabel, k.Caller)
	withCode := s.Vault.KeyedHash("check", string(caller[:]), v.ID, k.code)
	return append(key[:], withCode[:]...), nil
}

// repeatsApproval reports whether a repeated check is the one that approved, and its proof is still
// valid. The code is compared once more: a replica of an earlier version writes no key when it approves.
func (s *Service) repeatsApproval(k *checkInProgress, checked store.CheckAnswer) bool {
	v := checked.Verification
	expected, err := s.rightCode(v)
	return err == nil && code.Equal(k.code, expected) && !v.ApprovedAt.IsZero() &&
		checked.Now.Before(v.ApprovedAt.Truncate(time.Second).Add(proof.Life)) // exp is in whole seconds
}

// judgeFunc returns the function that tells the database whether the typed code is right, and which
// event to write. Error of the function: fault.Unavailable if it cannot derive the code or make the
// event.
func (s *Service) judgeFunc(k *checkInProgress) func(store.Verification) (bool, store.NewEvent, error) {
	return func(v store.Verification) (right bool, tell store.NewEvent, err error) {
		expected, err := s.rightCode(v)
		if err != nil { // the key is no longer in the ring
			return false, tell, fault.Unavailable.Wrap(err)
		}
		right = code.Equal(k.code, expected)
		if right || v.Attempts+1 >= v.MaxAttempts {
			tell, err = s.eventMaker().NewEvent(v, store.CheckEventTypes[right])
		}
		return right && err == nil, tell, store.WrapUnavailable(err)
	}
}

// parseTypedCode checks that the caller may read the verification, and sets k.code if it is empty.
// Errors: fault.NotFound for another app's verification, and for a browser if a back end opened the
// verification; ErrCallerCode; *fault.InvalidError.
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

// approvedResult returns the result of a check that approved or repeats it. It decrypts
// the address only once.
func (s *Service) approvedResult(c Caller, checked store.CheckAnswer) CheckResult {
	v, outcome := checked.Verification, "approved"
	if checked.Repeated {
		outcome = "repeated"
	}
	// The hash is of the address as spelled, not of the mailbox: a code that was read at one
	// spelling does not prove another one.
	spelling, err := s.Vault.AddressHashOf(v)
	result := s.observedResult(checked, outcome, spelling)
	result.Valid = true
	if err == nil && c.Kind == Browser {
		result.KnownToken, err = s.Vault.SealKnownToken(v, spelling)
	}
	if err == nil && s.Prover != nil {
		result.Proof, err = s.Prover.Sign(proof.Claims{ID: v.ID, App: v.App, RecipientHash: spelling.String(),
			Channel: string(v.Channel),
			Purpose: v.Purpose, Test: result.Test}, v.ApprovedAt)
	}
	if err != nil { // the approval is valid without a proof or token
		s.Logger.Error("could not sign proof", "error", err, logs.SeeDefect)
	}
	return result
}

// observedResult returns the result of a check and counts the check for the metrics. address is the
// argument of view.
func (s *Service) observedResult(checked store.CheckAnswer, outcome string, address recipient.Hash) CheckResult {
	s.Observer.Checked(checked.Verification.Channel, checked.Verification.App, outcome)
	return CheckResult{View: s.view(checked.Verification, store.Send{}, checked.Now, address)}
}

// CheckByRecipient is Check for a back end that did not keep the ID. It checks the newest pending
// verification that was requested with a secret key for the recipient, purpose and session of ask.
// It never checks a verification of a browser or of another session. It prefers one whose last counted
// check has the Idempotency-Key of ask, even if that one is not pending any more. Errors: those of Check, and
// *fault.InvalidError for ask; fault.NotFound also if there is no such verification, or if the
// caller has no secret key.
func (s *Service) CheckByRecipient(ctx context.Context, ask Request, typed string) (CheckResult, error) {
	if ask.Kind != BackEnd {
		return CheckResult{}, fault.NotFound
	}
	a, err := s.parseRequest(ctx, ask)
	if err != nil {
		return CheckResult{}, err
	}
	query := store.HolderQuery{
		App: a.App, Channel: a.to.Channel(), Recipient: a.subject.Recipient, Purpose: a.subject.Purpose.Name,
		Holder: a.holder,
	}
	if a.IdempotencyKey != "" {
		key := s.Vault.KeyedHash(checkKeyLabel, a.App, a.IdempotencyKey)
		query.CheckKey = key[:]
	}
	v, err := s.Store.VerificationToCheck(ctx, query)
	if err != nil {
		return CheckResult{}, err
	}
	return s.Check(ctx, a.Caller, v.ID, typed)
}

func (s *Service) testCodeOf(v store.Verification) (policy.TestCode, bool) {
	tests := s.Policy.Get().TestRecipients
	if len(tests) == 0 { // nearly always: then nothing is allocated
		return policy.TestCode{}, false
	}
	return tests.Of(s.Vault, v, s.Now())
}

// codeShape returns the shape of the right code for v: the configured code for a test recipient,
// else the derived one. It is zero for a caller's code.
func (s *Service) codeShape(v store.Verification) code.Shape {
	if v.CallerChecks {
		return code.Shape{}
	}
	if t, ok := s.testCodeOf(v); ok {
		return code.ShapeOf(t.Code)
	}
	return keys.CodeShapeOf(v)
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
	if err := s.cancel(ctx, v.Verification); err != nil {
		return Answer{}, err
	}
	return s.Get(ctx, c, id)
}

func (s *Service) cancel(ctx context.Context, v store.Verification) error {
	tell, err := s.eventMaker().NewEvent(v, store.VerificationCanceled)
	if err == nil {
		_, err = s.Store.Cancel(ctx, v.ID, tell)
	}
	s.eventMaker().WakeForEvent(tell)
	return err
}
