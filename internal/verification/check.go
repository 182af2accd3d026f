package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/proof"
	"sendcode/internal/store"
)

// Checked is what a check came to. A wrong, used or expired code is a value, not an error.
type Checked struct {
	View
	Valid      bool
	Proof      string // when valid: a signed token that a back end can check offline
	uncompared bool   // no code was compared
}

// Check compares a code with a verification's. The try is counted, durably, before anything is compared (SEC-6), and
// exactly one of several right answers is approved (SEC-5). What the code cannot contain is an *InvalidError and costs no
// try. Other errors: ErrNotFound, *TooManyChecksError, ErrUnavailable.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (Checked, error) {
	v, _, now, err := s.lookup(ctx, c, id)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			s.pretend(ctx, typed)
		}
		return Checked{}, err
	}
	code, err := s.shape(v).Alphabet.Read(typed)
	switch {
	case err != nil:
		return Checked{}, err
	case stateOf(v, now) != Pending:
		return s.checked(v, now, "ended", false), nil
	}
	// From here the try counts, whether or not the client waits for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	counted, err := s.takeCheck(ctx, c, v.Channel)
	if err != nil {
		return Checked{}, err
	}
	checked, err := s.compare(ctx, id, code)
	if checked.Valid || checked.uncompared {
		s.noFailure(counted)
	}
	return checked, err
}

// compare counts the try in the log and then, if there was one left, compares.
func (s *Service) compare(ctx context.Context, id, code string) (Checked, error) {
	v, counted, now, err := s.Log.Attempt(ctx, id)
	switch {
	case err != nil:
		return Checked{uncompared: true}, s.unreadable(err)
	case !counted && stateOf(v, now) == Pending:
		return Checked{uncompared: true}, s.lockout(ctx, v)
	case !counted:
		ended := s.checked(v, now, "ended", false)
		ended.uncompared = true
		return ended, nil
	}
	right, err := s.rightCode(v)
	if err != nil { // a key that left the ring: not the person's mistake (SEC-10)
		s.Logger.Error("code could not be derived", "error", err)
		return Checked{}, ErrUnavailable
	}
	if !equal(code, right) {
		return s.checked(v, now, "wrong", false), nil
	}
	return s.approve(ctx, v, now)
}

// pretend does for an unknown ID what is done for a known one: a round trip to the log that counts nothing, and a
// comparison (SEC-8). Its outcome is of no interest, so the answer is the same whatever was typed.
func (s *Service) pretend(ctx context.Context, typed string) {
	code, _ := Digits.Read(typed)
	_, _, _, _ = s.Log.Attempt(ctx, "")
	_ = equal(code, derive([]byte("no key"), "", nil, alphabets[Digits], max(1, len(code))))
}

func (s *Service) approve(ctx context.Context, v store.Verification, now time.Time) (Checked, error) {
	tell, err := s.tellOfApproval(v)
	if err != nil {
		return Checked{}, err
	}
	won, err := s.Log.Approve(ctx, v.ID, tell)
	if err != nil { // the code was right
		return Checked{uncompared: true}, s.unreadable(err)
	}
	if won {
		s.told(tell)
		v.ApprovedAt = now
		approved := s.checked(v, now, "approved", true)
		approved.Proof = s.prove(v, now)
		return approved, nil
	}
	again, _, now, err := s.Log.Verification(ctx, v.ID)
	if err != nil {
		return Checked{}, s.unreadable(err)
	}
	return s.checked(again, now, "ended", false), nil
}

// prove is empty when there is no proof: the approval stands all the same, and a back end that checks by itself needs none.
func (s *Service) prove(v store.Verification, now time.Time) string {
	if s.Prover == nil {
		return ""
	}
	spelling, err := s.spelling(v) // not the mailbox: who reads mail for one spelling has shown nothing of another
	if err != nil {
		s.Logger.Error("an approval could not be proven", "error", err)
		return ""
	}
	_, test := s.testRecipient(v)
	token, err := s.Prover.Sign(proof.Facts{
		ID: v.ID, App: v.App, Recipient: spelling.String(), Channel: string(v.Channel), Purpose: v.Purpose, Test: test,
	}, now)
	if err != nil {
		s.Logger.Error("an approval could not be proven", "error", err)
	}
	return token
}

func (s *Service) checked(v store.Verification, now time.Time, outcome string, valid bool) Checked {
	s.Observer.Checked(v.Channel, v.App, outcome)
	return Checked{View: s.view(v, store.Send{}, now), Valid: valid}
}

func (s *Service) unreadable(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrNotFound
	}
	s.Logger.Error("log could not end a verification", "error", err)
	return ErrUnavailable
}
