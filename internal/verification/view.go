package verification

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// State is where a verification stands. It is derived from its row and the log's clock, never stored.
type State string

// The states of a verification.
const (
	Pending            State = "pending"
	Approved           State = "approved"
	Canceled           State = "canceled"
	Expired            State = "expired"
	MaxAttemptsReached State = "max_attempts_reached"
)

// View is what a caller may know of a verification: never the code, never the full recipient.
type View struct {
	ID                string
	State             State
	Channel           recipient.Channel
	To                string // masked
	Purpose           string
	Reference         string
	CreatedAt         time.Time
	ExpiresAt         time.Time
	AttemptsRemaining int
	Send              SendView
	Now               time.Time  // on the log's clock
	Recipient         string     // a hash of the very address, as a proof's sub; for secret keys; empty once it was erased
	Test              bool       // a test recipient: nothing is sent, its code is known
	Code              code.Shape // what the code looks like: for the page, which counts
}

// SendView is the newest send of a verification.
type SendView struct {
	ID           string
	Number       int
	Status       store.Status
	Reason       string // with Failed and Unknown; for secret keys and the administrator
	At           time.Time
	FinishedAt   time.Time // zero while in flight
	Attempt      int
	Provider     string
	ProviderCode string
}

// StateOf is where a verification stands at an instant of the log's clock.
func StateOf(v store.Verification, now time.Time) State {
	switch {
	case !v.ApprovedAt.IsZero():
		return Approved
	case !v.CanceledAt.IsZero():
		return Canceled
	case v.Attempts >= v.MaxAttempts:
		return MaxAttemptsReached
	case !now.Before(v.ExpiresAt):
		return Expired
	}
	return Pending
}

func (s *Service) view(v store.Verification, send store.Send, now time.Time) View {
	return s.viewOf(v, send, now, recipient.Hash{})
}

// viewOf is view where the hash of the address is known; zero: it is not, and once the address was erased there is none.
func (s *Service) viewOf(v store.Verification, send store.Send, now time.Time, address recipient.Hash) View {
	_, test := s.testRecipient(v)
	if address.IsZero() {
		address, _ = s.Vault.AddressOf(v)
	}
	return View{
		Recipient: address.Known(),
		Test:      test, Code: s.shape(v),
		ID: v.ID, State: StateOf(v, now), Channel: v.Channel, To: v.To, Purpose: v.Purpose, Reference: v.Reference,
		CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, AttemptsRemaining: max(0, v.MaxAttempts-v.Attempts), Now: now,
		Send: SendView{
			ID: send.ID.String(), Number: send.Number, Status: send.Status, Reason: send.Reason, At: send.LoggedAt,
			FinishedAt: send.FinishedAt, Attempt: send.Attempt, Provider: send.Provider, ProviderCode: send.ProviderCode,
		},
	}
}

// lookup reads a verification for a caller. Another app's is as unknown as one that never was.
func (s *Service) lookup(ctx context.Context, c Caller, id string) (store.Verification, store.Send, time.Time, error) {
	v, send, now, err := s.Store.Verification(ctx, id)
	switch {
	case err != nil:
		return v, send, now, s.failed(ctx, err)
	case v.App != c.App:
		return store.Verification{}, store.Send{}, now, ErrNotFound
	}
	return v, send, now, nil
}

// Get returns a verification and what its recipient's rules say now. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) Get(ctx context.Context, c Caller, id string) (Answer, error) {
	v, send, now, err := s.lookup(ctx, c, id)
	if err != nil {
		return Answer{}, err
	}
	p, err := s.purposeFor(c, v.Purpose)
	if err != nil { // the configuration changed under it: the row is still true, its policy is gone
		return Answer{View: s.view(v, send, now)}, nil
	}
	p = p.On(v.Channel)
	d, err := s.look(ctx, subjectOf(c, v.Channel, v.Recipient, s.areaOf(p, v), p))
	if err != nil {
		return Answer{}, err
	}
	return Answer{View: s.view(v, send, now), Quota: Public(d, c, StateOf(v, now)), Policy: p.Policy}, nil
}

// areaOf is that of a verification's recipient, where a rule asks for it.
func (s *Service) areaOf(p policy.Purpose, v store.Verification) policy.Area {
	if !slices.ContainsFunc(p.Policy.Rules, func(r quota.Rule) bool { return policy.ByArea(r) || r.Scope == policy.Spellings }) {
		return policy.Area{}
	}
	r, err := s.Vault.Recipient(v)
	if err != nil {
		return policy.Area{}
	}
	return policy.AreaOf(s.Vault, r, s.Vault.Hashes(r))
}

// Quota says what a recipient's rules would answer now, and spends nothing. Errors: *InvalidError, ErrUnavailable.
func (s *Service) Quota(ctx context.Context, c Caller, channel, to, purpose string) (Answer, error) {
	p, err := s.purposeFor(c, purpose)
	if err != nil {
		return Answer{}, err
	}
	r, err := s.parse(channel, to, "")
	if err != nil {
		return Answer{}, err
	}
	p = p.On(r.Channel())
	hashes := s.Vault.Hashes(r)
	d, err := s.look(ctx, subjectOf(c, r.Channel(), hashes.Counted, policy.AreaOf(s.Vault, r, hashes), p))
	if err != nil {
		return Answer{}, err
	}
	return Answer{Quota: Public(d, c, ""), Policy: p.Policy, View: View{Channel: r.Channel(), To: r.Masked(), Purpose: p.Name}}, nil
}

// RecipientQuota is Quota for an administrator, by the recipient's hash. It includes rules that no caller reads; quota.Decision.Public
// leaves them out.
func (s *Service) RecipientQuota(
	ctx context.Context, app string, ch recipient.Channel, purpose string, h recipient.Hash) (quota.Decision, error) {
	p, err := Purpose(s.Policy.Get(), purpose)
	if err != nil {
		return quota.Decision{}, err
	}
	return s.look(ctx, policy.Subject{App: app, Channel: ch, Recipient: h, Purpose: p.On(ch)})
}

// Served says why requests for a recipient are turned away before anything is written; nil where they are not. Errors: *InvalidError.
func (s *Service) Served(channel, to string) error {
	r, err := s.parse(channel, to, "")
	if err != nil {
		return err
	}
	if refusal := s.Policy.Get().Refuse(r); refusal != nil {
		return invalid("to", refusal.Reason, refusal.Detail)
	}
	return nil
}

// look says what every rule of a subject says now, a carrier's hold among them. Error: ErrUnavailable.
func (s *Service) look(ctx context.Context, of policy.Subject) (quota.Decision, error) {
	d, err := s.Gate.Peek(ctx, of)
	if err == nil {
		d, err = s.withCarrierHold(ctx, of, d)
	}
	if err != nil {
		s.Logger.ErrorContext(ctx, "quota could not be read", "error", err)
		return d, ErrUnavailable
	}
	return d, nil
}

// Instead is the channel to offer to a person whom a text message did not reach, whatever kept it: empty where there is none.
// It tells nothing of why.
func Instead(ch recipient.Channel, s store.Status) recipient.Channel {
	if ch == recipient.SMS && (s == store.Failed || s == store.Undelivered) {
		return recipient.Email
	}
	return ""
}

// Offer is a channel that codes can be asked for on.
type Offer struct {
	Channel   recipient.Channel
	Paused    bool     // nothing is sent over it for now
	Countries []string // of phone numbers, as ISO 3166-1 alpha-2, sorted; "001" among them where it is let in
}

// Offers are the channels of a purpose as they are now: mail, and text messages where there is a carrier.
func (s *Service) Offers(purpose string) []Offer {
	set := s.Policy.Get()
	purpose = or(purpose, policy.DefaultPurpose)
	_, paused := set.Paused(recipient.Email, purpose)
	offers := []Offer{{Channel: recipient.Email, Paused: paused}}
	if s.Texts != nil {
		_, paused = set.Paused(recipient.SMS, purpose)
		offers = append(offers, Offer{Channel: recipient.SMS, Paused: paused, Countries: set.Numbers.Served()})
	}
	return offers
}
