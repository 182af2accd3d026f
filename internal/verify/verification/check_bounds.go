package verification

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Failed checks have three bounds, of which the first two refuse checks:
//
//   - On a recipient (rowrules.FailedCheckLimit). The database counts failed checks in the
//     transaction of the check, separately for each class of the callers who requested the codes.
//   - On the client's networks. The limiter counts each check before the codes are compared, and
//     the check is refunded unless the code was wrong.
//   - On the app. The limiter counts wrong codes in the background. While an app exceeds this
//     bound, an alarm is logged, and new codes for browsers and strangers are longer.

// takeNetworkQuota counts a check as failed for the client's networks, before the codes are
// compared. The caller refunds failure if the code was not wrong. failure has no ID if nothing was
// counted: the client's address is unknown, or the verification is unknown or not pending. If v is
// empty and the client's address is known, takeNetworkQuota first reads the verification and calls
// judge, so that a text that can't be a code isn't counted. Errors: *fault.InvalidError,
// ErrCallerCode, *FailedCheckLimitError, fault.Unavailable.
func (s *checkService) takeNetworkQuota(ctx context.Context, c Caller, id string, v storedVerification, judge judge) (
	_ storedVerification, failure quota.Request, err error,
) {
	if !c.IP.IsValid() {
		return v, failure, nil
	}
	if v.ID == "" {
		if v, err = s.lookup(ctx, c, id); err == nil {
			_, err = judge(v.Verification, false)
		}
	}
	switch {
	case errors.Is(err, fault.NotFound): // the limiter is called as often as for a known verification
		_, _ = s.Gates.PeekOrLocal(ctx, s.networkFailure(c, recipient.Email))
		return v, failure, nil
	case err != nil || StateOf(v.Verification, cmp.Or(v.readAt, s.Now())) != Pending:
		return v, failure, err
	}
	failure, d, err := s.takeWithNewID(ctx, s.networkFailure(c, v.Channel))
	if err == nil && !d.Admitted {
		blocking, _ := d.Blocking()
		s.alarms.countRefusedCheck(v.Channel, c.App, blocking.Name)
		err = newFailedCheckLimitError(c, blocking.Rule, blocking.RetryAfter, d.At)
	}
	return v, failure, err
}

// networkFailure returns the event of a failed check in the buckets of the client's networks.
// takeWithNewID gives the event an ID.
func (s *checkService) networkFailure(c Caller, ch recipient.Channel) quota.Request {
	checks := s.Policy.Get().Checks
	return quota.Request{
		Rules:   []quota.Rule{checks.Network, checks.WideNetwork},
		Buckets: buckets.NetworkFailedChecks(c.App, c.IP, ch),
	}
}

// takeWithNewID counts an event under a new ID. If the limiter is unavailable, this process
// decides; see gates.Gates.TakeOrLocal.
func (s *checkService) takeWithNewID(ctx context.Context, event quota.Request) (quota.Request, quota.Decision, error) {
	id, err := s.newID()
	if err != nil {
		return event, quota.Decision{}, err
	}
	event.ID = string(id[:])
	d, err := s.Gates.TakeOrLocal(ctx, event)
	return event, d, err
}

// appFailure returns the event of a wrong code in the bucket of its app. takeWithNewID gives the
// event an ID.
func (s *checkService) appFailure(app string, ch recipient.Channel) quota.Request {
	return quota.Request{
		Buckets: map[quota.Scope]string{quota.App: buckets.AppFailedChecks(app, ch)},
		Rules:   []quota.Rule{s.Policy.Get().Checks.App},
	}
}

// wrongCodes has the wrong codes that CountWrongCodes has not yet counted.
type wrongCodes struct {
	mu     sync.Mutex
	counts map[wrongCodesOf]int
}

type wrongCodesOf struct {
	app     string
	channel recipient.Channel
}

func (s *checkService) countWrongCode(app string, ch recipient.Channel) {
	s.wrong.mu.Lock()
	defer s.wrong.mu.Unlock()
	if s.wrong.counts == nil {
		s.wrong.counts = map[wrongCodesOf]int{}
	}
	s.wrong.counts[wrongCodesOf{app, ch}]++
}

// CountWrongCodes lets the limiter count the wrong codes since the last run. It runs in the
// background, because the apps' rules on failed checks refuse no check. Once an app exceeds its
// rule, the rest of its wrong codes on that channel are counted in the metrics and the log
// (alarm.go), not by the limiter. Package jobs calls it. If the process dies, uncounted codes are
// lost.
func (s *checkService) CountWrongCodes(ctx context.Context) {
	s.wrong.mu.Lock()
	counts := s.wrong.counts
	s.wrong.counts = nil
	s.wrong.mu.Unlock()
	for of, left := range counts {
		d, err := quota.Decision{Admitted: true}, error(nil)
		for ; left > 0 && d.Admitted && err == nil; left-- {
			_, d, err = s.takeWithNewID(ctx, s.appFailure(of.app, of.channel))
		}
		if err != nil {
			s.Logger.Error("could not count wrong codes for app", "error", err, "count", left+1, logs.SeeRedis)
		} else if !d.Admitted {
			for range left + 1 {
				s.alarms.countCheckOverBound(of.channel, of.app)
			}
		}
	}
}

// refuseCheckByLockout caches a lockout by which the database refused a check, records the refusal,
// and returns the *FailedCheckLimitError.
func (s *checkService) refuseCheckByLockout(c Caller, checked store.CheckAnswer) error {
	v, wait := checked.Verification, checked.Lockout.Wait
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.Class}, wait, s.Now())
	refused := store.Send{
		App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale,
		VerificationID: v.ID,
		Status:         store.Refused,
	}
	s.Refusals.Add(store.SendOrRefusal{Send: refused, Refusal: store.Refusal{BlockedBy: policy.LockoutName, RetryAfter: wait, Count: 1}},
		quota.Recipient)
	return newFailedCheckLimitError(c, policy.LockoutRule, wait, s.Now())
}
