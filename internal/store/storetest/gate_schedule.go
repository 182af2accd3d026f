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
	s := &gateSchedule{T: t, Fixture: f, dice: rand.New(rand.NewPCG(1, 2)).IntN, limiter: Epoch, seen: map[string]int{}}
	for i := range *gateSteps {
		const life = 200 // a naive gate gets slow with all that it never forgets
		if i%life == 0 {
			s.naive, s.recipient = naiveGate{}, i/life
		}
		if s.step(); t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
	for _, situation := range []string{"a limiter far behind", "a limiter far ahead", "refusals", "refunds"} {
		if s.seen[situation] == 0 {
			t.Errorf("there were no %s", situation)
		}
	}
}

// gateSchedule plays random sends on clocks that go together, mostly.
type gateSchedule struct {
	*testing.T
	*Fixture
	naive     naiveGate
	recipient int
	dice      func(n int) int
	limiter   time.Time       // the limiter's clock
	free      []time.Duration // waits that the last refusal named
	seen      map[string]int  // how often each situation came up
}

func (s *gateSchedule) step() {
	s.Helper()
	s.moveClocks()
	if n := len(s.naive.sends); n > 0 && s.dice(6) == 0 {
		s.seen["refunds"]++
		s.refund(s.dice(n))
	}
	s.compareDecision(s.randomIntent())
}

// moveClocks goes to where something may just have happened: whole seconds and the ends of waits,
// give or take a µs. Now and then one clock goes alone.
func (s *gateSchedule) moveClocks() {
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
	s.limiter = s.limiter.Add(jump)
	alone := time.Duration(s.dice(8)) * time.Second
	switch n := s.dice(60); {
	case n < 3:
		s.limiter = s.limiter.Add(alone)
	case n < 6:
		s.limiter = s.limiter.Add(-alone)
	case n < 8:
		s.Pass(-alone)
	case n < 9:
		s.limiter = s.Now
	case n < 10 && s.dice(10) == 0:
		s.seen["a limiter far ahead"]++
		s.limiter = s.limiter.Add(90 * time.Minute)
	case n < 11:
		s.seen["a limiter far behind"]++
		s.Pass(24*time.Hour + time.Duration(s.dice(70))*time.Second)
	}
}

func (s *gateSchedule) randomIntent() store.Intent {
	in := s.Intent(100+2*s.recipient+s.dice(2), heldBy([]string{"", "s:1"}[s.dice(2)]))
	in.Rules = []quota.Rule{{Name: "long", Scope: quota.Recipient, Limit: 1 + s.dice(4), Window: 40 * time.Second}}
	if s.dice(2) == 0 {
		in.Rules = append(in.Rules, quota.Rule{Name: "short", Scope: quota.Recipient, Limit: 1 + s.dice(2),
			Window: time.Duration(1+s.dice(9)) * time.Second})
	}
	if s.dice(3) == 0 {
		in.Rules = append(in.Rules, hourInIndia(1+s.dice(4)))
	}
	in.Send.Clock = []string{"redis", "redis", "redis", "redis", "redis", "redis", "redis", "other",
		store.DatabaseClock,
		store.DatabaseClock}[s.dice(10)]
	if in.Send.Clock != store.DatabaseClock {
		in.Send.TakenAt = s.limiter
	}
	if in.Send.Clock == "other" {
		in.Send.TakenAt = s.limiter.Add(-1234567 * time.Microsecond)
	}
	return in
}

func (s *gateSchedule) compareDecision(in store.Intent) {
	s.Helper()
	room, states := s.naive.decide(in, s.Now)
	begun := s.MustBegin(s.T, in)
	if begun.Admitted != room {
		s.Fatalf("admitted %v, want %v: %s at %v and %v\nby %+v", begun.Admitted, room, in.Send.Clock, in.Send.TakenAt,
			s.Now, states)
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
	id := s.naive.sends[i].intent.Send.ID
	done, err := s.Finish(s.Context(),
		store.Outcome{AttemptID: store.AttemptID{ID: id, Attempt: 1}, Status: store.Failed, Reason: "rejected",
			Refund: true})
	OK(s.T, err)
	Equal(s.T, "finished", done, !s.naive.sends[i].refunded)
	s.naive.sends[i].refunded = true
}

// naiveGate is the second gate as one would say it: a list, loops and subtraction. It forgets
// nothing, and shares no line with the gates that it is compared with.
type naiveGate struct{ sends []naiveSend }

type naiveSend struct {
	intent   store.Intent
	logged   time.Time
	refunded bool
}

// oneSecond is by how much a limiter's clock may differ and is believed.
const oneSecond = time.Second

// elapsed is the time that has passed since a send: what the limiter's clock says, unless the
// database's differs by more than a second. Sends of another clock are known by the database's
// alone.
func (s naiveSend) elapsed(in store.Intent, now time.Time) time.Duration {
	byDatabase := now.Sub(s.logged)
	if in.Send.Clock != s.intent.Send.Clock || in.Send.Clock == store.DatabaseClock {
		return byDatabase
	}
	byLimiter := in.Send.TakenAt.Sub(s.intent.Send.TakenAt)
	if byLimiter-byDatabase > oneSecond || byDatabase-byLimiter > oneSecond {
		return byDatabase
	}
	return byLimiter
}

// hourInIndia is the calendar rule of the schedules: the clock hour, half an hour off that of UTC.
func hourInIndia(limit int) quota.Rule {
	return quota.Rule{Name: "hourly", Scope: quota.Recipient, Limit: limit, Per: quota.Hour,
		Zone: time.FixedZone("India", 19800)}
}

// at is the limiter's time, where it is not more than a second ahead of the database's.
func (g *naiveGate) at(in store.Intent, now time.Time) time.Time {
	switch {
	case in.Send.Clock == store.DatabaseClock:
		return now
	case in.Send.TakenAt.Sub(now) > oneSecond:
		return now.Add(oneSecond)
	}
	return in.Send.TakenAt
}

// decide says of each rule how many sends it counts, and for how long there is no place.
func (g *naiveGate) decide(in store.Intent, now time.Time) (room bool, states []quota.State) {
	at := g.at(in, now)
	intoHour := at.Add(30*time.Minute).UnixMicro() % time.Hour.Microseconds()
	room = true
	for _, r := range in.Rules {
		window := r.Window
		if r.Per != "" {
			window = time.Duration(intoHour+1) * time.Microsecond
		}
		var ages []time.Duration
		for _, s := range g.sends {
			age := s.elapsed(in, now)
			if !s.refunded && s.intent.Send.Recipient == in.Send.Recipient && age < window {
				ages = append(ages, max(0, age))
			}
		}
		slices.Sort(ages)
		state := quota.State{Rule: r, Used: len(ages)}
		for _, age := range ages {
			state.Ages += age
		}
		if state.Used > 0 {
			state.ResetAfter = r.Window - ages[len(ages)-1]
		}
		if state.Used >= r.Limit {
			room, state.RetryAfter = false, r.Window-ages[r.Limit-1]
		}
		if r.Per != "" {
			state.Window = time.Hour
			left := time.Hour - time.Duration(intoHour)*time.Microsecond
			if state.Used > 0 {
				state.ResetAfter = left
			}
			if state.Used >= r.Limit {
				state.RetryAfter = left
			}
		}
		states = append(states, state)
	}
	return room, states
}

func (g *naiveGate) add(in store.Intent, now time.Time) {
	g.sends = append(g.sends, naiveSend{intent: in, logged: now})
}
