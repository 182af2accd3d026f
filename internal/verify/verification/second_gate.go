package verification

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// write lets the database, the second gate, decide the send and write its row. This is the commit
// point: no message is sent before it. If the process dies afterwards, another replica takes over
// the send when the lease ends. It delivers the send, and makes the limiter count it if the row
// counts. Errors: *FailedCheckLimitError, fault.Unavailable, fault.Uncertain.
func (s *sendService) write(ctx context.Context, send countedSend) (written writtenSend, early *Answer, err error) {
	begun, err := s.begin(ctx, send)
	// The limiter must count the send if, and only if, the send has a row. These cases correct the
	// limiter. If the process dies here and no row was written, the limiter still counts the send.
	switch {
	case errors.Is(err, fault.Uncertain), err == nil && begun.Admitted && send.limiterDecision.Local:
		s.Repair.SettleLater(send.id, send.plan.Buckets)
	case err != nil, begun.Lockout.Wait > 0:
		s.Gates.RefundLater(send.limiterID(), buckets.OfCountedScopes(send.plan.Buckets)...)
	}
	ctx = context.WithoutCancel(ctx) // the database has decided: no deadline applies
	switch {
	case err != nil:
		return written, nil, err
	case begun.Lockout.Wait > 0:
		s.lockouts.remember(send.lockoutKey(begun.Lockout.Class), begun.Lockout.Wait, s.Now())
		return written, nil, s.refuseSendByLockout(send.parsedRequest, begun.Lockout.Wait)
	case !begun.Admitted:
		return written, s.refuseByDatabase(ctx, send, begun), nil
	case begun.Repeated: // another request with the key has written the send
		early, err = s.replay(ctx, send.parsedRequest,
			store.IdempotencyClaimAnswer{Send: begun.Send, Verification: begun.Verification, Now: begun.Now})
		return written, early, err
	}
	return writtenSend{send, begun, s.Gates.AnswerAdmitted(ctx, send.plan, send.limiterDecision, send.askedAt, begun)}, nil, nil
}

// Errors of begin: fault.Unavailable if nothing was written, fault.Uncertain.
func (s *sendService) begin(ctx context.Context, send countedSend) (store.BeginAnswer, error) {
	intent, err := s.newIntent(send)
	if err != nil {
		return store.BeginAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout) // the deadline of a send is later
	defer cancel()
	return s.Store.Begin(ctx, intent)
}

// refuseByDatabase answers and records a send that the limiter admitted and the database refused,
// and refunds it in the limiter.
func (s *sendService) refuseByDatabase(ctx context.Context, send countedSend, begun store.BeginAnswer) *Answer {
	refusal := s.Gates.RefundOverruled(ctx, send.plan, send.id, send.limiterDecision, send.askedAt, begun)
	outcome := "refused_by_database"
	switch {
	case s.Gates.OnlyInProcess():
		outcome = "refused"
	case send.limiterDecision.Local:
		outcome = "refused_by_database_alone"
	}
	return s.refuse(ctx, send.parsedRequest, refusal, outcome)
}

func (s *sendService) newIntent(send countedSend) (store.Intent, error) {
	fresh, err := s.newVerification(send, store.NewVerificationID(s.Now()))
	if err != nil {
		return store.Intent{}, err
	}
	row := send.sendRow()
	row.ID, row.VerificationID, row.HumanCheck = send.id, "", send.pass.checker
	if limiterOnly := send.limiterDecision; slices.ContainsFunc(limiterOnly.Rules, func(x quota.State) bool { return x.Observe }) {
		limiterOnly.Rules = slices.DeleteFunc(slices.Clone(limiterOnly.Rules), func(x quota.State) bool {
			return policy.CountedInDatabase(x.Rule)
		})
		row.Observed = limiterOnly.Observed() // Begin adds those of the recipient
	}
	suppressed := send.addressHash // the hash that Vault.SuppressionHash would return
	if send.to.Channel() == recipient.SMS {
		suppressed = send.plan.Recipient
	}
	purpose, life := send.plan.Purpose, send.plan.Purpose.Life(send.to.Channel())
	intent := store.Intent{
		Send: row, Verification: fresh, Join: send.resendOf.ID, Address: suppressed,
		Rules:          send.plan.SendRules,
		RejectionRules: send.plan.FailureRules, Purposes: purpose.PolicyPurposes,
		TTL: cmp.Or(send.TTL, life), MinLife: MinResendLife(life), Lease: s.Lease,
	}
	if send.Code != "" {
		intent.Code, err = s.Vault.SealCallerCode(send.Code, send.TTL > 0, send.id)
	}
	return intent, err
}

// newVerification returns the verification that Begin opens if the send joins no other one. Begin
// copies the fields that a verification and its send share.
func (s *sendService) newVerification(send countedSend, id string) (store.Verification, error) {
	nonce, replaced := make([]byte, 16), send.resendOf.IDsWithReplaced()
	_, _ = rand.Read(nonce) // never fails
	sealed, keyID, err := s.Vault.SealRecipient(send.to, id)
	if err != nil {
		return store.Verification{}, err
	}
	v := store.Verification{
		ID: id, Sealed: sealed, Holder: send.holder, Class: send.plan.Class, Nonce: nonce, KeyID: keyID,
		CodeLength: send.codeLength(), Alphabet: string(send.plan.Purpose.Alphabet), MaxAttempts: MaxAttempts,
		Details: send.Details, Replaces: replaced[:min(len(replaced), store.MaxReplacedIDs)],
	}
	if send.Code != "" { // a caller's code is not derived
		v.CallerChecks, v.Nonce, v.CodeLength, v.Alphabet = true, nil, 0, ""
		if send.Reports {
			v.Reported = store.ReportDue
		}
	}
	return v, nil
}

// LongCodeLength is the least length of a new code for a browser or a stranger while the app's
// bound on failed checks has no free place. A guess is right a hundred times less often than with 6
// digits.
const LongCodeLength = 8

func (c countedSend) codeLength() int {
	length := c.plan.Purpose.CodeLength
	if slices.ContainsFunc(c.limiterDecision.Also, func(x quota.State) bool {
		return x.Scope == policy.FailedChecksScope && x.Used >= x.Limit
	}) {
		return max(LongCodeLength, length)
	}
	return length
}

// A code with less life left than the lesser of minResendLifeCap and life/minResendLifeDivisor is
// not sent again: a resend opens a new verification, because the old code would expire soon after
// the message arrives.
const (
	minResendLifeCap     = 120 * time.Second
	minResendLifeDivisor = 5
)

func MinResendLife(life time.Duration) time.Duration {
	return min(minResendLifeCap, life/minResendLifeDivisor)
}
