// Package failover keeps what is known about the health of parts that stand in for one another, mail servers and carriers: a circuit
// breaker each, the reason why it opened, and who is told of it. In which order parts are tried, and what counts as their
// fault, is their own business.
package failover

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// What it takes to set a part aside, and for how long before one attempt tries it again.
const (
	FaultsInRow = 3
	RateFrom    = 10 // attempts within ratePeriod from which half of them count
	ratePeriod  = time.Minute
	RestFor     = 5 * time.Second
)

// What an attempt says about a part; nil where it did its work.
var (
	ErrFault     = errors.New("the part is at fault")
	ErrNoVerdict = errors.New("nothing is known about the part")
)

// Health is what is known about one part.
type Health struct {
	Server string // host:port of a mail server, name of a carrier
	// Up: it is used. Otherwise it is set aside, and tried every five seconds.
	Up bool
	// Since is when Up last changed; zero if it never did.
	Since time.Time
	// Why is the last fault, in words that hold nothing private; empty while up.
	Why string
}

// Breaker counts the faults of one part. Safe for concurrent use.
type Breaker struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu      sync.Mutex // never held while the breaker is called, which calls moved under a lock of its own
	current Health
	fault   string
	changed chan struct{} // closed and replaced at every change of the breaker's state
	watch   func(Health)
}

// New makes a breaker that opens after three faults in a row. With byRate also half of ten attempts and more within a minute open it.
func New(name string, byRate bool) *Breaker {
	b := &Breaker{current: Health{Server: name, Up: true}, changed: make(chan struct{})}
	settings := gobreaker.Settings{
		Timeout:       RestFor,
		ReadyToTrip:   func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= FaultsInRow },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.moved(to) },
		IsExcluded:    func(err error) bool { return errors.Is(err, ErrNoVerdict) },
	}
	if byRate {
		settings.Interval = ratePeriod
		settings.ReadyToTrip = func(n gobreaker.Counts) bool {
			return n.ConsecutiveFailures >= FaultsInRow || n.Requests >= RateFrom && 2*n.TotalFailures >= n.Requests
		}
	}
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	return b
}

// Allow lets an attempt in, or says that the part is set aside. done takes the verdict on it, once.
func (b *Breaker) Allow() (done func(verdict error), err error) { return b.breaker.Allow() }

// Report gives the verdict of an attempt to its done; fault is the reason where it is ErrFault.
func (b *Breaker) Report(done func(error), verdict error, fault string) {
	if errors.Is(verdict, ErrFault) {
		b.mu.Lock()
		b.fault = fault
		b.mu.Unlock()
	}
	done(verdict)
}

// moved is called by the breaker.
func (b *Breaker) moved(to gobreaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
	if up := to == gobreaker.StateClosed; up != b.current.Up {
		b.current.Up, b.current.Since = up, time.Now()
		if b.watch != nil {
			b.watch(b.reasoned())
		}
	}
}

func (b *Breaker) reasoned() Health {
	now := b.current
	if !now.Up {
		now.Why = b.fault
	}
	return now
}

// Health is what is known now.
func (b *Breaker) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reasoned()
}

// State gives the breaker's state and a channel that is closed when it is another.
func (b *Breaker) State() (gobreaker.State, <-chan struct{}) {
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	return b.breaker.State(), changed
}

// Watch has f called whenever the part is set aside or is up again. f must return soon, and not call the breaker.
func (b *Breaker) Watch(f func(Health)) {
	b.mu.Lock()
	b.watch = f
	b.mu.Unlock()
}
