package interleave

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var commits = flag.Uint("interleave.commits", 1, "how many commits fail or lose their answer")

// setups are what is explored in full.
func setups() map[string]setup {
	once := faults{flushes: 1, kills: 1, commits: uint8(*commits), delays: 1}
	two := setup{limit: 1, tries: 5, sends: 2, checks: 1, replies: []reply{accepts}, faults: once}
	both, refused := two, two
	both.limit, refused.replies = 2, []reply{refuses}
	one := setup{limit: 1, tries: 5, sends: 1, looks: 1, replies: []reply{accepts, refuses, breaks, delays}, faults: once}
	looks := one
	looks.looks, looks.replies = 2, []reply{accepts}
	look := both
	look.looks, look.checks, look.faults.delays = 1, 0, 0
	lookTwice := look
	lookTwice.looks, lookTwice.faults = 2, faults{flushes: 1}
	key := two
	key.keyed, key.checks, key.looks = true, 0, 1
	keys := key
	keys.limit = 2
	checks := setup{limit: 1, tries: 2, sends: 1, checks: 2, replies: []reply{accepts}, faults: once}
	try := checks
	try.tries = 1
	return map[string]setup{
		"two sends, one a minute":               two,
		"two sends, two a minute":               both,
		"two sends, refused for good":           refused,
		"two sends, two a minute, a look":       look,
		"two sends, two a minute, two looks":    lookTwice,
		"one send, any reply, a look":           one,
		"one send, two looks":                   looks,
		"one send and its repeat, two a minute": keys,
		"one send and its repeat":               key,
		"two checks":                            checks,
		"two checks, one try":                   try,
	}
}

func TestEveryInterleaving(t *testing.T) {
	for name, s := range setups() {
		t.Run(name, func(t *testing.T) {
			x, wrong := s.machine().explore()
			t.Logf("%d states, %d transitions, %d at rest", len(x.onPath), x.transitions, x.rests)
			if wrong != "" {
				t.Error(story(s.machine().shortest()))
			}
		})
	}
}

// Each property is broken by a model that lacks a safeguard, and so is each that has an exception without it. The paths are short.
func TestBrokenModels(t *testing.T) {
	const (
		one, two, refused = "two sends, one a minute", "two sends, two a minute", "two sends, refused for good"
		reply, look       = "one send, any reply, a look", "two sends, two a minute, a look"
		checks, try, keys = "two checks", "two checks, one try", "one send and its repeat, two a minute"
	)
	broken := map[string]bool{}
	for _, c := range []struct {
		broken  mutation
		without exception
		setup   string
		want    string
		steps   int
	}{
		{noSecondGate, "", one, overPolicy, 5},
		{noUndo, "", one, leaked, 8},
		{noDoubt, "", reply, uncounted, 8},
		{noLease, "", one, doubled, 5},
		{newMessageID, "", one, changed, 7},
		{failureAccepted, "", one, lost, 3},
		{uncertainGivenBack, "", one, givenAway, 4},
		{comparedFirst, "", try, overCompared, 4},
		{approvedAgain, "", checks, overApproved, 7},
		{unknownFailed, "", reply, untrue, 4},
		{leaseIgnored, "", one, stuck, 4},
		{refundOnce, "", refused, kept, 6},
		{limiterAlone, "", two, shortWait, 5},
		{noCompletion, "", reply, shortLook, 3},
		{ownID, "", keys, sentTwice, 8},
		{nothing, unheard, look, shortLook, 9},
		{nothing, givenBackLate, keys, givenAway, 12},
		{nothing, lostTombstones, refused, leaked, 10},
	} {
		broken[c.want] = true
		t.Run(string(c.broken)+string(c.without), func(t *testing.T) {
			s := setups()[c.setup]
			s.broken, s.without = c.broken, c.without
			path, wrong := s.machine().shortest()
			t.Log(story(path, wrong))
			if wrong != c.want || len(path) != c.steps {
				t.Errorf("%q after %d steps, want %q after %d", wrong, len(path), c.want, c.steps)
			}
		})
	}
	for _, p := range properties {
		if !broken[p.name] {
			t.Errorf("no model breaks this property: %s", p.name)
		}
	}
}

// mutation is what a broken model does otherwise.
type mutation string

const (
	nothing            mutation = ""
	noSecondGate       mutation = "Begin does not count"
	noUndo             mutation = "a send that the log refuses stays in the limiter"
	noDoubt            mutation = "TakeOver puts nothing in doubt"
	noLease            mutation = "TakeOver does not wait for the lease"
	newMessageID       mutation = "each attempt has a Message-ID of its own"
	failureAccepted    mutation = "a failed commit is answered 202"
	uncertainGivenBack mutation = "an uncertain commit is taken for a failed one"
	comparedFirst      mutation = "a code is compared before the try is counted"
	approvedAgain      mutation = "Approve approves what is approved"
	unknownFailed      mutation = "an unknown outcome is called failed"
	leaseIgnored       mutation = "TakeOver takes queued rows alone"
	refundOnce         mutation = "a refund is not repeated"
	limiterAlone       mutation = "a 202 has the waits of the limiter alone"
	ownID              mutation = "a claim that lapsed gives the next request an ID of its own"
	noCompletion       mutation = "answers are not completed from the log"
)

// step is one transition: the state after it, and what it does. One that is not due may never happen: a request, a fault, or the last
// call of a process that was killed.
type step[S comparable] struct {
	to   S
	does note
	due  bool
}

// note says what a step does. {send} and {replica} stand for the two numbers.
type note struct {
	text          string
	send, replica int
}

func (n note) String() string {
	return strings.NewReplacer("{send}", string(rune('A'+n.send)), "{replica}", fmt.Sprint(1+n.replica)).Replace(n.text)
}

// machine is what a search explores. next appends the steps of a state. wrong names a property that a state breaks, if any; a state is
// at rest when no step of it is due.
type machine[S comparable] struct {
	start S
	next  func(S, []step[S]) []step[S]
	wrong func(s S, rest bool) string
}

// expanded is the steps of a state, and what is wrong with it.
func (m machine[S]) expanded(s S, buffer []step[S]) (steps []step[S], rest bool, wrong string) {
	steps = m.next(s, buffer)
	rest = !slices.ContainsFunc(steps, func(x step[S]) bool { return x.due })
	return steps, rest, m.wrong(s, rest)
}

// explorer searches depth first.
type explorer[S comparable] struct {
	machine[S]
	onPath  map[S]bool  // states that were seen; true: on the path to this one
	buffers [][]step[S] // of each depth

	transitions, rests int
}

// explore visits every reachable state once, and stops at one that is wrong. No path runs in a circle, so each comes to rest.
func (m machine[S]) explore() (x *explorer[S], wrong string) {
	x = &explorer[S]{machine: m, onPath: map[S]bool{}}
	return x, x.visit(m.start, 0)
}

func (x *explorer[S]) visit(s S, depth int) (wrong string) {
	if depth == len(x.buffers) {
		x.buffers = append(x.buffers, nil)
	}
	steps, rest, wrong := x.expanded(s, x.buffers[depth][:0])
	x.buffers[depth], x.onPath[s] = steps, true
	x.transitions += len(steps)
	if rest {
		x.rests++
	}
	for i := 0; i < len(steps) && wrong == ""; i++ {
		switch open, seen := x.onPath[steps[i].to]; {
		case open:
			wrong = "a path runs in a circle"
		case !seen:
			wrong = x.visit(steps[i].to, depth+1)
		}
	}
	x.onPath[s] = false
	return wrong
}

// shortest searches breadth first: the shortest path to a state that is wrong, and what is wrong with it.
func (m machine[S]) shortest() (path []note, wrong string) {
	type edge struct {
		from S
		does note
	}
	came := map[S]edge{m.start: {}}
	for queue := []S{m.start}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		steps, _, wrong := m.expanded(s, nil)
		if wrong != "" {
			for ; s != m.start; s = came[s].from {
				path = append(path, came[s].does)
			}
			slices.Reverse(path)
			return path, wrong
		}
		for _, x := range steps {
			if _, seen := came[x.to]; !seen {
				came[x.to] = edge{s, x.does}
				queue = append(queue, x.to)
			}
		}
	}
	return nil, ""
}

// story is a path as numbered sentences.
func story(path []note, wrong string) string {
	var text strings.Builder
	for i, n := range path {
		fmt.Fprintf(&text, "\n%3d. %s.", i+1, n)
	}
	return text.String() + "\n     Then " + wrong + "."
}
