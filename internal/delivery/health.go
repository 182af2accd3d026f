package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// What it takes to set a server aside, and how long it stays there before one mail tries it again.
const (
	faultsInRow = 3
	restFor     = 5 * time.Second
	// slowAfter is when a mail that is still under way counts as a fault, provided another server is up: whoever
	// waits for a code has waited long by then.
	slowAfter = 5 * time.Second
	// crowdedAfter is how long a mail waits for a place at a server while another one is up.
	crowdedAfter = time.Second
)

// Health is what is known about one server.
type Health struct {
	Server string // host:port
	// Up: mails go to it. Otherwise it is set aside, and every five seconds one mail tries it.
	Up bool
	// Since is when Up last changed; zero if it never did.
	Since time.Time
	// Why is the last fault, in words that hold nothing private; empty while up.
	Why string
}

// health counts the faults of one server. The circuit breaker has the states; this adds what may be known
// outside: a channel that tells of changes, and the reason.
type health struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu      sync.Mutex // never held while the breaker is called, which calls moved under a lock of its own
	current Health
	fault   string
	changed chan struct{} // closed and replaced at every change of the breaker's state
	watch   func(Health)
}

func newHealth(server string) *health {
	h := &health{current: Health{Server: server, Up: true}, changed: make(chan struct{})}
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:       restFor,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= faultsInRow },
		OnStateChange: func(_ string, _, to gobreaker.State) { h.moved(to) },
		IsExcluded:    func(err error) bool { return err == errNoVerdict },
	})
	return h
}

// moved is called by the breaker.
func (h *health) moved(to gobreaker.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
	if up := to == gobreaker.StateClosed; up != h.current.Up {
		h.current.Up, h.current.Since, h.current.Why = up, time.Now(), ""
		if h.watch != nil {
			h.watch(h.reasoned())
		}
	}
}

func (h *health) reasoned() Health {
	now := h.current
	if !now.Up {
		now.Why = h.fault
	}
	return now
}

func (h *health) now() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reasoned()
}

// state gives the breaker's state and a channel that is closed when it is another.
func (h *health) state() (gobreaker.State, <-chan struct{}) {
	h.mu.Lock()
	changed := h.changed
	h.mu.Unlock()
	return h.breaker.State(), changed
}

// report tells the breaker how an attempt ended.
func (h *health) report(done func(error), verdict error, fault string) {
	if verdict == errFault {
		h.mu.Lock()
		h.fault = fault
		h.mu.Unlock()
	}
	done(verdict)
}

// What an attempt says about the server; nil where the server did its work.
const (
	errFault     = problem("the server is at fault")
	errNoVerdict = problem("nothing is known about the server")
)

// verdict reads an outcome for what it says about the server, not about the message. A refusal of the recipient
// or of the content is work done. After the final dot nothing is held against a server: it may have the mail.
func verdict(ctx context.Context, fail *Error) error {
	switch {
	case fail == nil:
		return nil
	case fail.Class == Unknown, fail.Status == 0 && ctx.Err() != nil:
		return errNoVerdict
	case fail.Class == Rejected:
		return nil
	case fail.Status/100 != 4, fail.Status == 421:
		return errFault // no readable reply, a wrong one, or a refusal of us
	case fail.Stage == StageRcpt, fail.Stage == StageData, fail.Stage == StageDot:
		return nil // "later" to this recipient or this message
	}
	return errFault // nobody has been named yet
}

// trial is one attempt that the breaker let in.
type trial struct {
	health *health
	done   func(error)
	once   sync.Once
	clock  *time.Timer
}

// begin starts the clock of an attempt; spare says whether another server is up.
func (h *health) begin(done func(error), spare func() bool) *trial {
	t := &trial{health: h, done: done}
	t.clock = time.AfterFunc(slowAfter, func() {
		if spare() {
			t.report(errFault, "slow: no outcome after "+slowAfter.String())
		}
	})
	return t
}

func (t *trial) end(ctx context.Context, fail *Error) {
	t.clock.Stop()
	fault := ""
	if fail != nil {
		fault = fail.Error()
	}
	t.report(verdict(ctx, fail), fault)
}

func (t *trial) report(verdict error, fault string) {
	t.once.Do(func() { t.health.report(t.done, verdict, fault) })
}
