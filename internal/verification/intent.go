package verification

import (
	"cmp"
	"crypto/rand"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// A resend of a code with less life left than min(120 s, life/5) opens a new verification instead, since the code would expire soon after
// it arrives.
const (
	maxMinLife   = 120 * time.Second
	minLifeShare = 5
)

// intent builds the argument of Store.Begin: the row to write, the verification to join or to open, and the rules to decide. It makes
// random values, and encrypts the recipient and a caller's code.
func (s *Service) intent(a asked, id uuid.UUID, d quota.Decision) (store.Intent, error) {
	fresh, err := s.newVerification(a)
	if err != nil {
		return store.Intent{}, err
	}
	row := a.row()
	row.ID, row.TakenAt, row.Clock, row.VerificationID = id, d.At, d.Clock, ""
	row.Observed = d.Observed()
	intent := store.Intent{
		Send: row, Verification: fresh, Join: a.join, Address: a.address,
		Rules: policy.ForDatabase(a.purpose.Policy.Rules), Rejections: policy.FailureRule(a.purpose.Policy.Rules), Purposes: a.purpose.Shares,
		TTL: cmp.Or(a.TTL, a.purpose.TTL), MinLife: MinResendLife(a.purpose.TTL), Lease: s.Lease,
	}
	if a.Code != "" {
		intent.Code, err = s.Vault.SealCode(a.Code, a.TTL > 0, id)
	}
	return intent, err
}

// newVerification builds the verification that Begin opens if there is none to join.
func (s *Service) newVerification(a asked) (store.Verification, error) {
	id := store.NewVerificationID(s.Now())
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	sealed, keyID, err := s.Vault.Seal(a.to, id)
	if err != nil {
		return store.Verification{}, err
	}
	v := store.Verification{
		ID: id, App: a.App, Channel: a.to.Channel(), Purpose: a.purpose.Name, Recipient: a.subject.Recipient, To: a.to.Masked(),
		Sealed: sealed, Holder: a.holder, Class: a.class, Nonce: nonce, KeyID: keyID, CodeLength: a.codeLength(),
		Alphabet: string(a.purpose.Alphabet), Locale: a.locale, Reference: a.Reference, MaxAttempts: MaxAttempts,
		Replaces: a.chain[:min(len(a.chain), store.MaxReplaces)],
	}
	if a.Code != "" { // nothing is derived
		v.CallerChecks, v.Nonce, v.CodeLength, v.Alphabet = true, nil, 0, ""
	}
	return v, nil
}

// MinResendLife returns how much of its life a code must have left for a resend to send it again.
func MinResendLife(life time.Duration) time.Duration { return min(maxMinLife, life/minLifeShare) }
