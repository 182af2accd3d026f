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

// lockoutKey identifies a lockout. class is the class of the callers who requested the codes.
type lockoutKey struct {
	app       string
	channel   recipient.Channel
	recipient recipient.Hash
	class     store.Class
}

// lockouts caches the lockouts that the database reported, until they end or, beyond
// maxCachedLockouts, make way for others. Without the cache, the limiter would count each request
// during a lockout until the database refuses it. Meanwhile the request would take a place in the
// recipient's quota from other callers.
type lockouts struct {
	mu    sync.Mutex
	known map[lockoutKey]lockoutEntry
}

type lockoutEntry struct{ ends, reported time.Time }

// A reported lockout refuses requests for lockoutFreshFor without another read. That is short, so
// that an administrator's reset soon takes effect on other replicas.
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

// find returns how long a cached lockout still lasts, or 0. If old is true, the caller must read
// the lockout again. Meanwhile, other requests use the cached one.
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

// knownLockout returns how long the cached lockout of the requested code lasts, or 0. A caller's
// code has none, because the service doesn't check it. It also returns 0 if a resend names a
// verification of another class: then only the database knows whether the old code or a new one
// will be sent. Errors: those of Store.Lockout, which reads an old lockout again.
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

// refuseSendByLockout records the refusal and returns the *FailedCheckLimitError.
func (s *sendService) refuseSendByLockout(r *parsedRequest, wait time.Duration) error {
	s.recordRefusal(r, "refused", policy.LockoutName, quota.Recipient, wait)
	refused := newFailedCheckLimitError(r.Caller, policy.LockoutRule, wait, s.Now())
	refused.Send = true
	return refused
}

// DropCachedLockouts is called after a reset.
func (s *sendService) DropCachedLockouts(app string, ch recipient.Channel, h recipient.Hash) {
	for _, class := range store.Classes {
		s.lockouts.forget(lockoutKey{app, ch, h, class})
	}
}
