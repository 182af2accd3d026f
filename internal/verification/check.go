package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/policy"
	"sendcode/internal/proof"
	"sendcode/internal/store"
	"sendcode/internal/vault"
)

// Checked is what a check came to. A wrong, used or expired code is a value, not an error.
type Checked struct {
	View
	Valid      bool
	Proof      string // when valid: a signed token that a back end can check offline
	uncompared bool   // no code was compared
}

// Compared reports whether a code was compared.
func (c Checked) Compared() bool { return !c.uncompared }

// Check compares a code with a verification's. The try is counted, durably, before anything is compared, and
// exactly one of several right answers is approved. What the code cannot contain is an *InvalidError and costs no
// try. Other errors: ErrNotFound, *TooManyChecksError, ErrUnavailable.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (Checked, error) {
	v, _, now, err := s.lookup(ctx, c, id)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			s.pretend(ctx, typed)
		}
		return Checked{}, err
	}
	entered, err := ReadCode(s.shape(v), typed)
	switch {
	case err != nil:
		return Checked{}, err
	case StateOf(v, now) != Pending:
		return s.checked(v, now, "ended", false), nil
	}
	// From here the try counts, whether or not the client waits for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	counted, err := s.takeCheck(ctx, c, v.Channel)
	if err != nil {
		return Checked{}, err
	}
	checked, err := s.compare(ctx, id, entered)
	if checked.Valid || checked.uncompared {
		s.noFailure(counted)
	}
	return checked, err
}

// ReadCode is code.Alphabet.Read with the error that callers of this package know. Error: *InvalidError.
func ReadCode(s code.Shape, typed string) (string, error) {
	entered, err := s.Alphabet.Read(typed)
	var bad *code.InvalidError
	if errors.As(err, &bad) {
		return "", invalid("code", bad.Reason, bad.Detail)
	}
	return entered, err
}

// compare counts the try in the log and then, if there was one left, compares.
func (s *Service) compare(ctx context.Context, id, entered string) (Checked, error) {
	v, counted, now, err := s.Store.Attempt(ctx, id)
	switch {
	case err != nil:
		return Checked{uncompared: true}, s.failed(ctx, err)
	case !counted && StateOf(v, now) == Pending:
		return Checked{uncompared: true}, s.lockout(ctx, v)
	case !counted:
		ended := s.checked(v, now, "ended", false)
		ended.uncompared = true
		return ended, nil
	}
	right, err := s.rightCode(v)
	if err != nil { // a key that left the ring: not the person's mistake
		s.Logger.ErrorContext(ctx, "code could not be derived", "error", err)
		return Checked{}, ErrUncertain // the try is counted
	}
	if !code.Equal(entered, right) {
		return s.checked(v, now, "wrong", false), nil
	}
	return s.approve(ctx, v, now)
}

// pretend does for an unknown ID what is done for a known one: a round trip to the log that counts nothing, and a
// comparison. Its outcome is of no interest, so the answer is the same whatever was typed.
func (s *Service) pretend(ctx context.Context, typed string) {
	entered, _ := code.Digits.Read(typed)
	_, _, _, _ = s.Store.Attempt(ctx, "")
	code.Pretend(entered)
}

func (s *Service) approve(ctx context.Context, v store.Verification, now time.Time) (Checked, error) {
	event, err := s.approvalEvent(v)
	if err != nil {
		return Checked{}, err
	}
	won, err := s.Store.Approve(ctx, v.ID, event)
	if err != nil { // the code was right, and the try is counted
		return Checked{uncompared: true}, errors.Join(s.failed(ctx, err), ErrUncertain)
	}
	if won {
		if event.Type != "" {
			s.Notify()
		}
		v.ApprovedAt = now
		approved := s.checked(v, now, "approved", true)
		approved.Proof = s.prove(v, now)
		return approved, nil
	}
	again, _, now, err := s.Store.Verification(ctx, v.ID)
	if err != nil {
		return Checked{}, errors.Join(s.failed(ctx, err), ErrUncertain)
	}
	return s.checked(again, now, "ended", false), nil
}

// prove is empty when there is no proof: the approval stands all the same, and a back end that checks by itself needs none.
func (s *Service) prove(v store.Verification, now time.Time) string {
	if s.Prover == nil {
		return ""
	}
	spelling, err := s.Vault.AddressOf(v) // not the mailbox: a reader of mail for one spelling has shown nothing of another
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

// approvalEvent is the event of an approval, for an app that subscribes to it; zero for one that does not.
func (s *Service) approvalEvent(v store.Verification) (store.NewEvent, error) {
	if !s.Policy.Get().Subscribes(v.App, policy.EventApproved) {
		return store.NewEvent{}, nil
	}
	id, err := s.newID()
	if err != nil {
		s.Logger.Error("an event got no ID", "event", policy.EventApproved, "error", err)
		return store.NewEvent{}, ErrUncertain // the try is counted
	}
	_, test := s.testRecipient(v)
	return store.NewEvent{ID: id, Type: policy.EventApproved, Test: test}, nil
}

// Named says which verification a back end means that kept no ID: the newest pending one that it holds for the
// recipient, as it would resend it. One that a browser or another session asked for is never meant.
type Named struct {
	Channel string
	To      string
	Purpose string // empty: default
	Session string // as it was given when the code was asked for
}

// CheckNamed is Check for a back end that kept no ID. Secret keys only: the caller must have made sure of that.
// Errors: those of Check; ErrNotFound also when no verification of that name is pending.
func (s *Service) CheckNamed(ctx context.Context, c Caller, n Named, typed string) (Checked, error) {
	if c.Kind != Secret {
		return Checked{}, ErrNotFound
	}
	a, err := s.understand(ctx, Ask{Caller: c, Channel: n.Channel, To: n.To, Purpose: n.Purpose, Session: n.Session})
	if err != nil {
		return Checked{}, err
	}
	v, err := s.Store.Newest(ctx, store.HolderQuery{
		App: c.App, Channel: a.to.Channel(), Recipient: a.subject.Recipient, Purpose: a.purpose.Name, Holder: a.holder,
	})
	if err != nil {
		return Checked{}, s.failed(ctx, err)
	}
	return s.Check(ctx, c, v.ID, typed)
}

func (s *Service) testRecipient(v store.Verification) (policy.TestRecipient, bool) {
	return s.Policy.Get().TestRecipient(s.Vault, v, s.Now())
}

// shape is that of the code that is right for v now: a test recipient's is the one that was configured.
func (s *Service) shape(v store.Verification) code.Shape {
	if t, ok := s.testRecipient(v); ok {
		return code.ShapeOf(t.Code)
	}
	return vault.Shape(v)
}

// rightCode is the one that a person has to enter for v.
func (s *Service) rightCode(v store.Verification) (string, error) {
	if t, ok := s.testRecipient(v); ok {
		return t.Code, nil
	}
	return s.Vault.Code(v)
}
