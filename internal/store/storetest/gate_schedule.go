package storetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

var gateSteps = flag.Int("store.steps", 1200, "steps of the gates' random schedule, on each database")

// RunGateSchedule holds a database's gate against the naive one, to the µs: what it decides, and
// what quota.Evaluate makes of its refusals.
func RunGateSchedule(t *testing.T, f *Fixture) {
	s := &gateSchedule{T: t, Fixture: f, dice: rand.New(rand.NewPCG(1, 2)).IntN, seen: map[string]int{}}
	for i := range *gateSteps {
		const life = 200 // a naive gate gets slow with all that it never forgets
		if i%life == 0 {
			s.naive, s.recipient = naiveGate{}, i/life
		}
		s.step()
		if t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
	for _, situation := range []string{"steps back", "refusals", "refunds"} {
		if s.seen[situation] == 0 {
			t.Errorf("there were no %s", situation)
		}
	}
}

// gateSchedule plays random sends on a clock that goes back now and then.
type gateSchedule struct {
	*testing.T
	*Fixture
	naive     naiveGate
	recipient int
	dice      func(n int) int
	free      []time.Duration // waits that the last refusal named
	seen      map[string]int  // how often each situation came up
}

func (s *gateSchedule) step() {
	s.Helper()
	s.moveClock()
	if n := len(s.naive.sends); n > 0 && s.dice(6) == 0 {
		s.seen["refunds"]++
		s.refund(s.dice(n))
	}
	s.compareDecision(s.randomIntent())
}

// moveClock goes to where something may just have happened: whole seconds and the ends of waits,
// give or take a µs.
func (s *gateSchedule) moveClock() {
	jump := []time.Duration{0, 0, 0, 0, time.Microsecond, -time.Microsecond, time.Millisecond}[s.dice(7)]
	switch n := s.dice(10); {
	case n < 4 && len(s.free) > 0:
		jump += s.free[s.dice(len(s.free))]
	case n < 7:
		jump += time.Duration(s.dice(12)) * time.Second
	case n < 8:
		jump += time.Duration(s.dice(50)) * time.Minute
	}
	s.Pass(jump)
	if s.dice(30) == 0 {
		s.seen["steps back"]++
		s.Pass(-time.Duration(s.dice(8)) * time.Second)
	}
}

func (s *gateSchedule) randomIntent() store.Intent {
	in := s.Intent(100+2*s.recipient+s.dice(2), heldBy([]string{"", "s:1"}[s.dice(2)]))
	in.Rules = []quota.Rule{{Name: "long", Scope: quota.Recipient, Limit: 1 + s.dice(4), Window: 40 * time.Second}}
	if s.dice(2) == 0 {
		in.Rules = append(in.Rules, quota.Rule{
			Name: "short", Scope: quota.Recipient, Limit: 1 + s.dice(2),
			Window: time.Duration(1+s.dice(9)) * time.Second,
		})
	}
	if s.dice(3) == 0 {
		in.Rules = append(in.Rules, quota.Rule{
			Name: "hourly", Scope: quota.Recipient, Limit: 1 + s.dice(4), Per: quota.Hour,
			Zone: time.FixedZone("India", 19800),
		}) // half an hour off the hours of UTC
	}
	return in
}

func (s *gateSchedule) compareDecision(in store.Intent) {
	s.Helper()
	room, states := s.naive.decide(in, s.Now)
	begun := s.MustBegin(s.T, in)
	if begun.Admitted != room {
		s.Fatalf("admitted %v, want %v at %v\nby %+v", begun.Admitted, room, s.Now, states)
	}
	s.free = nil
	for _, state := range states {
		s.free = append(s.free, state.RetryAfter, state.ResetAfter)
	}
	if room {
		s.naive.add(in, s.Now)
		return
	}
	s.seen["refusals"]++
	got := quota.Evaluate(in.Rules, map[quota.Scope][]quota.Event{quota.Recipient: begun.History}, begun.Now)
	for i, state := range got.Rules {
		if fmt.Sprint(state) != fmt.Sprint(states[i]) {
			s.Fatalf("%s\n got %+v\nwant %+v", state.Name, state, states[i])
		}
	}
}

// refund gives the place of one send back, as a failure for good does.
func (s *gateSchedule) refund(i int) {
	s.Helper()
	sent := &s.naive.sends[i]
	s.MustFinish(s.T, store.Outcome{AttemptID: Held(sent.intent.Send.ID, 1), Status: store.Failed, Reason: "rejected", Refund: true},
		!sent.refunded)
	sent.refunded = true
}

// naiveGate is the second gate as one would say it: a list, loops and subtraction. It forgets
// nothing, and shares no line with the gates that it is compared with.
type naiveGate struct{ sends []naiveSend }

type naiveSend struct {
	intent   store.Intent
	logged   time.Time
	refunded bool
}

// decide says of each rule how many sends it counts, and for how long there is no place.
func (g *naiveGate) decide(in store.Intent, now time.Time) (room bool, states []quota.State) {
	intoHour := now.Add(30*time.Minute).UnixMicro() % time.Hour.Microseconds()
	room = true
	for _, r := range in.Rules {
		window := r.Window
		if r.Per != "" {
			window = time.Duration(intoHour+1) * time.Microsecond
		}
		var ages []time.Duration
		for _, s := range g.sends {
			age := now.Sub(s.logged)
			if !s.refunded && s.intent.Send.Recipient == in.Send.Recipient && age < window {
				ages = append(ages, age)
			}
		}
		slices.Sort(ages)
		state := quota.State{Rule: r, Used: len(ages)}
		if state.Used > 0 {
			state.ResetAfter = r.Window - ages[len(ages)-1]
		}
		if state.Used >= r.Limit {
			room, state.RetryAfter = false, r.Window-ages[r.Limit-1]
		}
		if r.Per != "" {
			state.Window = time.Hour
			left := func(age time.Duration) time.Duration { // until the hour of the send ends, or now's
				hours := (intoHour - min(0, age.Microseconds())) / time.Hour.Microseconds()
				return time.Duration(hours+1)*time.Hour - time.Duration(intoHour)*time.Microsecond
			}
			if state.Used > 0 {
				state.ResetAfter = left(ages[len(ages)-1])
			}
			if state.Used >= r.Limit {
				state.RetryAfter = left(ages[r.Limit-1])
			}
		}
		states = append(states, state)
	}
	return room, states
}

func (g *naiveGate) add(in store.Intent, now time.Time) {
	g.sends = append(g.sends, naiveSend{intent: in, logged: now})
}
