package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// AddressEvidence is the evidence for a browser's address. It comes from a token that package evp
// has verified.
type AddressEvidence struct {
	Issuer  string    // host of the issuer, which signed the token
	Nonce   string    // random, made for this browser alone; the token is for this nonce
	NonceAt time.Time // when the nonce was made
}

var (
	// ErrNonceUsed says that a verification was proven with the nonce before.
	ErrNonceUsed = errors.New("verification: the nonce was used")
	// ErrStopped says that an administrator has stopped the recipient, the channel or the purpose.
	ErrStopped = errors.New("verification: stopped by hand")
)

// Prove opens an approved verification for a browser that has proved its address. Nothing is sent,
// and no rule counts it. Each nonce works once, since the verification's ID is made from the nonce.
// Errors: *fault.InvalidError, ErrNonceUsed, ErrStopped, *HoldUntilError before
// Dependencies.HoldUntil, *admission.OverloadedError, fault.Unavailable, and fault.Uncertain if the
// verification may have been written.
func (s *Service) Prove(ctx context.Context, ask Request, p AddressEvidence) (result CheckResult, err error) {
	a, err := s.parseSend(ctx, ask)
	switch {
	case err != nil:
		return CheckResult{}, err
	case a.to.Channel() != recipient.Email || a.Kind != Browser || a.Resend != "":
		return CheckResult{}, fault.Invalid("to", "not_allowed",
			"Only a browser proves an address, and only of a mailbox.")
	}
	if err := s.refuseProofIfStopped(a); err != nil {
		return CheckResult{}, err
	}
	leave, err := s.enterAdmission(s.checks, checksAdmissionName, a.subject.Class)
	if err != nil {
		return CheckResult{}, err
	}
	defer func() { leave(!errors.Is(err, fault.Unavailable)) }()
	r := &sendInProgress{parsedRequest: a}
	if r.send, err = s.newID(); err != nil {
		return CheckResult{}, store.WrapUnavailable(err)
	}
	hash := s.Vault.KeyedHash("evp nonce", a.App, p.Nonce)
	v, err := s.newVerification(r, store.VerificationIDFromBits(p.NonceAt, [16]byte(hash[:16])))
	if err != nil {
		return CheckResult{}, store.WrapUnavailable(err)
	}
	row := r.sendRow()
	row.ID, row.VerificationID = r.send, v.ID
	tell, err := s.eventMaker().NewEvent(v, store.VerificationApproved)
	if err != nil {
		return CheckResult{}, err
	}
	begun, fresh, err := s.Store.InsertProven(context.WithoutCancel(ctx), store.Intent{
		Send: row, Verification: v, Purposes: a.subject.Purpose.PolicyPurposes, TTL: a.subject.Purpose.TTL,
	}, p.Issuer, tell)
	switch {
	case err != nil:
		return CheckResult{}, err
	case !fresh:
		return CheckResult{}, ErrNonceUsed
	}
	s.eventMaker().WakeForEvent(tell)
	return s.approvedResult(a.Caller, store.CheckAnswer{Verification: begun.Verification, Now: begun.Now, Counted: true,
		Approved: true, Event: tell}), nil
}

// refuseProofIfStopped returns ErrStopped or a *HoldUntilError if no code could be sent now: a stop
// of codes is also a stop of proofs.
func (s *Service) refuseProofIfStopped(a parsedRequest) error {
	set := s.Policy.Get()
	if _, paused := set.Paused(a.to.Channel(), a.subject.Purpose.Name); paused || set.Blocks.BlocksSend(a.to, a.address) {
		return ErrStopped
	}
	if left := s.HoldUntil.Sub(s.Now()); left > 0 {
		return &HoldUntilError{s.HoldUntil, left}
	}
	return nil
}
