package verification

import (
	"cmp"
	"crypto/rand"
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// MinResendLife returns min(minResendLifeCap, life/minResendLifeDivisor). If a code has less life left,
// a resend opens a new verification, since the old code would expire soon after it arrives.
const (
	minResendLifeCap     = 120 * time.Second
	minResendLifeDivisor = 5
)

// newIntent builds the argument of Store.Begin: the row to write, the verification to join or to
// open, and the rules to decide. It makes random values, and encrypts the recipient and a caller's
// code.
func (s *Service) newIntent(r *sendInProgress, d quota.Decision) (store.Intent, error) {
	fresh, err := s.newVerification(r, store.NewVerificationID(s.Now()))
	if err != nil {
		return store.Intent{}, err
	}
	row := r.sendRow()
	// A stranger could tell by the time of an answer whether others have asked for codes for this recipient.
	likelyFirst := r.subject.Class == store.SecretKeyClass && s.Gates.LikelyFirst(r.subject, d)
	row.ID, row.VerificationID, row.HumanCheck = r.send, "", r.by
	d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool { return policy.CountedInDatabase(s.Rule) })
	row.Observed = d.Observed() // Begin adds those of the recipient
	suppressed := r.address     // the hash that Vault.SuppressionHash would return
	if r.to.Channel() == recipient.SMS {
		suppressed = r.subject.Recipient
	}
	in := store.Intent{
		Send: row, Verification: fresh, Join: r.joins.ID, Address: suppressed,
		Rules:          quota.OfScope(r.subject.Purpose.Policy.Rules, quota.Recipient),
		RejectionRules: quota.OfScope(r.subject.Purpose.Policy.Rules, quota.Failures), Purposes: r.subject.Purpose.PolicyPurposes,
		TTL: cmp.Or(r.TTL, r.subject.Purpose.TTL), MinLife: MinResendLife(r.subject.Purpose.TTL), Lease: s.Lease,
		LikelyFirst: likelyFirst,
	}
	if r.Code != "" {
		in.Code, err = s.Vault.SealCode(r.Code, r.TTL > 0, r.send)
	}
	return in, err
}

// newVerification builds the verification that Begin opens if there is none to join. Begin copies what it
// shares with its send.
func (s *Service) newVerification(r *sendInProgress, id string) (store.Verification, error) {
	nonce, replaced := make([]byte, 16), r.joins.IDsWithReplaced()
	_, _ = rand.Read(nonce) // never fails
	sealed, keyID, err := s.Vault.SealRecipient(r.to, id)
	if err != nil {
		return store.Verification{}, err
	}
	v := store.Verification{
		ID: id, Sealed: sealed, Holder: r.holder, Class: r.subject.Class, Nonce: nonce, KeyID: keyID,
		CodeLength: r.codeLength(), Alphabet: string(r.subject.Purpose.Alphabet), MaxAttempts: MaxAttempts,
		Replaces: replaced[:min(len(replaced), store.MaxReplacedIDs)],
	}
	if r.Code != "" { // a caller's code is not derived
		v.CallerChecks, v.Nonce, v.CodeLength, v.Alphabet = true, nil, 0, ""
		if r.Reports {
			v.Reported = store.ReportDue
		}
	}
	return v, nil
}

// MinResendLife returns how much life a code must have left for a resend to send the same code
// again.
func MinResendLife(life time.Duration) time.Duration {
	return min(minResendLifeCap, life/minResendLifeDivisor)
}
