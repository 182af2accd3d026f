package verification

import (
	"sync"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
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

type knownLockout struct {
	store.Lockout
	at time.Time
}

// The time is short, so that an administrator's reset soon takes effect on other replicas.
const (
	lockoutRemembered = 5 * time.Second
	maxLockouts       = 10_000
)

func newLockouts() *lockouts { return &lockouts{known: map[lockoutKey]knownLockout{}} }

func (l *lockouts) remember(key lockoutKey, out store.Lockout, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxLockouts {
		for k, known := range l.known {
			if now.Sub(known.at) >= lockoutRemembered {
				delete(l.known, k)
			}
		}
	}
	if len(l.known) < maxLockouts {
		l.known[key] = knownLockout{out, now}
	}
}

// find returns a cached lockout that has not ended, with the wait from now.
func (l *lockouts) find(key lockoutKey, now time.Time) (store.Lockout, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.known[key]
	if !ok {
		return store.Lockout{}, false
	}
	age := max(0, now.Sub(known.at))
	if age >= lockoutRemembered || age >= known.Wait {
		delete(l.known, key)
		return store.Lockout{}, false
	}
	out := known.Lockout
	out.Wait -= age
	return out, true
}

func (l *lockouts) forget(app string, ch recipient.Channel, h recipient.Hash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, byBrowser := range []bool{true, false} {
		delete(l.known, lockoutKey{app, ch, h, byBrowser})
	}
}

func (a asked) lockoutKey(byBrowser bool) lockoutKey {
	return lockoutKey{a.App, a.to.Channel(), a.subject.Recipient, byBrowser}
}

// lockedOut returns the cached lockout by which the send's code could not be checked. If a resend names a verification of another kind of
// caller, it returns none: the log decides then which code is sent.
func (s *Service) lockedOut(a asked) (store.Lockout, bool) {
	mine := a.Kind == Browser
	if a.join != "" && a.joinByBrowser != mine {
		return store.Lockout{}, false
	}
	return s.lockouts.find(a.lockoutKey(mine), s.Now())
}

// refusedByLockout records a send that is refused by a lockout, and returns the *TooManyChecksError.
func (s *Service) refusedByLockout(a asked, out store.Lockout) error {
	row := a.row()
	row.Status, row.BlockedBy, row.RetryAfter, row.Count = store.Refused, ChecksRule, out.Wait, 1
	s.Refusals.Add(row, quota.Recipient)
	s.Observer.Decided(a.to.Channel(), a.App, "refused", ChecksRule)
	return &TooManyChecksError{RetryAfter: out.Wait, Send: true}
}

// ForgetLockouts drops the cached lockouts of a recipient, after a reset.
func (s *Service) ForgetLockouts(app string, ch recipient.Channel, h recipient.Hash) {
	s.lockouts.forget(app, ch, h)
}
