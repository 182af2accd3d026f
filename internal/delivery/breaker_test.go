package delivery_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/servertest"
)

// try makes one attempt, if it is let in.
func try(b *delivery.Breaker, verdict error) bool {
	report, ok := b.Allow()
	if ok {
		report(verdict)
	}
	return ok
}

var errBroken = errors.New("broken")

func TestFaultsInRowSetAPartAsideForAWhile(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		b, heard := delivery.NewBreaker("a", false), []bool(nil)
		b.Watch(func(h delivery.Health) { heard = append(heard, h.Up) })
		for _, verdict := range []error{errBroken, errBroken, nil, errBroken, delivery.ErrNoVerdict, errBroken} {
			try(b, verdict)
		}
		if !b.Health().Up {
			t.Fatal("set aside though never three faults came in a row")
		}
		_, changed := b.State()
		try(b, errBroken)
		if h := b.Health(); h.Up || h.Why != "broken" || h.Server != "a" || h.Since.IsZero() || try(b, nil) {
			t.Errorf("%+v", h)
		}
		<-changed
		time.Sleep(delivery.RestFor + time.Millisecond)
		if !try(b, nil) || !b.Health().Up || b.Health().Why != "" || !slices.Equal(heard, []bool{false, true}) {
			t.Errorf("%+v, %v", b.Health(), heard)
		}
	})
}

func TestHalfOfTheAttempts(t *testing.T) {
	for byRate, up := range map[bool]bool{false: true, true: false} {
		b := delivery.NewBreaker("a", byRate)
		for n := range delivery.RateFrom {
			try(b, []error{nil, errBroken}[n%2])
		}
		if b.Health().Up != up {
			t.Errorf("by rate %v: up %v", byRate, b.Health().Up)
		}
	}
}
