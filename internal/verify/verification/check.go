package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/verify/proof"
)

// CheckResult is the result of a check. A wrong, used or expired code is a result, not an error.
type CheckResult struct {
	View
	Valid      bool
	Proof      string // when valid: a signed token that a back end can check offline
	KnownToken string // if valid, for a browser: a token for Request.KnownTokens; the browser keeps it for KnownTokenLife
}

// Check compares a typed code with a verification's code, and approves the verification if the
// codes are equal. The database counts the check and approves the verification in one transaction.
// The transaction is committed before any caller learns the result. If several right checks arrive
// at the same time, exactly one check approves the verification.
//
// A check repeats the last counted check if the Idempotency-Key and the code are the same. A
// repeated check counts nothing and gets the answer of the last counted check. If that check
// approved the verification, the answer has the same proof. After the proof has expired, the answer
// has only the state of the verification.
//
// Errors that cost no attempt: *fault.InvalidError if the text does not have the code's characters
// or length; ErrKeyOfOtherCode. Other errors: fault.NotFound, ErrCallerCode,
// *FailedCheckLimitError, *admission.OverloadedError, fault.Unavailable, and fault.Uncertain if the
// attempt may be counted.
func (s *checkService) Check(ctx context.Context, c Caller, id, typed string) (CheckResult, error) {
	return s.check(ctx, c, id, storedVerification{}, s.judgeOf(c, typed))
}

// CheckByRecipient is Check for a back end that did not keep the ID. The request ask gives the
// recipient, the purpose and the session. CheckByRecipient checks the newest pending verification
// that a secret key requested for all three. It never checks a verification of a browser, of
// another session, or of a stranger without a session. It prefers a verification whose last counted
// check has the Idempotency-Key of ask, even if that verification has ended. Errors: the errors of
// Check; *fault.InvalidError for ask. fault.NotFound also means that there is no such verification,
// or that the caller has no secret key.
func (s *checkService) CheckByRecipient(ctx context.Context, ask Request, typed string) (CheckResult, error) {
	if ask.Kind != BackEnd {
		return CheckResult{}, fault.NotFound
	}
	ask.Known = true // the verification of this session, and without one that of a person who is known
	r, err := s.parseRequest(ctx, ask)
	if err != nil {
		return CheckResult{}, err
	}
	v, err := s.Checks.VerificationToCheck(ctx, store.RecipientVerificationsQuery{
		App: r.App, Channel: r.to.Channel(), Recipient: r.plan.Recipient, Purpose: r.plan.Purpose.Name,
		Holder: r.holder, CheckKey: s.checkKey(r.Caller),
	})
	if err != nil {
		return CheckResult{}, err
	}
	judge := s.judgeOf(r.Caller, typed)
	if _, err := judge(v, false); err != nil {
		return CheckResult{}, err
	}
	return s.check(ctx, r.Caller, v.ID, storedVerification{Verification: v}, judge)
}

// check takes one of the places for requests under way (s.places), counts the check for the
// client's networks, and lets the database compare the codes with judge. v is the verification if
// the caller has already read it. v.readAt is zero if the caller does not know when, by the
// database's clock, the verification was read. Errors: the errors of Check.
func (s *checkService) check(ctx context.Context, c Caller, id string, v storedVerification, judge judge) (_ CheckResult, err error) {
	class := store.UnknownBrowser
	if c.Kind == BackEnd {
		class = store.SecretKeyClass // a check does not say for whom it is
	}
	leave, err := s.places.enter(class)
	if err != nil {
		return CheckResult{}, err
	}
	defer func() { leave(!errors.Is(err, fault.Unavailable)) }()
	v, failure, err := s.takeNetworkQuota(ctx, c, id, v, judge)
	if err != nil {
		return CheckResult{}, err
	}
	// An ended verification stays ended, so the database need not check the code. If the check has
	// an Idempotency-Key, the database checks the code nevertheless, because the database may have
	// an answer to repeat.
	if !v.readAt.IsZero() && c.IdempotencyKey == "" && v.state() != Pending {
		return s.observedResult(store.CheckAnswer{Verification: v.Verification, Now: v.readAt}, "ended", recipient.Hash{}), nil
	}
	// From here the check goes on, even if the client hangs up.
	checked, err := s.Checks.Check(context.WithoutCancel(ctx), store.CheckRequest{
		ID: id, Network: c.network(), Key: s.checkKey(c), Judge: judge,
	})
	if wrong := err == nil && checked.Counted && !checked.Approved; !wrong && failure.ID != "" {
		s.Gates.RefundLater(failure.ID, buckets.OfCountedScopes(failure.Buckets)...)
	}
	s.WakeForEvent(checked.Event)
	if err != nil {
		return CheckResult{}, err
	}
	return s.checkResult(c, checked)
}

// checkResult returns the result of a check that the database has decided. Errors:
// ErrKeyOfOtherCode, *FailedCheckLimitError.
func (s *checkService) checkResult(c Caller, checked store.CheckAnswer) (CheckResult, error) {
	proofEnds := checked.Verification.ApprovedAt.Truncate(time.Second).Add(proof.Life) // its exp is in whole seconds
	switch {
	case checked.KeyReused:
		return CheckResult{}, ErrKeyOfOtherCode
	case checked.Repeated && checked.Now.Before(proofEnds): // so it approved
		return s.approvedResult(c, checked), nil
	case checked.Repeated:
		return s.observedResult(checked, "repeated", recipient.Hash{}), nil
	case checked.Lockout.Wait > 0:
		return CheckResult{}, s.refuseCheckByLockout(c, checked)
	case !checked.Counted:
		return s.observedResult(checked, "ended", recipient.Hash{}), nil
	case !checked.Approved:
		s.countWrongCode(c.App, checked.Verification.Channel)
		return s.observedResult(checked, "wrong", recipient.Hash{}), nil
	}
	return s.approvedResult(c, checked), nil
}

// approvedResult returns the result of a check that approved, or that repeats an approval. It
// decrypts the address only once.
func (s *checkService) approvedResult(c Caller, checked store.CheckAnswer) CheckResult {
	v, outcome := checked.Verification, "approved"
	if checked.Repeated {
		outcome = "repeated"
	}
	// The hash identifies the address as spelled, not the mailbox: several spellings may lead to
	// one mailbox. A person who received a code at one spelling of the address has not proved that
	// another spelling is theirs, too.
	spelling, err := s.Vault.AddressHashOfVerification(v)
	result := s.observedResult(checked, outcome, spelling)
	result.Valid = true
	if err == nil && c.Kind == Browser {
		result.KnownToken, err = s.Vault.SealKnownToken(v, spelling)
	}
	if err == nil && s.ProofSigner != nil {
		result.Proof, err = s.ProofSigner.Sign(proof.Claims{
			ID: v.ID, App: v.App, RecipientHash: spelling.String(),
			Channel: string(v.Channel),
			Purpose: v.Purpose, Details: v.Details, Test: result.Test,
		}, v.ApprovedAt)
	}
	if err != nil { // the approval is valid without a proof or token
		s.Logger.Error("could not sign proof", "error", err, logs.SeeDefect)
	}
	return result
}

// observedResult returns the result of a check, and counts the check in the metrics. The parameter
// address is the hash of the recipient's address as spelled. If it is zero, view computes the hash.
func (s *checkService) observedResult(checked store.CheckAnswer, outcome string, address recipient.Hash) CheckResult {
	s.Observer.Checked(checked.Verification.Channel, checked.Verification.App, outcome)
	return CheckResult{View: s.view(checked.Verification, store.Send{}, checked.Now, address)}
}
