package verification

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// sealLabel separates the key that encrypts recipients from the others of the ring.
const sealLabel = "recipient"

// With less life left than min(120 s, life/5), a resend would arrive as good as expired and opens a new verification
// instead (DESIGN.md, section 3).
const (
	maxMinLife   = 120 * time.Second
	minLifeShare = 5
)

// intent is what the log is asked to decide and to write.
func (s *Service) intent(a asked, id uuid.UUID, d quota.Decision) (store.Intent, error) {
	fresh, err := s.fresh(a)
	if err != nil {
		return store.Intent{}, err
	}
	row := a.row()
	row.ID, row.TakenAt, row.Clock, row.VerificationID = id, d.At, d.Clock, ""
	row.Observed = d.Observed()
	return store.Intent{
		Send: row, Verification: fresh, Join: a.join, Address: a.to.Hash(s.IndexKey),
		Rules: gated(a.purpose.Policy.Rules), Rejections: onFailures(a.purpose.Policy.Rules), Purposes: a.purpose.Shares,
		Life: a.purpose.Life, MinLife: min(maxMinLife, a.purpose.Life/minLifeShare), Lease: s.Lease,
	}, nil
}

// fresh is the verification that Begin opens when there is none to join.
func (s *Service) fresh(a asked) (store.Verification, error) {
	id, err := newVerificationID()
	if err != nil {
		return store.Verification{}, err
	}
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return store.Verification{}, err
	}
	sealed, err := s.Ring.Seal(sealLabel, []byte(a.to.Address()), []byte(id))
	if err != nil {
		return store.Verification{}, err
	}
	return store.Verification{
		ID: id, App: a.App, Channel: a.to.Channel(), Purpose: a.purpose.Name, Recipient: a.hash, To: a.to.Masked(),
		Sealed: sealed, Holder: a.holder, ByBrowser: a.Kind == Browser, Nonce: nonce, KeyID: s.Ring.Current(), CodeLength: a.codeLength(), Alphabet: string(a.purpose.Alphabet),
		Locale: a.locale, Reference: a.Reference, MaxAttempts: maxAttempts,
	}, nil
}

// newVerificationID is 160 random bits: the ID is a capability (API-6).
func newVerificationID() (string, error) {
	raw := make([]byte, 20)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw)), nil
}
