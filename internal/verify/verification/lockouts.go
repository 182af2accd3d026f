package verification

import (
	"context"
	"maps"
	"sync"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// lockoutKey identifies a lockout by its recipient and the class of callers that requested the
// codes.
type lockoutKey struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
	class     store.Class
}

// lockouts caches each lockout that the database reported, until the lockout ends. Without the
// cache, the limiter would count each request during a lockout until the database refuses the
// request. Meanwhile the request would take a place in the recipient's quota from other callers. A
// lockout that was reported at least lockoutFreshFor ago is read again before it refuses a request.
type lockouts struct {
	mu    sync.Mutex
	known map[lockoutKey]lockoutEntry
}

type lockoutEntry struct{ ends, reported time.Time }

// Bounds of the cache. lockoutFreshFor is how long a reported lockout refuses without another read.
// It is short, so that an administrator's reset soon takes effect on other replicas.
// maxCachedLockouts is the greatest number of cached lockouts.
const (
	lockoutFreshFor   = 5 * time.Second
	maxCachedLockouts = 10_000
)

func (l *lockouts) remember(key lockoutKey, wait time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxCachedLockouts {
		maps.DeleteFunc(l.known, func(
			_ lockoutKey, k lockoutEntry,
		) bool {
			return now.Sub(k.reported) >= lockoutFreshFor
		})
	}
	if l.known == nil {
		l.known = map[lockoutKey]lockoutEntry{}
	}
	if len(l.known) < maxCachedLockouts {
		l.known[key] = lockoutEntry{now.Add(wait), now}
	}
}

// find returns the remaining wait of a cached lockout, or 0 if the cache has no current lockout.
// The result old is true if the lockout was reported at least lockoutFreshFor ago. Then the caller
// must read the lockout again. Meanwhile, other requests use the cached lockout.
func (l *lockouts) find(key lockoutKey, now time.Time) (left time.Duration, old bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[key]
	if !now.Before(k.ends) {
		delete(l.known, key)
		return 0, false
	}
	old = now.Sub(k.reported) >= lockoutFreshFor
	if old {
		l.known[key] = lockoutEntry{k.ends, now}
	}
	return k.ends.Sub(now), old
}

func (l *lockouts) forget(key lockoutKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key)
}

func (p *parsedRequest) lockoutKey(class store.Class) lockoutKey {
	return lockoutKey{p.App, p.to.Channel(), p.plan.Recipient, class}
}

// knownLockout returns the wait of the cached lockout that applies to the requested code, or 0 if
// there is no such lockout. It returns 0 for a caller's code, because the service does not check a
// caller's code. It also returns 0 if a resend names a verification of another class. In this case
// only the database knows whether the old code or a new code will be sent. Errors: those of
// Store.Lockout, which knownLockout calls to read an old lockout again.
func (s *sendService) knownLockout(ctx context.Context, r *parsedRequest) (time.Duration, error) {
	if r.Code != "" || r.resendOf.ID != "" && r.resendOf.Class != r.plan.Class {
		return 0, nil
	}
	key := r.lockoutKey(r.plan.Class)
	left, old := s.lockouts.find(key, s.Now())
	if !old {
		return left, nil
	}
	out, err := s.Store.Lockout(ctx, store.Verification{
		App: key.app, Channel: key.channel, Recipient: key.recipient,
		Class: key.class,
	})
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

// refuseSendByLockout records a send that is refused by a lockout, and returns the
// *FailedCheckLimitError.
func (s *sendService) refuseSendByLockout(r *parsedRequest, wait time.Duration) error {
	s.recordRefusal(r, "refused", policy.LockoutName, quota.Recipient, wait)
	refused := newFailedCheckLimitError(r.Caller, policy.LockoutRule, wait, s.Now())
	refused.Send = true
	return refused
}

// DropCachedLockouts drops the cached lockouts of a recipient, after a reset.
func (s *sendService) DropCachedLockouts(app string, ch recipient.Channel, h recipient.Hash) {
	for _, class := range store.Classes {
		s.lockouts.forget(lockoutKey{app, ch, h, class})
	}
}
