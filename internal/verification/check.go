package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/fault"
	"sendcode/internal/keys"
	"sendcode/internal/policy"
	"sendcode/internal/proof"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/webhook"
)

// CheckResult is the result of a check. A wrong, used or expired code is a result, not an error.
type CheckResult struct {
	View
	Valid bool
	Proof string // when valid: a signed token that a back end can check offline
	Known string // when valid, for a browser: the token for Ask.Known, to be kept for KnownFor
}

// Check compares a typed code with a verification's code and approves it if they are equal. The attempt is written to the log before the
// comparison. Of several right checks exactly one approves. Errors: *fault.InvalidError for a text that has not the code's characters or
// length, which costs no attempt; fault.NotFound, *TooManyChecksError, fault.Unavailable, and fault.Uncertain if the attempt may count.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (CheckResult, error) {
	v, err := s.lookup(ctx, c, id)
	if err != nil {
		if errors.Is(err, fault.NotFound) {
			s.pretendCheck(ctx, c, typed)
		}
		return CheckResult{}, err
	}
	entered, err := s.shape(v.Verification).Normalize(typed)
	switch {
	case err != nil:
		return CheckResult{}, err
	case v.state() != Pending:
		return s.checkResult(v.Verification, v.now, "ended", false), nil
	}
	// From here the attempt counts, even if the client hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	counted, err := s.takeCheck(ctx, c, v.Channel)
	if err != nil {
		return CheckResult{}, err
	}
	checked, failed, err := s.compare(ctx, c, id, entered)
	if !failed && len(counted.Buckets) > 0 {
		s.Outbox.RefundLater(counted.ID, counted.Buckets)
	}
	if checked.Valid && c.Kind == Browser {
		checked.Known, _ = s.Vault.SealKnown(v.Verification) // it fails if the address was erased meanwhile
	}
	return checked, err
}

// compare counts an attempt in the database. If that counted it, compare compares the codes, and approves if they are equal. failed: the
// attempt counts, and no right code was seen, so the limiter keeps the check as a failed one. Errors: fault.NotFound, *TooManyChecksError,
// fault.Unavailable; fault.Uncertain if the attempt may count.
func (s *Service) compare(ctx context.Context, c Caller, id, entered string) (result CheckResult, failed bool, err error) {
	v, counted, now, err := s.Store.Attempt(ctx, id, c.network())
	switch {
	case err != nil:
		return result, false, err
	case !counted && StateOf(v, now) == Pending:
		return result, false, s.lockoutError(ctx, c, v)
	case !counted:
		return s.checkResult(v, now, "ended", false), false, nil
	}
	right, err := s.rightCode(v)
	if err != nil { // the key is no longer in the ring
		return result, true, fault.Uncertain.Wrap(err) // the attempt is counted
	}
	if !code.Equal(entered, right) {
		return s.checkResult(v, now, "wrong", false), true, nil
	}
	result, err = s.approve(ctx, v, now)
	return result, false, err
}

// pretendCheck asks for an unknown ID what a check of a known one asks, once each: the limiter and the log. It ignores the answers and
// counts nothing. A check that counts takes longer by the time that its commit waits for the disk.
func (s *Service) pretendCheck(ctx context.Context, c Caller, typed string) {
	_, _, _ = s.Gate.PeekOrLocal(ctx, s.checkRequest(c, recipient.Email))
	_, _, _, _ = s.Store.Attempt(ctx, "", "")
	code.CompareDummy(typed)
}

func (s *Service) approve(ctx context.Context, v store.Verification, now time.Time) (CheckResult, error) {
	_, test := s.testRecipient(v)
	event, err := s.Policy.Get().Subscriptions.NewEvent(v.App, webhook.EventApproved, test, s.IDs, s.Now())
	if err != nil {
		return CheckResult{}, fault.Uncertain.Wrap(err) // the attempt is counted
	}
	won, err := s.Store.Approve(ctx, v.ID, event)
	if err != nil { // the code was right, and the attempt is counted
		return CheckResult{}, fault.Uncertain.Wrap(err)
	}
	if won {
		if event.Type != "" {
			s.Notify()
		}
		v.ApprovedAt = now
		approved := s.checkResult(v, now, "approved", true)
		approved.Proof = s.prove(v, now)
		return approved, nil
	}
	again, _, now, err := s.Store.Verification(ctx, v.ID)
	if err != nil {
		return CheckResult{}, fault.Uncertain.Wrap(err)
	}
	return s.checkResult(again, now, "ended", false), nil
}

// prove signs the proof of an approval. It returns "" if proofs are off, or if signing failed, which it logs: the approval is valid
// without a proof.
func (s *Service) prove(v store.Verification, now time.Time) string {
	if s.Prover == nil {
		return ""
	}
	spelling, err := s.Vault.AddressHashOf(v) // not of the mailbox: reading mail for one spelling does not prove another one
	if err != nil {
		s.Logger.Error("could not sign proof", "error", err)
		return ""
	}
	_, test := s.testRecipient(v)
	token, err := s.Prover.Sign(proof.Claims{
		ID: v.ID, App: v.App, Recipient: spelling.String(), Channel: string(v.Channel), Purpose: v.Purpose, Test: test,
	}, now)
	if err != nil {
		s.Logger.Error("could not sign proof", "error", err)
	}
	return token
}

func (s *Service) checkResult(v store.Verification, now time.Time, outcome string, valid bool) CheckResult {
	s.Observer.Checked(v.Channel, v.App, outcome)
	return CheckResult{View: s.view(v, store.Send{}, now, recipient.Hash{}), Valid: valid}
}

// CheckNamed is Check for a back end that did not keep the ID. It checks the newest pending verification that was requested with a secret
// key for the recipient, purpose and session of ask; never one of a browser or of another session. Errors: those of Check, and
// *fault.InvalidError for ask; fault.NotFound also if no such verification is pending, or if the caller has no secret key.
func (s *Service) CheckNamed(ctx context.Context, ask Ask, typed string) (CheckResult, error) {
	if ask.Kind != Secret {
		return CheckResult{}, fault.NotFound
	}
	a, err := s.parseAsk(ctx, ask)
	if err != nil {
		return CheckResult{}, err
	}
	v, err := s.Store.NewestPending(ctx, store.HolderQuery{
		App: a.App, Channel: a.to.Channel(), Recipient: a.subject.Recipient, Purpose: a.purpose.Name, Holder: a.holder,
	})
	if err != nil {
		return CheckResult{}, err
	}
	return s.Check(ctx, a.Caller, v.ID, typed)
}

func (s *Service) testRecipient(v store.Verification) (policy.TestRecipient, bool) {
	return s.Policy.Get().TestRecipient(s.Vault, v, s.Now())
}

// shape returns the shape of the right code for v: of the configured code for a test recipient, else of the derived one.
func (s *Service) shape(v store.Verification) code.Shape {
	if t, ok := s.testRecipient(v); ok {
		return code.ShapeOf(t.Code)
	}
	return keys.Shape(v)
}

// rightCode returns the right code for v: the configured one for a test recipient, else the derived one.
func (s *Service) rightCode(v store.Verification) (string, error) {
	if t, ok := s.testRecipient(v); ok {
		return t.Code, nil
	}
	return s.Vault.DeriveCode(v)
}

// Cancel ends a pending verification: its code is never accepted or sent again. A verification that has ended is not changed, so
// repeating is harmless. Errors: fault.NotFound, fault.Unavailable.
func (s *Service) Cancel(ctx context.Context, c Caller, id string) (Answer, error) {
	if _, err := s.lookup(ctx, c, id); err != nil {
		return Answer{}, err
	}
	if _, err := s.Store.Cancel(ctx, id); err != nil {
		return Answer{}, err
	}
	return s.Get(ctx, c, id)
}
