package delivery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
)

// try makes one attempt if the breaker admits it.
func try(b *delivery.Breaker, result error) bool {
	report, ok := b.Allow()
	if ok {
		report(result)
	}
	return ok
}

var errBroken = errors.New("broken")

func TestBreakerOpensAfterFaultsInARow(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		b, heard := delivery.NewBreaker("a", false), []bool(nil)
		b.OnHealthChange(func(h delivery.Health) { heard = append(heard, h.Up); panic("a report survives it") })
		for _, result := range []error{errBroken, errBroken, nil, errBroken, delivery.ErrHealthUnknown, errBroken} {
			try(b, result)
		}
		if !b.Health().Up {
			t.Fatal("set aside though never three faults came in a row")
		}
		servertest.Same(t, "well after a fault", b.IsWell(), false)
		time.Sleep(time.Minute)
		servertest.Same(t, "well a minute later", b.IsWell(), true)
		_, changed := b.State()
		try(b, errBroken)
		if h := b.Health(); h.Up || h.Why != "broken" || h.Server != "a" || h.Since.IsZero() || try(b, nil) {
			t.Errorf("%+v", h)
		}
		<-changed
		time.Sleep(delivery.BreakerOpenFor + time.Millisecond)
		if !try(b, nil) || !b.Health().Up || b.Health().Why != "" || !slices.Equal(heard, []bool{false, true}) {
			t.Errorf("%+v, %v", b.Health(), heard)
		}
	})
}

func TestBreakerByRateOpensAtHalfOfTheAttempts(t *testing.T) {
	for byRate, up := range map[bool]bool{false: true, true: false} {
		b := delivery.NewBreaker("a", byRate)
		for n := range delivery.MinAttemptsForFaultRate {
			try(b, []error{nil, errBroken}[n%2])
		}
		if b.Health().Up != up {
			t.Errorf("by rate %v: up %v", byRate, b.Health().Up)
		}
	}
}

// A breaker admits any number of attempts while it is closed, and none while it is open. After its
// pause it admits one at a time, until that attempt has its result.
func TestHowManyABreakerAdmits(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		b := delivery.NewBreaker("mx.example", false)
		admits := func(when string, want int) {
			t.Helper()
			if n := b.AttemptsAllowed(); n != want {
				t.Errorf("%s it admits %d, want %d", when, n, want)
			}
		}
		admits("closed,", delivery.UnlimitedAttempts)
		for range delivery.FaultsToOpenBreaker {
			report, _ := b.Allow()
			report(errBroken)
		}
		admits("open,", 0)
		time.Sleep(delivery.BreakerOpenFor + time.Microsecond)
		admits("after its rest", 1)
		report, _ := b.Allow()
		admits("during a trial", 0)
		report(delivery.ErrHealthUnknown)
		admits("after a trial of unknown result", 1)
		report, _ = b.Allow()
		report(nil)
		admits("after a trial", delivery.UnlimitedAttempts)
	})
}

// Without traffic, a check closes a breaker again. No check is made during the breaker's pause, or
// during an attempt.
func TestBreakerRechecksAnIdlePart(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		b, checks := delivery.NewBreaker("mx.example", false), 0
		type state struct {
			up     bool
			checks int // so far
			why    string
		}
		check := func(result error) state {
			b.Recheck(t.Context(), func(context.Context) error { checks++; return result })
			time.Sleep(delivery.BreakerOpenFor + time.Microsecond)
			return state{b.Health().Up, checks, b.Health().Why}
		}
		check(errBroken) // closed
		for range delivery.FaultsToOpenBreaker {
			try(b, errBroken)
		}
		servertest.Same(t, "while it rests", check(nil), state{why: "broken"})
		report, _ := b.Allow()
		servertest.Same(t, "beside an attempt", check(nil), state{why: "broken"})
		report(delivery.ErrHealthUnknown)
		servertest.Same(t, "broken", check(errBroken), state{checks: 1, why: "broken"})
		servertest.Same(t, "back", check(nil), state{up: true, checks: 2})
	})
}

// A server that gets no more mails may have a new certificate, so its last one is forgotten.
func TestLastCertificateIsForgotten(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var last delivery.LastCertificate
		end := time.Now().Add(time.Hour)
		last.NoteCertificate(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: end}}}, nil)
		servertest.Same(t, "the end", last.CertificateEnd().Equal(end), true)
		time.Sleep(8 * 24 * time.Hour)
		servertest.Same(t, "forgotten", last.CertificateEnd().IsZero(), true)
	})
}
