package verification

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Three bounds limit failed checks. The database counts those of a recipient together with the
// check (rowrules.FailedCheckLimit), separately for each class of callers. The limiter counts those of
// the client's networks: each check before the comparison, with a refund unless the code was wrong.
// The limiter also counts those of the app, in the background. The app's bound refuses no check:
// while it is exceeded, an alarm is logged and new codes of browsers are longer.

// takeNetworkQuota counts a check as failed for the client's networks, before the comparison, and
// sets k.failed, for a refund. It reads the verification and parses the typed code, unless that was done
// before. It counts nothing if the caller has no address, or if the verification is not pending or not
// found. Errors: *fault.InvalidError, ErrCallerCode, *TooManyChecksError, fault.Unavailable.
func (s *Service) takeNetworkQuota(ctx context.Context, k *checkInProgress) (err error) {
	if !k.IP.IsValid() {
		return nil
	}
	if k.code == "" {
		if k.row, k.read, err = s.Store.VerificationRow(ctx, k.id); err == nil {
			k.code, err = s.typedCode(*k, k.row)
		}
	}
	v := k.row
	if errors.Is(err, fault.NotFound) {
		v = store.Verification{Channel: recipient.Email}
	}
	checks := s.Policy.Get().Checks
	r := quota.Request{
		Rules:   []quota.Rule{checks.Network, checks.WideNetwork},
		Buckets: bucketnames.NetworkFailedChecks(k.App, k.IP, v.Channel),
	}
	switch {
	case errors.Is(err, fault.NotFound): // the limiter is asked as often as for a known verification
		_, _ = s.Gates.PeekOrLocal(ctx, r)
		return nil
	case err != nil || StateOf(v, cmp.Or(k.read, s.Now())) != Pending:
		return err
	}
	d, err := s.takeWithNewID(ctx, &r)
	if err == nil && !d.Admitted {
		blocking, _ := d.Blocking()
		s.countRefusedCheck(v.Channel, k.App, blocking.Name)
		return tooManyChecksError(k.Caller, blocking.Rule, blocking.RetryAfter, d.At)
	}
	k.failed = r
	return err
}

// takeWithNewID counts an event under a new ID, which it sets in the request. The decision may be
// made in this process; see gates.Gates.TakeOrLocal.
func (s *Service) takeWithNewID(ctx context.Context, r *quota.Request) (quota.Decision, error) {
	id, err := s.newID()
	if err != nil {
		return quota.Decision{}, err
	}
	r.ID = string(id[:])
	return s.Gates.TakeOrLocal(ctx, *r)
}

// wrongCodeRequest returns the request that counts a wrong code for an app, without an ID.
func (s *Service) wrongCodeRequest(app string, ch recipient.Channel) quota.Request {
	return quota.Request{
		Buckets: map[quota.Scope]string{quota.App: bucketnames.AppFailedChecks(app, ch)},
		Rules:   []quota.Rule{s.Policy.Get().Checks.App},
	}
}

// wrongCodes are the wrong codes that are not in the apps' rules on failed checks yet.
type wrongCodes struct {
	mu     sync.Mutex
	counts map[wrongCodesOf]int
}

type wrongCodesOf struct {
	app     string
	channel recipient.Channel
}

// countWrongCode counts a wrong code for CountWrongCodes.
func (s *Service) countWrongCode(app string, ch recipient.Channel) {
	s.wrong.mu.Lock()
	defer s.wrong.mu.Unlock()
	if s.wrong.counts == nil {
		s.wrong.counts = map[wrongCodesOf]int{}
	}
	s.wrong.counts[wrongCodesOf{app, ch}]++
}

// CountWrongCodes counts the wrong codes since its last run in the apps' rules on failed checks. No check
// waits for that, since these rules refuse none. What exceeds a rule, the metrics count and the log reports
// (alarm.go); the limiter is not asked for the rest of a run. Package jobs calls it; a process that dies
// loses what was not counted.
func (s *Service) CountWrongCodes(ctx context.Context) {
	s.wrong.mu.Lock()
	counts := s.wrong.counts
	s.wrong.counts = nil
	s.wrong.mu.Unlock()
	for of, left := range counts {
		r := s.wrongCodeRequest(of.app, of.channel)
		d, err := quota.Decision{Admitted: true}, error(nil)
		for ; left > 0 && d.Admitted && err == nil; left-- {
			d, err = s.takeWithNewID(ctx, &r)
		}
		if err != nil {
			s.Logger.Error("could not count wrong codes for app", "error", err, "count", left+1, logs.SeeRedis)
		} else if !d.Admitted {
			for range left + 1 {
				s.countCheckOverBound(of.channel, of.app)
			}
		}
	}
}

// refuseCheckByLockout returns the *TooManyChecksError for a check that the database refused because of a
// lockout. It caches and records the lockout.
func (s *Service) refuseCheckByLockout(c Caller, checked store.CheckAnswer) error {
	v, wait := checked.Verification, checked.Lockout.Wait
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.Class}, wait, s.Now())
	refused := store.Send{
		App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale,
		VerificationID: v.ID,
		Status:         store.Refused,
	}
	s.Refusals.Add(store.SendOrRefusal{Send: refused, Refusal: store.Refusal{BlockedBy: LockoutRuleName, RetryAfter: wait, Count: 1}},
		quota.Recipient)
	return tooManyChecksError(c, lockoutRule, wait, s.Now())
}
