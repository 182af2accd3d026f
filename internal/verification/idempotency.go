package verification

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/store"
)

// A request with an idempotency key is done once: the key is claimed in the log before any gate is asked, and the
// claim fixes the ID of the send, which both gates know again. A refusal gives the key up, so that the caller may ask again
// when the wait is over; so does an outage that certainly wrote nothing. After one that may have written, the next
// request with the key goes on with the same send and finds out.

const (
	// claimLease is longer than both gates may take together. Within it, the same request is refused with ErrBusy.
	claimLease = 15 * time.Second
	// KeyLife is how long an idempotency key is remembered.
	KeyLife = 24 * time.Hour
)

// claim is what a request works on.
type claim struct {
	send      uuid.UUID
	key       [32]byte
	keyed     bool
	inherited bool // the send's ID is that of a request before this one, which may have got anywhere
	done      *store.Claimed
}

// claim takes the request's key, if it has one. Errors: ErrBusy, ErrOtherRequest, ErrUnavailable.
func (s *Service) claim(ctx context.Context, a asked) (claim, error) {
	id, err := s.newID()
	if err != nil || a.Key == "" {
		return claim{send: id}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	c := claim{send: id, key: s.keyOf(a), keyed: true}
	got, err := s.Store.Claim(ctx, store.Claim{Key: c.key, Fingerprint: s.fingerprint(a), SendID: id, Lease: claimLease, Life: KeyLife})
	if err != nil {
		return c, s.failed(ctx, err)
	}
	switch got.State {
	case store.ClaimBusy:
		return c, ErrBusy
	case store.ClaimOther:
		return c, ErrOtherRequest
	case store.ClaimDone:
		c.done = &got
	default:
		c.send, c.inherited = got.SendID, got.SendID != id
	}
	return c, nil
}

// releaseKey gives the key up where no send came of the request. If that fails, the outbox repeats it; the key is free when its
// lease ends in any case.
func (s *Service) releaseKey(ctx context.Context, c claim, answer Answer, err error) {
	if !c.keyed || answer.Admitted {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	uncertain := errors.Is(err, ErrUncertain)
	if err := s.Store.Release(ctx, c.key, c.send, !uncertain); err != nil {
		s.Logger.WarnContext(ctx, "an idempotency key was not given up", "send", c.send, "error", err)
		if !uncertain { // else it is remembered already
			s.Outbox.ReleaseLater(c.key, c.send, claimLease)
		}
	}
}

// replay answers with what the first request was answered. The waits are those of now, so that a countdown goes on;
// a caller that waits for the outcome gets it, as far as it is known.
func (s *Service) replay(ctx context.Context, a asked, done store.Claimed) (Answer, error) {
	d, err := s.look(ctx, a.subject)
	if err != nil {
		return Answer{}, err
	}
	v, send := done.Verification, done.Send
	if a.Wait == 0 {
		v, send = asAdmitted(v, send)
	}
	seen := s.view(v, send, send.LoggedAt)
	seen.Now = done.Now
	d = Public(d, a.Caller, StateOf(done.Verification, done.Now))
	return Answer{Admitted: true, Replayed: true, View: seen, Quota: d, Policy: a.purpose.Policy}, nil
}

// asAdmitted is what was known when the send was let in.
func asAdmitted(v store.Verification, s store.Send) (store.Verification, store.Send) {
	v.ApprovedAt, v.CanceledAt = time.Time{}, time.Time{}
	if s.Number == 1 {
		v.Attempts = 0
	}
	s.Status, s.Reason, s.Attempt, s.FinishedAt, s.Provider, s.ProviderCode = store.Queued, "", 1, time.Time{}, "", ""
	return v, s
}

// keyOf hides the key, which a caller may have made of anything, and keeps those of other apps and callers apart. A browser's
// key that can be guessed is a key of the browser's network alone: sent from another one it is another key, so that no
// answer hands a verification over.
func (s *Service) keyOf(a asked) [32]byte {
	switch {
	case a.Kind == Secret:
		return s.Vault.Keyed("idempotency key", a.App, "secret", a.Key)
	case strongKey(a.Key):
		return s.Vault.Keyed("idempotency key", a.App, "browser", a.Key)
	}
	return s.Vault.Keyed("idempotency key", a.App, "browser of "+policy.Client(a.IP), a.Key)
}

// fingerprint is of everything that was asked for; not of where the request came from, which a retry may change; see keyOf.
func (s *Service) fingerprint(a asked) [32]byte {
	return s.Vault.Keyed("idempotency request", string(a.to.Channel()), a.to.Address(), a.purpose.Name, or(a.Locale, a.Languages), a.Reference,
		a.Session, a.Resend)
}

// strongKey reports whether an Idempotency-Key has the form of 128 random bits or more: 32 hexadecimal digits at least and
// nothing else, letters among them, and not the same few over and over. It errs to false. Words, counters and times never
// have this form; a UUID has at most 122 random bits, and letters of base64 cannot be told from words.
func strongKey(key string) bool {
	if len(key) < 32 {
		return false
	}
	seen := map[rune]bool{}
	letters := false
	for _, r := range strings.ToLower(key) {
		if !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
		seen[r] = true
		letters = letters || r >= 'a'
	}
	return letters && len(seen) >= 8
}
