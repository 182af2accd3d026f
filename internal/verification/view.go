package verification

import (
	"context"
	"errors"
	"net/netip"
	"time"

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
	Now               time.Time // on the log's clock
	Recipient         string    // a hash of the very address, as a proof's sub; for secret keys; empty once it was erased
	Test              bool      // a test recipient: nothing is sent, its code is known
	Code              CodeShape // what the code looks like: for the page, which counts
}

// SendView is the newest send of a verification.
type SendView struct {
	ID           string
	Number       int
	Status       store.Status
	Reason       string // with Failed and Unknown; for secret keys and the administrator (SEC-19)
	At           time.Time
	FinishedAt   time.Time // zero while in flight
	Attempt      int
	Provider     string
	ProviderCode string
}

func stateOf(v store.Verification, now time.Time) State {
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
	_, test := s.testRecipient(v)
	var recipient string
	if spelling, err := s.spelling(v); err == nil {
		recipient = spelling.String()
	}
	return View{
		Recipient: recipient,
		Test:      test, Code: s.shape(v),
		ID: v.ID, State: stateOf(v, now), Channel: v.Channel, To: v.To, Purpose: v.Purpose, Reference: v.Reference,
		CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, AttemptsRemaining: max(0, v.MaxAttempts-v.Attempts), Now: now,
		Send: SendView{
			ID: send.ID.String(), Number: send.Number, Status: send.Status, Reason: send.Reason, At: send.LoggedAt,
			FinishedAt: send.FinishedAt, Attempt: send.Attempt, Provider: send.Provider, ProviderCode: send.ProviderCode,
		},
	}
}

// lookup reads a verification for a caller. Another app's is as unknown as one that never was (API-7).
func (s *Service) lookup(ctx context.Context, c Caller, id string) (store.Verification, store.Send, time.Time, error) {
	v, send, now, err := s.Log.Verification(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return v, send, now, ErrNotFound
	case err != nil:
		s.Logger.Error("log could not be read", "error", err)
		return v, send, now, ErrUnavailable
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
	p = p.on(v.Channel)
	in := s.areaOf(p, func() (recipient.Recipient, error) { return s.recipientOf(v) })
	d, err := s.peek(ctx, c, v.Channel, in, p, v.Recipient)
	if err != nil {
		return Answer{}, err
	}
	return Answer{View: s.view(v, send, now), Quota: Public(d, c, stateOf(v, now)), Policy: p.Policy}, nil
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
	p = p.on(r.Channel())
	d, err := s.peek(ctx, c, r.Channel(), s.area(r), p, s.hash(r))
	if err != nil {
		return Answer{}, err
	}
	return Answer{Quota: Public(d, c, ""), Policy: p.Policy, View: View{Channel: r.Channel(), To: r.Masked(), Purpose: p.Name}}, nil
}

// RecipientQuota is Quota for one who has only the recipient's hash: the administrator. It says all that the rules say, also
// of those that nobody else is told of; quota.Decision.Told leaves these out.
func (s *Service) RecipientQuota(ctx context.Context, app string, ch recipient.Channel, purpose string, h recipient.Hash) (quota.Decision, error) {
	p, err := s.purpose(purpose)
	if err != nil {
		return quota.Decision{}, err
	}
	return s.peek(ctx, Caller{App: app, IP: netip.Addr{}}, ch, area{}, p.on(ch), h)
}

// Hash is how a recipient is found in the log. Errors: *InvalidError.
func (s *Service) Hash(channel, to string) (recipient.Hash, error) {
	r, err := parseRecipient(channel, to)
	if err != nil {
		return recipient.Hash{}, err
	}
	return s.hash(r), nil
}

func (s *Service) peek(ctx context.Context, c Caller, ch recipient.Channel, in area, p Purpose, h recipient.Hash) (quota.Decision, error) {
	buckets := buckets(c, ch, in, p, h)
	d, err := s.look(ctx, subject{store.Bucket{App: c.App, Channel: ch, Recipient: h, Purposes: p.Shares}, p, buckets})
	if errors.Is(err, errAway) {
		d, err = s.explainAlone(ctx, c.App, ch, h, p, buckets)
	}
	if err == nil {
		var carrier quota.State
		var held bool
		if carrier, held, err = s.embargo(ctx, ch, h); held {
			d.Rules = append(d.Rules, carrier)
		}
	}
	if err != nil {
		s.Logger.Error("quota could not be read", "error", err)
		return d, ErrUnavailable
	}
	return d, nil
}
