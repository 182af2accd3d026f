package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// pattern says when messages come, and how long a server takes for each. Its functions get the time
// since the beginning.
type pattern struct {
	until     time.Duration                        // all messages come before this time
	between   func(at time.Duration) time.Duration // the mean time between two messages
	regular   bool                                 // the time between two messages is always the mean; otherwise it is random
	each      func(at time.Duration) time.Duration // the mean time that the server takes
	longTail  bool                                 // a few messages take very long; otherwise each takes the mean ± 20 %
	conns     func(at time.Duration) int           // never more than at the beginning
	strangers float64                              // part of the messages
	club      float64                              // part of the messages that belong to a second app
}

// simulated is a message of a simulation.
type simulated struct {
	*flight
	came, began, ended time.Time // when it was queued, its attempt began, and the server accepted it
	random             float64   // below 1, for the time that the server takes
	expected           time.Duration
}

// simulation has an outbox whose workers send to a server that exists only in the test. All of it
// happens in the time of a bubble, and is the same at each run.
type simulation struct {
	*Outbox
	pattern
	began    time.Time
	inUse    chan struct{} // one element for each connection in use; the lanes share them
	workers  sync.WaitGroup
	messages map[*flight]*simulated
}

// limited implements MailSender for the simulation. It only limits connections, and sends nothing.
type limited struct {
	delivery.Unlimited
	*simulation
}

func (l limited) AttemptsAllowed() int { return delivery.UnlimitedAttempts }

func (l limited) ConnLimit() int { return l.conns(time.Since(l.began)) }

func (limited) Send(context.Context, delivery.Mail) (delivery.Result, error) {
	panic("workers of the simulation send nothing")
}

// simulate runs a simulation of the pattern, and returns its messages after the server has accepted
// each of them.
func simulate(p pattern) (all []*simulated) {
	const life = 10 * time.Minute
	random := rand.New(rand.NewPCG(1, 2))
	s := &simulation{
		Outbox: New(Config{}, Dependencies{Logger: slog.New(slog.DiscardHandler)}), pattern: p, began: time.Now(),
		inUse: make(chan struct{}, p.conns(0)), messages: map[*flight]*simulated{},
	}
	s.Outbox.Now, s.Outbox.Sender = time.Now, limited{simulation: s}
	for at := time.Duration(0); ; at = time.Since(s.began) {
		wait := float64(p.between(at))
		if !p.regular {
			wait *= random.ExpFloat64()
		}
		time.Sleep(time.Duration(wait))
		if time.Since(s.began) >= p.until {
			break
		}
		m := &simulated{came: time.Now(), random: random.Float64()}
		send := store.Send{App: "shop", Channel: recipient.Email}
		if random.Float64() < p.club {
			send.App = "club"
		}
		q := store.Queue{Channel: recipient.Email, Strangers: random.Float64() < p.strangers}
		if q.Strangers {
			send.Network = fmt.Sprint(len(all))
		}
		binary.BigEndian.PutUint64(send.ID[:], uint64(len(all)))
		m.expected, _ = s.ExpectedWait(q, send.App, send.Network, life)
		m.flight = &flight{lane: s.lanes[q], work: store.Work{
			Send: send, Verification: store.Verification{ExpiresAt: m.came.Add(life)},
		}}
		all = append(all, m)
		s.update(m.lane, func(l *lane, _ time.Time) {
			s.messages[m.flight] = m
			l.push(m.flight)
			s.startWorker(l)
		})
	}
	s.workers.Wait()
	return all
}

// startWorker does what Outbox.addWorker does. Call it within update.
func (s *simulation) startWorker(l *lane) {
	if l.reserveWorker(s.maxWorkers(l)) {
		s.workers.Go(func() {
			for m := s.next(l, nil); m != nil; m = s.next(l, m) {
				s.send(m)
				s.noteAttempt(l, nil)
			}
		})
	}
}

// next does what Outbox.nextFlight does.
func (s *simulation) next(l *lane, last *simulated) (m *simulated) {
	s.update(l, func(l *lane, _ time.Time) {
		if last != nil {
			l.endWait(last.flight)
		}
		if l.workers <= s.maxWorkers(l) {
			m = s.messages[l.pop()]
		}
		if m == nil {
			l.workers--
			return
		}
		l.startWait(m.flight)
		s.startWorker(l)
	})
	return m
}

func (s *simulation) send(m *simulated) {
	s.inUse <- struct{}{}
	defer func() { <-s.inUse }()
	m.began = time.Now()
	mean := s.each(m.began.Sub(s.began))
	factor := 0.8 + 0.4*m.random
	if s.longTail { // a Pareto distribution with the exponent 1.5
		factor = min(120, math.Pow(1-m.random, -1/1.5)/3)
	}
	time.Sleep(time.Duration(float64(mean) * factor))
	m.ended = time.Now()
}

func always[T any](v T) func(time.Duration) T { return func(time.Duration) T { return v } }

// rate returns the mean time between n messages a second.
func rate(n float64) func(time.Duration) time.Duration {
	return always(time.Duration(float64(time.Second) / n))
}

// The expected wait of each message is compared with the time until a server has accepted the
// message. The server exists only in this test, so the test knows the true times. A case has three
// values for the quotients of the expected wait and the true wait: the least 5th percentile, the
// median, and the greatest 95th percentile. Other estimates are in
// docs/decisions/0041-the-expected-wait.md.
//
// Messages don't count if they begin within a second and are expected to go out within 5 s.
func TestExpectedWaitByTrueWaits(t *testing.T) {
	bursts := func(n int, lasts time.Duration) func(time.Duration) time.Duration {
		return func(at time.Duration) time.Duration {
			if at %= time.Minute; at >= lasts {
				return time.Minute - at
			}
			return lasts / time.Duration(n)
		}
	}
	for name, c := range map[string]struct {
		pattern
		low, median, high float64
	}{
		"70 % of what the server takes": {pattern{
			until: 4 * time.Minute, between: rate(5.6), each: always(2 * time.Second), conns: always(16),
		}, 0, 0, 0},
		"98 %":  {pattern{until: 4 * time.Minute, between: rate(7.84), each: always(2 * time.Second), conns: always(16)}, 0.84, 1, 1.18},
		"150 %": {pattern{until: 3 * time.Minute, between: rate(12), each: always(2 * time.Second), conns: always(16)}, 0.95, 1.01, 1.06},
		"four connections to a slow server": {pattern{
			until: time.Hour, between: rate(.25), each: always(20 * time.Second), conns: always(4),
		}, 0.87, 0.99, 1.18},
		"5 times slower within a minute": {pattern{
			until: 4 * time.Minute, between: rate(16), conns: always(16),
			each: func(at time.Duration) time.Duration { // from 0.5 s to 2.5 s
				return time.Second/2 + min(2*time.Second, max(0, at-time.Minute)/30)
			},
		}, 0.6, 0.95, 1.04},
		"it stands still for two minutes": {pattern{
			until: 6 * time.Minute, between: rate(6), conns: always(16),
			each: func(at time.Duration) time.Duration {
				if at > 2*time.Minute && at < 4*time.Minute {
					return time.Second + 4*time.Minute - at
				}
				return time.Second
			},
		}, 0.37, 5.24, 130},
		"500 within 2 s of each minute": {pattern{
			until: 4 * time.Minute, between: bursts(500, 2*time.Second), regular: true, each: always(time.Second), conns: always(16),
		}, 0, 0, 1.7},
		"500 within 20 s of each minute": {pattern{
			until: 4 * time.Minute, between: bursts(500, 20*time.Second), regular: true, each: always(time.Second), conns: always(16),
		}, 0.94, 1.02, 1.16},
		"3 a minute": {pattern{until: time.Hour, between: rate(.05), each: always(2 * time.Second), conns: always(16)}, 0, 0, 0},
		"3 a minute over one connection": {pattern{
			until: 3 * time.Hour, between: rate(.05), each: always(10 * time.Second), conns: always(1),
		}, 0.05, 0.79, 1.65},
		"two lanes share the connections": {pattern{
			until: 2 * time.Minute, between: rate(12), each: always(time.Second), conns: always(8), strangers: .5,
		}, 0.93, 1, 1.26},
		"two apps, most of one": {pattern{
			until: 3 * time.Minute, between: rate(14), each: always(2 * time.Second), conns: always(16), club: .8,
		}, 0.62, 0.75, 1.04},
		"the connections change each minute": {pattern{
			until: 8 * time.Minute, between: rate(6), each: always(time.Second),
			conns: func(at time.Duration) int { return []int{16, 4, 2, 10}[int(at/time.Minute)%4] },
		}, 0.53, 1.37, 4.1},
		"few mails take very long": {pattern{
			until: 3 * time.Minute, between: rate(20), each: always(time.Second), conns: always(16), longTail: true,
		}, 0.67, 1, 1.28},
	} {
		var quotients []float64
		servertest.Bubble(t, func(*testing.T) {
			for _, m := range simulate(c.pattern) {
				if m.began.Sub(m.came) > time.Second || m.expected > 5*time.Second {
					quotients = append(quotients, float64(m.expected)/float64(m.ended.Sub(m.came)))
				}
			}
		})
		slices.Sort(quotients)
		at := func(part float64) float64 {
			if len(quotients) == 0 {
				return 0
			}
			return quotients[int(part*float64(len(quotients)))]
		}
		if low, median, high := at(.05), at(.5), at(.95); low < c.low || math.Abs(median-c.median) > .02 || high > c.high {
			t.Errorf("%s: %.3f, %.3f and %.3f, want %v, %v and %v", name, low, median, high, c.low, c.median, c.high)
		}
	}
}
