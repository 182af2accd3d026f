package verification

import (
	"encoding/binary"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

var seenAt = time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC)

func keyOf(n int, byBrowser bool) lockoutKey {
	var h recipient.Hash
	binary.BigEndian.PutUint64(h[:], uint64(n))
	return lockoutKey{"shop", recipient.Email, h, byBrowser}
}

// A lockout is known for five seconds, or until it ends, with what is left of its wait.
func TestLockoutsAreKnownForAMoment(t *testing.T) {
	for _, c := range []struct {
		wait, after, left time.Duration
	}{
		{time.Hour, -time.Second, time.Hour}, // the clock was set back
		{time.Hour, 0, time.Hour},
		{time.Hour, time.Second, time.Hour - time.Second},
		{time.Hour, lockoutRemembered - 1, time.Hour - lockoutRemembered + 1},
		{time.Hour, lockoutRemembered, 0},
		{time.Second, time.Second - 1, 1},
		{time.Second, time.Second, 0},
	} {
		l, key := newLockouts(), keyOf(1, true)
		l.remember(key, store.Lockout{Wait: c.wait, Failures: 20}, seenAt)
		out, ok := l.find(key, seenAt.Add(c.after))
		if ok != (c.left > 0) || out.Wait != c.left {
			t.Errorf("%v after %v: %v, %v left", c.wait, c.after, ok, out.Wait)
		}
		if _, ok := l.find(keyOf(1, false), seenAt); ok {
			t.Error("the other kind of caller is locked out")
		}
		if !ok && len(l.known) != 0 {
			t.Error("what ended is kept")
		}
	}
	if lockoutRemembered != 5*time.Second {
		t.Errorf("known for %v: a reset is felt late on other replicas", lockoutRemembered)
	}
}

// A reset forgets both kinds of callers, and no other recipient.
func TestKnownLockoutsAreForgotten(t *testing.T) {
	l := newLockouts()
	for n := range 2 {
		for _, byBrowser := range []bool{true, false} {
			l.remember(keyOf(n, byBrowser), store.Lockout{Wait: time.Hour}, seenAt)
		}
	}
	l.forget("shop", recipient.Email, keyOf(0, true).recipient)
	for n, want := range []bool{false, true} {
		for _, byBrowser := range []bool{true, false} {
			if _, ok := l.find(keyOf(n, byBrowser), seenAt); ok != want {
				t.Errorf("%d, by a browser %v: known %v", n, byBrowser, ok)
			}
		}
	}
}

// There is room for so many, and what is no longer of use makes room.
func TestKnownLockoutsAreBounded(t *testing.T) {
	l := newLockouts()
	for n := range maxLockouts + 1 {
		l.remember(keyOf(n, true), store.Lockout{Wait: time.Hour}, seenAt)
	}
	if n := len(l.known); n != maxLockouts {
		t.Errorf("%d are known", n)
	}
	l.remember(keyOf(maxLockouts, true), store.Lockout{Wait: time.Hour}, seenAt.Add(lockoutRemembered))
	if n := len(l.known); n != 1 {
		t.Errorf("%d are known five seconds later", n)
	}
}
