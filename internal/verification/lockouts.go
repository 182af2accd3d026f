package verification

import (
	"sync"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// ChecksRule is what a refused send is blocked by while its code could not be checked: too many wrong codes were entered for
// its recipient, at codes that the same kind of caller asked for.
const ChecksRule = "checks"

// lockoutKey is whose codes are locked out: those that callers of one kind asked for.
type lockoutKey struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
	byBrowser bool
}

// lockouts remembers for a moment what the log refused. A locked out caller that asks again and again is then refused before it
// holds, for as long as the log takes to answer, a place of the recipient's quota that other callers need.
type lockouts struct {
	mu    sync.Mutex
	known map[lockoutKey]knownLockout
}

type knownLockout struct {
	store.Lockout
	at time.Time
}

// A lockout is remembered for so short a time that an administrator's reset is felt at once on other replicas too.
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

// holds is the lockout that is remembered and has not ended, with its wait from now on.
func (l *lockouts) holds(key lockoutKey, now time.Time) (store.Lockout, bool) {
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

// lockedOut says whether it is known that the code of a send could not be checked. The code is the caller's own kind's; of a
// verification that is named the log alone says whether it can be joined, where another kind opened it.
func (s *Service) lockedOut(a asked) (store.Lockout, bool) {
	mine := a.Kind == Browser
	if a.join != "" && a.joinByBrowser != mine {
		return store.Lockout{}, false
	}
	return s.lockouts.holds(a.lockoutKey(mine), s.Now())
}

// refusedByChecks records a send that is refused as its code could not be checked.
func (s *Service) refusedByChecks(a asked, out store.Lockout) error {
	row := a.row()
	row.Status, row.BlockedBy, row.RetryAfter, row.Count = store.Refused, ChecksRule, out.Wait, 1
	s.Refusals.Add(row, quota.Recipient)
	s.Observer.Decided(a.to.Channel(), a.App, "refused", ChecksRule)
	return &TooManyChecksError{RetryAfter: out.Wait, Send: true}
}

// ForgetLockouts drops what is remembered of a recipient, after a reset.
func (s *Service) ForgetLockouts(app string, ch recipient.Channel, h recipient.Hash) {
	s.lockouts.forget(app, ch, h)
}
