package verification

import (
	"maps"
	"sync"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// ChecksRule is the name under which a refusal is recorded if the recipient is locked out: too many wrong codes were entered for it, for
// codes that the same kind of caller requested.
const ChecksRule = "checks"

// lockoutKey identifies a lockout: of a recipient, for codes that one kind of caller requested.
type lockoutKey struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
	byBrowser bool
}

// lockouts caches lockouts that the log reported, for a few seconds. So repeated requests during a lockout are refused before the limiter
// counts them: else each would use the recipient's quota, which other callers need, until the log refuses it.
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
		maps.DeleteFunc(l.known, func(_ lockoutKey, k knownLockout) bool { return now.Sub(k.reported) >= lockoutRemembered })
	}
	if l.known == nil {
		l.known = map[lockoutKey]knownLockout{}
	}
	if len(l.known) < maxLockouts {
		l.known[key] = knownLockout{now.Add(wait), now}
	}
}

// find returns the remaining wait of a cached lockout; 0 if none is known, or if it has ended.
func (l *lockouts) find(key lockoutKey, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[key]
	if now.Sub(k.reported) >= lockoutRemembered || !now.Before(k.ends) {
		delete(l.known, key)
		return 0
	}
	return k.ends.Sub(now)
}

func (a asked) lockoutKey(byBrowser bool) lockoutKey {
	return lockoutKey{a.App, a.to.Channel(), a.subject.Recipient, byBrowser}
}

// cachedLockout returns the wait of the cached lockout by which the send's code could not be checked; 0 if there is none. If a resend names a
// verification of another kind of caller, it returns 0: the log decides then which code is sent.
func (s *Service) cachedLockout(a asked) time.Duration {
	mine := a.Kind == Browser
	if a.join != "" && a.joinByBrowser != mine {
		return 0
	}
	return s.lockouts.find(a.lockoutKey(mine), s.Now())
}

// refusedByLockout records a send that is refused by a lockout, and returns the *TooManyChecksError.
func (s *Service) refusedByLockout(a asked, wait time.Duration) error {
	s.recordRefusal(a, "refused", ChecksRule, quota.Recipient, wait)
	return &TooManyChecksError{RetryAfter: wait, Send: true}
}

// ForgetLockouts drops the cached lockouts of a recipient, after a reset.
func (s *Service) ForgetLockouts(app string, ch recipient.Channel, h recipient.Hash) {
	s.lockouts.mu.Lock()
	defer s.lockouts.mu.Unlock()
	for _, byBrowser := range []bool{true, false} {
		delete(s.lockouts.known, lockoutKey{app, ch, h, byBrowser})
	}
}
