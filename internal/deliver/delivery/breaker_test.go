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

// try makes an attempt with this result. It returns false if the breaker admits none.
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
		b, reported := delivery.NewBreaker("a", false), []bool(nil)
		b.OnHealthChange(func(h delivery.Health) { reported = append(reported, h.Up); panic("a report survives it") })
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
		if !try(b, nil) || !b.Health().Up || b.Health().Why != "" || !slices.Equal(reported, []bool{false, true}) {
			t.Errorf("%+v, %v", b.Health(), reported)
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

// AttemptsAllowed returns UnlimitedAttempts while the breaker is closed, and 0 while it is open.
// After BreakerOpenFor it returns 1, but 0 while that attempt is under way.
func TestBreakerAttemptsAllowed(t *testing.T) {
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

// Recheck closes a breaker without traffic. It makes no check during the first BreakerOpenFor,
// while an attempt is under way, or while the breaker is closed.
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
		check(errBroken) // the breaker is closed, so Recheck makes no check
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

// A week after the last connection, CertificateEnd returns zero, because the server may have
// another certificate by then.
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
