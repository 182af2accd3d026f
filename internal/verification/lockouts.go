package verification

import (
	"context"
	"maps"
	"sync"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// ChecksRule is the rule's name in records of refusals by a lockout: too many wrong codes were
// entered for the recipient, for codes that the same class of callers requested.
const ChecksRule = "checks"

var lockoutRule = quota.Rule{Name: ChecksRule, Scope: quota.Recipient, Limit: gate.FailureLimit,
	Window: gate.FailureWindow}

// lockoutKey identifies a lockout: of a recipient, for codes that one class of callers requested.
type lockoutKey struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
	class     store.Class
}

// lockouts caches lockouts that the database reported, until they end. So repeated requests during
// a lockout are refused before the limiter counts them: else each would use the recipient's quota,
// which other callers need, until the database refuses it. One that was reported some seconds ago
// is read again before it refuses.
type lockouts struct {
	mu    sync.Mutex
	known map[lockoutKey]knownLockout
}

type knownLockout struct{ ends, reported time.Time }

// The time is short, so that an administrator's reset soon takes effect on other replicas.
const (
	lockoutRemembered = 5 * time.Second
	maxLockouts       = 10_000
)

func (l *lockouts) remember(key lockoutKey, wait time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxLockouts {
		maps.DeleteFunc(l.known, func(
			_ lockoutKey, k knownLockout) bool {
			return now.Sub(k.reported) >= lockoutRemembered
		})
	}
	if l.known == nil {
		l.known = map[lockoutKey]knownLockout{}
	}
	if len(l.known) < maxLockouts {
		l.known[key] = knownLockout{now.Add(wait), now}
	}
}

// find returns the remaining wait of a cached lockout; 0 if none is known, or if it has ended. old
// says that it was reported too long ago, and that the caller reads it again; others believe it
// meanwhile.
func (l *lockouts) find(key lockoutKey, now time.Time) (left time.Duration, old bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[key]
	if !now.Before(k.ends) {
		delete(l.known, key)
		return 0, false
	}
	if old = now.Sub(k.reported) >= lockoutRemembered; old {
		l.known[key] = knownLockout{k.ends, now}
	}
	return k.ends.Sub(now), old
}

func (l *lockouts) forget(key lockoutKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key)
}

func (a parsedAsk) lockoutKey(class store.Class) lockoutKey {
	return lockoutKey{a.App, a.to.Channel(), a.subject.Recipient, class}
}

// cachedLockout returns the wait of a cached lockout that applies to the code to send; 0 if there
// is none. It also returns 0 for a caller's code, which is not checked here, and if a resend names
// a verification of another class: only the database knows whether that code or a new one will be
// sent. Errors: those of the database, where the lockout has to be read again.
func (s *Service) cachedLockout(ctx context.Context, a parsedAsk) (time.Duration, error) {
	if a.Code != "" || a.joins.id != "" && a.joins.class != a.subject.Class {
		return 0, nil
	}
	key := a.lockoutKey(a.subject.Class)
	left, old := s.lockouts.find(key, s.Now())
	if !old {
		return left, nil
	}
	out, err := s.Store.Lockout(ctx, store.Verification{App: key.app, Channel: key.channel, Recipient: key.recipient,
		Class: key.class})
	if err != nil {
		return 0, err
	}
	if out.Wait <= 0 {
		s.lockouts.forget(key)
	} else {
		s.lockouts.remember(key, out.Wait, s.Now())
	}
	return out.Wait, nil
}

// refusedByLockout records a send that is refused by a lockout, and returns the
// *TooManyChecksError.
func (s *Service) refusedByLockout(a parsedAsk, wait time.Duration) error {
	s.recordRefusal(a, "refused", ChecksRule, quota.Recipient, wait)
	refused := tooManyChecks(a.Caller, lockoutRule, wait, s.Now())
	refused.Send = true
	return refused
}

// ForgetLockouts drops the cached lockouts of a recipient, after a reset.
func (s *Service) ForgetLockouts(app string, ch recipient.Channel, h recipient.Hash) {
	for _, class := range store.Classes {
		s.lockouts.forget(lockoutKey{app, ch, h, class})
	}
}
