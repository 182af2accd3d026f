package verification

import (
	"context"
	"errors"

	"sendcode/internal/buckets"
	"sendcode/internal/fault"
	"sendcode/internal/recipient"
	"sendcode/internal/runbook"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Failed checks have three bounds. Of the recipient: in the database, together with the check
// (gate.FailureLimit), separately for each class of callers. Of the client's networks: in the
// limiter, before the comparison, and refunded unless the code was wrong. Of the app: in the
// limiter, after a wrong code. It refuses no check, but while it is exceeded, an alarm is logged
// and new codes of browsers are longer.

// takeNetworks counts a check as failed for the client's networks, before the comparison, and sets
// k.failed, for a refund. It counts nothing for a caller without an address, and for a check that
// will not be counted. Errors: those of read, *TooManyChecksError, fault.Unavailable.
func (s *Service) takeNetworks(ctx context.Context, k *checking) error {
	if !k.IP.IsValid() {
		return nil
	}
	v, _, now, err := s.Store.Verification(ctx, k.id)
	if err == nil {
		err = s.readTyped(k, v)
	}
	if errors.Is(err, fault.NotFound) {
		v = store.Verification{Channel: recipient.Email}
	}
	checks := s.Policy.Get().Checks
	r := quota.Request{Rules: []quota.Rule{checks.Network, checks.WideNetwork},
		Buckets: buckets.Checks(k.App, k.IP, v.Channel)}
	switch {
	case errors.Is(err, fault.NotFound): // asks as for a known one, and counts nothing
		_, _, _ = s.Gates.PeekOrLocal(ctx, r)
		return nil
	case err != nil || StateOf(v, now) != Pending:
		return err
	}
	d, err := s.takeWithNewID(ctx, &r)
	if err == nil && !d.Admitted {
		worst, _ := d.Blocking()
		s.countRefusedCheck(v.Channel, k.App, worst.Name)
		return tooManyChecks(k.Caller, worst.Rule, worst.RetryAfter, d.At)
	}
	k.failed = r
	return err
}

// takeWithNewID counts an event under a new ID, which it sets in the request. It may decide in this
// process; see gates.Gates.TakeOrLocal.
func (s *Service) takeWithNewID(ctx context.Context, r *quota.Request) (quota.Decision, error) {
	id, err := s.newID()
	if err != nil {
		return quota.Decision{}, err
	}
	r.ID = string(id[:])
	d, _, err := s.Gates.TakeOrLocal(ctx, *r)
	return d, err
}

// wrongCode returns the request that counts a wrong code for an app, without an ID.
func (s *Service) wrongCode(app string, ch recipient.Channel) quota.Request {
	return quota.Request{Buckets: map[quota.Scope]string{quota.App: buckets.AppChecks(app, ch)},
		Rules: []quota.Rule{s.Policy.Get().Checks.App}}
}

// countWrongCode counts a wrong code for its app, and an alarm if that has too many.
func (s *Service) countWrongCode(ctx context.Context, app string, ch recipient.Channel) {
	r := s.wrongCode(app, ch)
	switch d, err := s.takeWithNewID(ctx, &r); {
	case err != nil: // the check is counted in the database, and its result is known
		s.Logger.Error("could not count wrong code for app", "error", err, runbook.Redis.See())
	case !d.Admitted:
		s.countCheckOverBound(ch, app)
	}
}

// lockoutError returns the *TooManyChecksError for a check that the database refused because of a
// lockout. It caches and records the lockout.
func (s *Service) lockoutError(c Caller, checked store.CheckAnswer) error {
	v, wait := checked.Verification, checked.Lockout.Wait
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.Class}, wait, s.Now())
	refused := store.Send{
		App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale,
		VerificationID: v.ID,
		Status:         store.Refused,
	}
	s.Refusals.Add(store.SendOrRefusal{Send: refused, Refusal: store.Refusal{BlockedBy: ChecksRule, RetryAfter: wait, Count: 1}},
		quota.Recipient)
	return tooManyChecks(c, lockoutRule, wait, s.Now())
}
