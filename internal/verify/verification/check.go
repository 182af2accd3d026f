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

// Check compares a typed code with a verification's code, and approves the verification if they're
// equal. The database counts the check and approves the verification in one transaction, which is
// committed before any caller learns the result. If several right checks arrive at the same time,
// exactly one of them approves.
//
// A check with the Idempotency-Key and the code of the last counted check repeats it: it counts
// nothing and gets the same answer, with the same proof. After the proof has expired, the answer
// has only the state of the verification.
//
// Errors: *fault.InvalidError if the text has no code of the right characters and length,
// ErrKeyOfOtherCode, fault.NotFound, ErrCallerCode, *FailedCheckLimitError,
// *admission.OverloadedError, fault.Unavailable, and fault.Uncertain if the attempt may be counted.
// The other errors cost no attempt.
func (s *checkService) Check(ctx context.Context, c Caller, id, typed string) (CheckResult, error) {
	return s.check(ctx, c, id, storedVerification{}, s.judgeOf(c, typed))
}

// CheckByRecipient is Check for a back end that did not keep the ID. It checks the newest pending
// verification that a secret key requested for the recipient, purpose and session of ask. It never
// checks a verification of a browser, of another session, or of a stranger without a session. It
// prefers a verification whose last counted check has the Idempotency-Key of ask, even if that
// verification has ended. Errors: those of Check; *fault.InvalidError for ask. fault.NotFound also
// means that there is no such verification, or that the caller has no secret key.
func (s *checkService) CheckByRecipient(ctx context.Context, ask Request, typed string) (CheckResult, error) {
	if ask.Kind != BackEnd {
		return CheckResult{}, fault.NotFound
	}
	ask.Trust = ImpliedKnown // without a session, only the verification of a known person can be found
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

// check takes a place among the requests under way, counts the check for the client's networks, and
// lets the database compare the codes. v is empty, or the verification that the caller has read
// already. v.readAt is zero if the database's time of that read is unknown. Errors: those of Check.
func (s *checkService) check(ctx context.Context, c Caller, id string, v storedVerification, judge judge) (_ CheckResult, err error) {
	class := store.StrangerClass
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
	// An ended verification stays ended, so the database need not check the code. But with an
	// Idempotency-Key the database may have an answer to repeat.
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
	s.Events.WakeForEvent(checked.Event)
	if err != nil {
		return CheckResult{}, err
	}
	return s.checkResult(c, checked)
}

// Errors of checkResult: ErrKeyOfOtherCode, *FailedCheckLimitError.
func (s *checkService) checkResult(c Caller, checked store.CheckAnswer) (CheckResult, error) {
	proofEnds := checked.Verification.ApprovedAt.Truncate(time.Second).Add(proof.Life) // the claim exp is in whole seconds
	switch {
	case checked.KeyReused:
		return CheckResult{}, ErrKeyOfOtherCode
	case checked.Repeated && checked.Now.Before(proofEnds): // the repeated check approved
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

// approvedResult also answers a check that repeats an approval.
func (s *checkService) approvedResult(c Caller, checked store.CheckAnswer) CheckResult {
	v, outcome := checked.Verification, "approved"
	if checked.Repeated {
		outcome = "repeated"
	}
	// The hash is of the address as spelled, not of the mailbox. Several spellings may lead to one
	// mailbox, but a person who received a code at one spelling has not proved that another
	// spelling is theirs, too.
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

// observedResult counts a check in the metrics and returns its result. address: see view.
func (s *checkService) observedResult(checked store.CheckAnswer, outcome string, address recipient.Hash) CheckResult {
	s.Observer.Checked(checked.Verification.Channel, checked.Verification.App, outcome)
	return CheckResult{View: s.view(checked.Verification, store.Send{}, checked.Now, address)}
}
