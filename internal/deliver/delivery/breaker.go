package delivery

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/base/panics"
)

// These are limits at which a breaker opens, and how long it stays open before it allows one
// attempt.
const (
	FaultsToOpenBreaker     = 3
	MinAttemptsForFaultRate = 10 // within faultRatePeriod; with fewer attempts, the rate of faults opens no breaker
	faultRatePeriod         = time.Minute
	BreakerOpenFor          = 5 * time.Second
)

// ErrHealthUnknown is the result of an attempt that was neither a success nor a fault of the server
// or carrier.
var ErrHealthUnknown = errors.New("the attempt says nothing about the health of the server")

// Health says whether a mail server, a carrier or a vendor of human checks is in use and, if it is
// not, why.
type Health struct {
	Server string // host:port of a mail server, name of a carrier, or app/vendor of a human check
	// Up is true while the breaker is closed. Otherwise one attempt is allowed every
	// BreakerOpenFor. Of a mail server, Up is also false while no login can succeed; see
	// Servers.Health of package mailserver.
	Up bool
	// Since is when Up last changed; zero if it never did.
	Since time.Time
	// Why is the last fault, without private data; empty while up.
	Why string
	// CertificateEnd is when a mail server's certificate expires, as seen in the last connection
	// with a verified certificate. It is zero if there was no such connection in the last week.
	CertificateEnd time.Time
}

// Breaker is the circuit breaker of one mail server, carrier or vendor of human checks. The caller
// decides which results are faults. Safe for concurrent use.
type Breaker struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu             sync.Mutex // not held when breaker is called, which calls onStateChange
	current        Health
	fault          string // the last fault
	faultAt        time.Time
	changed        chan struct{} // closed and replaced at every change of the breaker's state
	onHealthChange func(Health)
}

// NewBreaker returns a breaker that opens after three faults in a row. If byRate is true, it also
// opens if at least half of ten or more attempts within a minute were faults. With byRate, every
// count starts again at zero each minute, also the count of faults in a row.
func NewBreaker(name string, byRate bool) *Breaker {
	b := &Breaker{current: Health{Server: name, Up: true}, changed: make(chan struct{})}
	settings := gobreaker.Settings{
		Timeout:       BreakerOpenFor,
		ReadyToTrip:   func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= FaultsToOpenBreaker },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.onStateChange(to) },
		IsExcluded:    func(err error) bool { return errors.Is(err, ErrHealthUnknown) },
	}
	if byRate {
		settings.Interval = faultRatePeriod
		settings.ReadyToTrip = func(n gobreaker.Counts) bool {
			return n.ConsecutiveFailures >= FaultsToOpenBreaker || n.Requests >= MinAttemptsForFaultRate && 2*n.TotalFailures >= n.Requests
		}
	}
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	return b
}

// Allow returns false while AttemptsAllowed returns 0. Otherwise the caller must call report once:
// with nil after a success, with ErrHealthUnknown to change nothing, or with a fault, whose text
// becomes Health.Why if the breaker opens.
func (b *Breaker) Allow() (report func(result error), ok bool) {
	done, err := b.breaker.Allow()
	if err != nil {
		return nil, false
	}
	return func(result error) {
		if result != nil && !errors.Is(result, ErrHealthUnknown) {
			b.mu.Lock()
			b.fault, b.faultAt = result.Error(), time.Now()
			b.mu.Unlock()
		}
		done(result)
	}, true
}

// Recheck calls check as an attempt, if the breaker isn't closed and now allows one. Without
// traffic, only such a check can show that the server or carrier works again. check may run for at
// most BreakerOpenFor, because other attempts must wait until it ends.
func (b *Breaker) Recheck(ctx context.Context, check func(context.Context) error) {
	if b.AttemptsAllowed() != 1 {
		return
	}
	report, ok := b.Allow()
	if !ok {
		return
	}
	result := ErrHealthUnknown // the result after a panic
	defer func() { report(result) }()
	ctx, cancel := context.WithTimeout(ctx, BreakerOpenFor)
	defer cancel()
	result = check(ctx)
}

func (b *Breaker) onStateChange(to gobreaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer panics.Recover(panics.Other) // the attempt has ended, and a panic of onHealthChange must not change its outcome
	close(b.changed)
	b.changed = make(chan struct{})
	up := to == gobreaker.StateClosed
	b.current.Why = b.fault
	if up {
		b.current.Why = ""
	}
	if up != b.current.Up {
		b.current.Up, b.current.Since = up, time.Now()
		if b.onHealthChange != nil {
			b.onHealthChange(b.current)
		}
	}
}

func (b *Breaker) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// IsWell reports whether the breaker is closed and the newest known result is no fault, or a fault
// older than faultRatePeriod.
func (b *Breaker) IsWell() bool {
	faults := b.breaker.Counts().ConsecutiveFailures
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current.Up && (faults == 0 || time.Since(b.faultAt) >= faultRatePeriod)
}

// State returns the breaker's state, and a channel that is closed when the state changes.
func (b *Breaker) State() (gobreaker.State, <-chan struct{}) {
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	return b.breaker.State(), changed
}

// Unlimited stands for the limits of a server or carrier that has none; see outbox.Limits.
type Unlimited struct{}

func (Unlimited) AttemptsAllowed() int { return UnlimitedAttempts }

// ConnLimit returns 0, which means that there is no limit.
func (Unlimited) ConnLimit() int { return 0 }

const UnlimitedAttempts = math.MaxInt

// AttemptsAllowed returns how many attempts may begin now: UnlimitedAttempts while the breaker is
// closed, 0 while it is open, and, after BreakerOpenFor, 1 until an attempt has begun.
func (b *Breaker) AttemptsAllowed() int {
	switch b.breaker.State() {
	case gobreaker.StateClosed:
		return UnlimitedAttempts
	case gobreaker.StateHalfOpen:
		n := b.breaker.Counts() // Requests still counts excluded attempts, which have ended
		return max(0, 1-int(n.Requests)+int(n.TotalExclusions))
	}
	return 0
}

// OnHealthChange sets the function that is called whenever Up changes. f must return soon and must
// not call the breaker.
func (b *Breaker) OnHealthChange(f func(Health)) {
	b.mu.Lock()
	b.onHealthChange = f
	b.mu.Unlock()
}
