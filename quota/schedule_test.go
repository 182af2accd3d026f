package quota

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// schedule makes the same random calls on every limiter and on the model.
type schedule struct {
	t      tester
	dice   func(n int) int
	worlds []*world
	model  *naive
	now    time.Time
	high   time.Time // the highest value that now had
	ids    int
	free   []time.Duration // the waits in the last decision
	seen   map[string]int
}

func newSchedule(t tester, dice func(int) int, worlds ...*world) *schedule {
	return &schedule{t: t, dice: dice, worlds: worlds, model: newNaive(), now: epoch, high: epoch, seen: map[string]int{}}
}

func (s *schedule) step() {
	s.t.Helper()
	s.move()
	switch n := s.dice(100); {
	case n < 60:
		s.take()
	case n < 75:
		s.refund()
	case n < 90:
		s.record()
	case n < 94:
		s.reset()
	case n < 95:
		s.flush()
	}
	s.peek()
}

// move sets the clock to an instant at which something changes, such as a whole second or the end
// of a wait, or to a millisecond or microsecond beside it.
func (s *schedule) move() {
	var jump time.Duration
	switch n := s.dice(10); {
	case n < 3 && len(s.free) > 0:
		jump = s.free[s.dice(len(s.free))]
	case n < 6:
		jump = time.Duration(s.dice(6)) * time.Second
	case n < 7:
		jump = -time.Duration(s.dice(40)) * time.Second
	case n < 8:
		jump = time.Duration(s.dice(70)) * time.Second
	}
	jump += []time.Duration{0, 0, 0, µs, -µs, time.Millisecond, -time.Millisecond}[s.dice(7)]
	if s.revives(s.now.Add(jump)) {
		return
	}
	if jump < -time.Second {
		s.seen["stepped back"]++
	}
	s.now = s.now.Add(jump)
	if s.now.After(s.high) {
		s.high = s.now
	}
	for _, w := range s.worlds {
		w.set(s.now)
	}
}

// revives reports whether events that had left would count again if the clock went back to now. A
// limiter may have deleted these events, but the model keeps them.
func (s *schedule) revives(now time.Time) bool {
	for name, events := range s.model.events {
		for _, at := range events {
			for _, keep := range keepOf {
				if end := at.Add(keep); now.Before(end) && !s.high.Before(end) {
					return true
				}
			}
		}
		for _, end := range s.model.gone[name] {
			if now.Before(end) && !s.high.Before(end) {
				return true
			}
		}
	}
	return false
}

// request returns a request with one to four rules of one or two scopes, with random limits. The
// longest window of each scope is always the same, as in a policy.
func (s *schedule) request(id string) Request {
	var rules []Rule
	for _, scope := range [][]Scope{
		{Recipient},
		{IP},
		{Recipient, IP},
		{IP, Recipient},
		{App},
		{App, IP},
		{failures},
		{failures, Recipient},
		{Recipient, failures},
		{Purpose},
		{App, Purpose},
	}[s.dice(11)] {
		if scope == Purpose {
			rules = append(rules, threeDates(1+s.dice(5)))
			continue
		}
		if scope == App {
			rules = append(rules, hourly(1+s.dice(5)))
			continue
		}
		rules = append(rules, sliding(scope, 1+s.dice(5), keepOf[scope]))
		if s.dice(2) == 0 {
			rules = append(rules, sliding(scope, 1+s.dice(3), time.Duration(1+s.dice(4))*time.Second))
		}
	}
	for i := range rules {
		rules[i].Observe, rules[i].Recorded = s.dice(4) == 0, rules[i].Scope == failures
	}
	all := buckets(s.name(), s.name())
	all[App], all[failures], all[Purpose] = Bucket("app", s.name()), Bucket("failures", s.name()), Bucket("purpose", s.name())
	return Request{ID: id, Rules: rules, Buckets: all}
}

// failures is a scope of this test. Its rules are Recorded.
const failures Scope = "failures"

var keepOf = map[Scope]time.Duration{
	Recipient: 30 * time.Second, IP: 7 * time.Second, App: 5 * time.Hour, failures: 20 * time.Second,
	Purpose: 76 * time.Hour,
}

func (s *schedule) name() string { return []string{"ann", "bob"}[s.dice(2)] }

// id returns a new ID, or one of the newest IDs.
func (s *schedule) id() string {
	if s.ids > 0 && s.dice(3) == 0 {
		s.seen["repeated"]++
		return fmt.Sprintf("%016d", s.ids-s.dice(min(s.ids, 6)))
	}
	s.ids++
	return fmt.Sprintf("%016d", s.ids)
}

func (s *schedule) take() {
	req := s.request(s.id())
	observed, first := s.model.observed(req, s.now)
	want, wantErr := s.model.take(req, s.now)
	s.note(want, wantErr)
	for _, w := range s.worlds {
		got, err := w.Take(s.t.Context(), req)
		if !errors.Is(err, wantErr) {
			s.t.Fatalf("%T: %v, want %v", w.Limiter, err, wantErr)
		}
		sameDecision(s.t, got, want)
		if err == nil && !got.Admitted && fmt.Sprint(got.Violated()) == "[failures]" {
			s.seen["refused by failures alone"]++
		}
		if err == nil && first {
			sameList(s.t, "observed", got.Observed(), observed)
		}
	}
	if wantErr == nil && want.Admitted && len(observed) > 0 {
		s.seen["let in by observing rules"]++
	}
}

func (s *schedule) note(d Decision, err error) {
	switch {
	case err != nil:
		s.seen["refunded"]++
	case d.Admitted:
		s.seen["admitted"]++
	default:
		s.seen["refused"]++
	}
	s.free = nil
	for _, state := range d.Rules {
		if state.Per != "" && !d.Admitted && state.blocks() {
			s.seen["refused by the hour"]++
		}
		if state.Days != 0 && !d.Admitted && state.blocks() {
			s.seen["refused by dates"]++
		}
		if state.Days != 0 && state.RetryAfter > state.ResetAfter {
			s.seen["several dates to wait for"]++
		}
		if state.Days != 0 && s.dice(3) > 0 {
			continue // few jumps may be days long, because no earlier event counts after one
		}
		s.free = append(s.free, state.RetryAfter, state.ResetAfter)
	}
}

func (s *schedule) peek() {
	req := s.request("")
	for _, name := range bucketsOfRules(req) {
		for _, at := range s.model.bucket(name) {
			if at.After(s.now) {
				s.seen["brought back"]++
			}
		}
	}
	want := s.model.peek(req, s.now)
	for _, w := range s.worlds {
		got, err := w.Peek(s.t.Context(), req)
		must(s.t, err)
		sameDecision(s.t, got, want)
	}
}

func (s *schedule) refund() {
	req := s.request(s.id())
	for _, scope := range []Scope{Recipient, IP, App, Purpose, failures}[:1+s.dice(5)] {
		s.model.refund(req.Buckets[scope], req.ID, s.now)
		for _, w := range s.worlds {
			must(s.t, w.Refund(s.t.Context(), req.ID, req.Buckets[scope]))
		}
	}
}

func (s *schedule) record() {
	scope := []Scope{Recipient, IP, App, Purpose, failures}[s.dice(5)]
	req := s.request("")
	var events []AgedEvent
	n := s.dice(4)
	if scope != App && scope != Purpose && s.dice(12) == 0 {
		n = 60 // more events than the script reads at once, and than a bucket without an index has
		s.seen["large bucket"]++
	}
	for range n {
		age := time.Duration(s.dice(12)-2)*time.Second + time.Duration(s.dice(3)-1)*µs
		if scope == App && s.dice(2) == 0 {
			age += time.Hour
		}
		if scope == Purpose {
			age += time.Duration(s.dice(4)) * 24 * time.Hour
		}
		e := AgedEvent{ID: s.id(), Age: age}
		if s.dice(3) == 0 {
			e.AsOf = s.now.Add(-time.Duration(s.dice(6)-1) * time.Second)
		}
		events = append(events, e)
	}
	for _, w := range s.worlds {
		must(s.t, w.Record(s.t.Context(), req.Buckets[scope], keepOf[scope], events))
	}
	s.seen["not recorded"] += s.model.record(req.Buckets[scope], keepOf[scope], events, s.now)
}

func (s *schedule) reset() {
	name := s.request("").Buckets[Recipient]
	s.model.reset(name, s.now)
	for _, w := range s.worlds {
		must(s.t, w.Reset(s.t.Context(), name))
	}
}

func (s *schedule) flush() {
	s.model, s.high = newNaive(), s.now
	for _, w := range s.worlds {
		w.flush()
	}
}

var steps = flag.Int("quota.steps", 2_500, "steps of the random schedule")

// play makes as many steps as the flag quota.steps says.
func (s *schedule) play() {
	s.t.Helper()
	for i := range *steps {
		if s.step(); s.t.Failed() {
			s.t.Fatalf("step %d", i)
		}
	}
}

// TestMemoryDecidesAsTheModel tests Memory, the limiter of a service without Redis, on machines
// without Redis, too.
func TestMemoryDecidesAsTheModel(t *testing.T) {
	newSchedule(t, rand.New(rand.NewPCG(1, 1)).IntN, memoryWorld(t)).play()
}

// TestRandomScheduleOfManySteps compares every limiter with the naive model.
func TestRandomScheduleOfManySteps(t *testing.T) {
	s := newSchedule(t, rand.New(rand.NewPCG(1, 1)).IntN, memoryWorld(t), redisWorld(t), sentinelWorld(t), clusterWorld(t))
	s.play()
	for _, e := range []string{
		"admitted", "refused", "refunded", "repeated", "stepped back", "refused by the hour", "refused by dates",
		"several dates to wait for", "let in by observing rules", "refused by failures alone", "large bucket",
		"not recorded", "brought back",
	} {
		if s.seen[e] < 10 {
			t.Errorf("%s: only %d times, so the schedule tests too little: %v", e, s.seen[e], s.seen)
		}
	}
}

// TestRandomSchedulesShrunk looks for the shortest schedule in which a limiter and the model
// differ.
func TestRandomSchedulesShrunk(t *testing.T) {
	redis := redisWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		redis.t = rt
		redis.set(epoch)
		s := newSchedule(rt, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "dice") }, memoryWorld(rt), redis)
		s.flush()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			s.step()
		}
	})
}
