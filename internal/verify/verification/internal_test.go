package verification

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
)

var seenAt = time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC)

func lockoutNumber(n int, class store.Class) lockoutKey {
	var h recipient.Hash
	binary.BigEndian.PutUint64(h[:], uint64(n))
	return lockoutKey{"shop", recipient.Email, h, class}
}

// A lockout is remembered until it ends, and each refusal has the remaining wait. After five
// seconds one request reads the lockout again.
func TestLockoutsAreRememberedForAMoment(t *testing.T) {
	for _, c := range []struct {
		wait, after, left time.Duration
		old               bool
	}{
		{time.Hour, 0, time.Hour, false},
		{time.Hour, time.Second, time.Hour - time.Second, false},
		{time.Hour, lockoutFreshFor - 1, time.Hour - lockoutFreshFor + 1, false},
		{time.Hour, lockoutFreshFor, time.Hour - lockoutFreshFor, true},
		{time.Second, time.Second - 1, 1, false},
		{time.Second, time.Second, 0, false},
	} {
		var l lockouts
		key := lockoutNumber(1, store.StrangerClass)
		l.remember(key, c.wait, seenAt)
		if left, old := l.find(key, seenAt.Add(c.after)); left != c.left || old != c.old || left == 0 && len(l.known) != 0 {
			t.Errorf("%v after %v: %v left, old %v, %d known", c.wait, c.after, left, old, len(l.known))
		}
		if left, old := l.find(key, seenAt.Add(c.after)); left != c.left || old {
			t.Errorf("%v after %v, asked again: %v left, old %v", c.wait, c.after, left, old)
		}
		other, _ := l.find(lockoutNumber(1, store.SecretKeyClass), seenAt)
		servertest.Same(t, "another class is locked out for", other, 0)
	}
	servertest.Same(t, "known at most, so that a reset is soon felt on other replicas", lockoutFreshFor, 5*time.Second)
}

// A remembered lockout of the caller's class refuses a resend only if the verification that the
// resend names has the same class. It never refuses a caller's own code.
func TestALockoutIsOfTheVerificationsClass(t *testing.T) {
	s := sendService{readService: &readService{}, lockouts: &lockouts{}}
	s.Now = func() time.Time { return seenAt }
	to, err := recipient.Parse(recipient.Email, "ana@example.com")
	servertest.OK(t, err)
	r := &parsedRequest{
		Request: Request{Caller: Caller{App: "shop"}}, to: to, plan: buckets.Plan{Subject: buckets.Subject{Class: store.SecretKeyClass}},
		resendOf: storedVerification{Verification: store.Verification{Class: store.StrangerClass}},
	}
	s.lockouts.remember(r.lockoutKey(store.SecretKeyClass), time.Hour, seenAt)
	cached := func() time.Duration {
		left, err := s.knownLockout(t.Context(), r)
		servertest.Same(t, "error", err, nil)
		return left
	}
	servertest.Same(t, "a new code", cached(), time.Hour)
	r.resendOf.ID = "v1"
	servertest.Same(t, "a resend of another class", cached(), 0)
	r.resendOf.Class = store.SecretKeyClass
	servertest.Same(t, "a resend of the same class", cached(), time.Hour)
	r.Code = "123456"
	servertest.Same(t, "a caller's code, which is not checked here", cached(), 0)
}

// At most maxCachedLockouts lockouts are remembered. At that number, entries that would have to be
// read again make way for a new one.
func TestKnownLockoutsAreBounded(t *testing.T) {
	var l lockouts
	for n := range maxCachedLockouts + 1 {
		l.remember(lockoutNumber(n, store.StrangerClass), time.Hour, seenAt)
	}
	servertest.Same(t, "known", len(l.known), maxCachedLockouts)
	l.remember(lockoutNumber(maxCachedLockouts, store.StrangerClass), time.Hour, seenAt.Add(lockoutFreshFor))
	servertest.Same(t, "known five seconds later", len(l.known), 1)
}

func TestIsRandomHex(t *testing.T) {
	for key, want := range map[string]bool{
		"5f0c9a4be1d24786a35e70c81b9f2d63":         true,
		"5F0C9A4BE1D24786A35E70C81B9F2D63":         true,
		strings.Repeat("5f0c9a4be1d24786", 4):      true,  // like the page's keys
		"5f0c9a4be1d24786a35e70c81b9f2d6":          false, // 124 bits
		"8e03978e-40d5-43dd-bc93-6894a57f9324":     false, // a UUID has 122
		"00000000000000000000000000000001":         false,
		"20261121042359123456789012345678":         false,
		"deadbeefdeadbeefdeadbeefdeadbeef":         false,
		"order-4711-of-ana@example.com-2026-11-21": false,
		"XIdvK0tR3mQzJ8nYc2bWfA":                   false, // base64url
		"":                                         false,
	} {
		servertest.Same(t, key, isRandomHex(key), want)
	}
}

// A reset forgets the lockouts of its recipient for every class, and those of no other recipient.
func TestKnownLockoutsAreForgotten(t *testing.T) {
	s := sendService{lockouts: &lockouts{}}
	for n := range 2 {
		for _, class := range store.Classes {
			s.lockouts.remember(lockoutNumber(n, class), time.Hour, seenAt)
		}
	}
	s.DropCachedLockouts("shop", recipient.Email, lockoutNumber(0, store.StrangerClass).recipient)
	for _, class := range store.Classes {
		reset, _ := s.lockouts.find(lockoutNumber(0, class), seenAt)
		other, _ := s.lockouts.find(lockoutNumber(1, class), seenAt)
		servertest.Same(t, "after the reset", reset, 0)
		servertest.Same(t, "of another", other, time.Hour)
	}
}

// A request that has waited for a key, or was not allowed to wait, leaves no place taken. Strangers
// may use half of the places.
func TestKeyTurnsLeaveNoPlaceTaken(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	over := make(chan struct{})
	close(over)
	var k keyTurns
	for what, c := range map[string]struct {
		client, deciding context.Context
		over             chan struct{}
		want             bool
	}{
		"the turn is over":    {t.Context(), t.Context(), over, true},
		"the client hangs up": {gone, t.Context(), nil, false},
		"the time is over":    {t.Context(), gone, nil, false},
	} {
		for _, stranger := range []bool{false, true} {
			servertest.Same(t, what, k.wait(c.client, c.deciding, c.over, stranger), c.want)
			servertest.Same(t, what+": waiting", k.waiting+k.strangers, 0)
		}
	}
	for what, c := range map[string]struct {
		waiting, strangers int
		stranger, want     bool
	}{
		"the last that may wait":              {maxWaiting - 1, 0, false, true},
		"one more than may wait":              {maxWaiting, 0, false, false},
		"the last stranger that may wait":     {maxWaiting - 1, maxWaiting/2 - 1, true, true},
		"one stranger more than may wait":     {maxWaiting / 2, maxWaiting / 2, true, false},
		"a stranger when no more may wait":    {maxWaiting, 0, true, false},
		"another caller beside all strangers": {maxWaiting - 1, maxWaiting / 2, false, true},
	} {
		k = keyTurns{waiting: c.waiting, strangers: c.strangers}
		servertest.Same(t, what, k.wait(t.Context(), t.Context(), over, c.stranger), c.want)
		servertest.Same(t, what+": waiting", [2]int{k.waiting, k.strangers}, [2]int{c.waiting, c.strangers})
	}
}
