package interleave

import (
	"fmt"
	"slices"
	"strings"
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
