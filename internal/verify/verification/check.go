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
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/verify/proof"
)

// CheckResult is the result of a check. A wrong, used or expired code is a result, not an error.
type CheckResult struct {
	View
	Valid      bool
	Proof      string // when valid: a signed token that a back end can check offline
	KnownToken string // when valid, for a browser: the token for Request.KnownTokens, to be kept for KnownTokenLife
}

// codeCheck is one check before the comparison.
type codeCheck struct {
	Caller
	id    string
	typed string // the code as it was typed, or pasted with the message around it

	row    store.Verification // as it was read before the check; zero: it was not read
	readAt time.Time          // on the database's clock; zero: row is not as new as that
	code   string             // the code in typed, as it is compared; empty: row was not read
}

// hasEnded reports whether the check's answer is known: what has ended stays so. With an
// Idempotency-Key the database is asked all the same, since it may repeat an answer.
func (c codeCheck) hasEnded() bool {
	return c.code != "" && !c.readAt.IsZero() && c.IdempotencyKey == "" && StateOf(c.row, c.readAt) != Pending
}

// Check compares a typed code with a verification's code and approves the verification if they are
// equal. The database counts the check and approves in one transaction, which is committed before
// any caller learns the result. Of several right checks exactly one approves. A check with the
// Idempotency-Key and the code of the last counted check gets that check's answer and counts
// nothing. If that check approved, the answer has the same proof, while the proof is valid. Errors:
// *fault.InvalidError for a text without the code's characters or length, and ErrKeyOfOtherCode,
// which cost no attempt; fault.NotFound, ErrCallerCode, *FailedCheckLimitError,
// *admission.OverloadedError, fault.Unavailable, and fault.Uncertain if the attempt may count.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (CheckResult, error) {
	return s.check(ctx, codeCheck{Caller: c, id: id, typed: typed})
}

// check takes what a check needs, in this order, and has the database compare the codes. Errors:
// those of Check.
func (s *Service) check(ctx context.Context, c codeCheck) (result CheckResult, err error) {
	leave, err := s.enterAdmission(s.checks, checksAdmissionName, c.classWithoutTokens())
	if err != nil {
		return CheckResult{}, err
	}
	defer func() { leave(!errors.Is(err, fault.Unavailable)) }()
	c, failure, err := s.takeNetworkQuota(ctx, c)
	if err != nil {
		return CheckResult{}, err
	}
	if c.hasEnded() {
		return s.observedResult(store.CheckAnswer{Verification: c.row, Now: c.readAt}, "ended", recipient.Hash{}), nil
	}
	// From here the check goes on, even if the client hangs up.
	checked, err := s.Store.Check(context.WithoutCancel(ctx), store.CheckRequest{
		ID: c.id, Network: c.network(), Key: s.checkKey(c.Caller),
		Judge: func(v store.Verification, counts bool) (store.Judgement, error) { return s.judge(c, v, counts) },
	})
	if wrong := err == nil && checked.Counted && !checked.Approved; !wrong && failure.ID != "" {
		s.Gates.RefundLater(failure.ID, buckets.OfCountedScopes(failure.Buckets)...)
	}
	s.webhookEvents().WakeForEvent(checked.Event)
	if err != nil {
		return CheckResult{}, err
	}
	return s.checkResult(c, checked)
}

// checkResult returns the result of a check that the database has decided. Errors:
// ErrKeyOfOtherCode, *FailedCheckLimitError.
func (s *Service) checkResult(c codeCheck, checked store.CheckAnswer) (CheckResult, error) {
	switch {
	case checked.KeyReused:
		return CheckResult{}, ErrKeyOfOtherCode
	case checked.Repeated && s.repeatsApproval(c, checked):
		return s.approvedResult(c.Caller, checked), nil
	case checked.Repeated:
		return s.observedResult(checked, "repeated", recipient.Hash{}), nil
	case checked.Lockout.Wait > 0:
		return CheckResult{}, s.refuseCheckByLockout(c.Caller, checked)
	case !checked.Counted:
		return s.observedResult(checked, "ended", recipient.Hash{}), nil
	case !checked.Approved:
		s.countWrongCode(c.App, checked.Verification.Channel)
		return s.observedResult(checked, "wrong", recipient.Hash{}), nil
	}
	return s.approvedResult(c.Caller, checked), nil
}

// checkKey returns the hash of the caller's Idempotency-Key, store.CheckRequest.Key; nil: it has
// none. The kind of caller is not hashed, so that a key that another kind of caller used is noticed
// (KeyReused), and costs no attempt.
func (s *Service) checkKey(c Caller) []byte {
	if c.IdempotencyKey == "" {
		return nil
	}
	key := s.Vault.KeyedHash(checkKeyLabel, c.App, c.IdempotencyKey)
	return key[:]
}

// repeatsApproval reports whether a repeated check is the one that approved, and its proof is still
// valid. The code is compared once more: a replica of an earlier version writes no key when it
// approves.
func (s *Service) repeatsApproval(c codeCheck, checked store.CheckAnswer) bool {
	v := checked.Verification
	typed, errTyped := s.typedCode(c, v)
	expected, err := s.rightCode(v)
	return errTyped == nil && err == nil && code.Equal(typed, expected) && !v.ApprovedAt.IsZero() &&
		checked.Now.Before(v.ApprovedAt.Truncate(time.Second).Add(proof.Life)) // exp is in whole seconds
}

// judge is store.CheckRequest.Judge of a check. Errors: those of typedCode, and fault.Unavailable
// if it cannot derive the code or make the event.
func (s *Service) judge(c codeCheck, v store.Verification, counts bool) (j store.Judgement, err error) {
	typed, err := s.typedCode(c, v)
	if err != nil {
		return j, err
	}
	if key := s.checkKey(c.Caller); key != nil {
		caller := s.idempotencyKeyHash(checkKeyLabel, c.Caller)
		withCode := s.Vault.KeyedHash("check", string(caller[:]), v.ID, typed)
		j.CheckKey = append(key, withCode[:]...)
	}
	if !counts {
		return j, nil
	}
	expected, err := s.rightCode(v)
	if err != nil { // the key is no longer in the ring
		return j, fault.Unavailable.Wrap(err)
	}
	j.Right = code.Equal(typed, expected)
	if j.Right || v.Attempts+1 >= v.MaxAttempts {
		j.Event, err = s.webhookEvents().NewEvent(v, store.CheckEventTypes[j.Right])
	}
	return j, store.WrapUnavailable(err)
}

// typedCode returns the code in the typed text, in the form of v's code. Errors: fault.NotFound for
// another app's verification, and for a browser if a back end opened the verification;
// ErrCallerCode; *fault.InvalidError.
func (s *Service) typedCode(c codeCheck, v store.Verification) (string, error) {
	switch {
	case c.code != "":
		return c.code, nil
	case !c.mayRead(v):
		return "", fault.NotFound
	case v.CallerChecks:
		return "", ErrCallerCode
	}
	format, _ := s.codeFormat(v)
	return format.Find(c.typed)
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
	if err == nil && s.ProofSigner != nil {
		result.Proof, err = s.ProofSigner.Sign(proof.Claims{
			ID: v.ID, App: v.App, RecipientHash: spelling.String(),
			Channel: string(v.Channel),
			Purpose: v.Purpose, Test: result.Test,
		}, v.ApprovedAt)
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
// It never checks a verification of a browser or of another session. It prefers one whose last
// counted check has the Idempotency-Key of ask, even if that one is not pending any more. Errors:
// those of Check, and *fault.InvalidError for ask; fault.NotFound also if there is no such
// verification, or if the caller has no secret key.
func (s *Service) CheckByRecipient(ctx context.Context, ask Request, typed string) (CheckResult, error) {
	if ask.Kind != BackEnd {
		return CheckResult{}, fault.NotFound
	}
	r, err := s.parseRequest(ctx, ask)
	if err != nil {
		return CheckResult{}, err
	}
	v, err := s.Store.VerificationToCheck(ctx, store.RecipientVerificationsQuery{
		App: r.App, Channel: r.to.Channel(), Recipient: r.plan.Recipient, Purpose: r.plan.Purpose.Name,
		Holder: r.holder, CheckKey: s.checkKey(r.Caller),
	})
	if err != nil {
		return CheckResult{}, err
	}
	c := codeCheck{Caller: r.Caller, id: v.ID, typed: typed, row: v}
	if c.code, err = s.typedCode(c, v); err != nil {
		return CheckResult{}, err
	}
	return s.check(ctx, c)
}

func (s *Service) testCodeOf(v store.Verification) (policy.TestCode, bool) {
	tests := s.Policy.Get().TestRecipients
	if len(tests) == 0 { // nearly always: then nothing is allocated
		return policy.TestCode{}, false
	}
	return tests.Of(s.Vault, v, s.Now())
}

// codeFormat returns the format of the right code for v: the configured code for a test recipient,
// else the derived one. It is zero for a caller's code. test: v is of a test recipient.
func (s *Service) codeFormat(v store.Verification) (format code.Format, test bool) {
	t, test := s.testCodeOf(v)
	switch {
	case v.CallerChecks:
		return format, test
	case test:
		return code.FormatOf(t.Code), true
	}
	return keys.CodeFormatOf(v), false
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
	// a code without tries left can still be canceled, and the store confirms that one is
	if state := v.state(); state == Pending || state == MaxAttemptsReached || state == Canceled {
		err = s.cancel(ctx, v.Verification)
	}
	if err != nil {
		return Answer{}, err
	}
	return s.Get(ctx, c, id)
}

func (s *Service) cancel(ctx context.Context, v store.Verification) error {
	event, err := s.webhookEvents().NewEvent(v, store.VerificationCanceled)
	if err == nil {
		_, err = s.Store.Cancel(ctx, v.ID, event)
	}
	s.webhookEvents().WakeForEvent(event)
	return err
}
