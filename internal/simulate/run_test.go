package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"sendcode/internal/servertest"
)

// Result is what a world came to.
type Result struct {
	Plan       Plan
	Violations []Violation
	Trace      []string       // every action in order, one line each; only with Options.Trace
	Digest     [32]byte       // of the trace
	Counts     map[string]int // how often what happened
}

// Violation is a promise that was broken.
type Violation struct {
	Oracle string // which promise
	Detail string
}

// Options are for tests of the simulation itself.
type Options struct {
	Trace bool
	// Break changes a replica before it starts, for tests that put a mended bug back.
	Break func(*Replica)
}

// Run runs the world of a plan to its end.
func Run(t *testing.T, p Plan, o Options) (result Result) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.Seed)
		w := newWorld(t, p, o)
		w.play()
		result = w.result()
	})
	return result
}

// Shrink drops events from a plan for as long as the same promise is broken without them.
func Shrink(t *testing.T, p Plan, oracle string, o Options) Plan {
	t.Helper()
	breaks := func(p Plan) bool {
		return slices.ContainsFunc(Run(t, p, o).Violations, func(v Violation) bool { return v.Oracle == oracle })
	}
	for size := max(1, len(p.Events)/2); ; size = max(1, size/2) {
		shrunk := false
		for from := 0; from < len(p.Events); {
			less := p
			less.Events = slices.Concat(p.Events[:from], p.Events[min(from+size, len(p.Events)):])
			if breaks(less) {
				p, shrunk = less, true
				continue
			}
			from += size
		}
		if size == 1 && !shrunk {
			return p
		}
	}
}

// Story tells a plan and what it came to in sentences.
func (r Result) Story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Seed %d, %d replicas:\n", r.Plan.Seed, r.Plan.Replicas)
	for i, e := range r.Plan.Events {
		fmt.Fprintf(&b, "%3d. %s: %s\n", i+1, clock(e.At), e)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "Broken promise (%s): %s\n", v.Oracle, v.Detail)
	}
	return b.String()
}

func clock(d time.Duration) string {
	d = d.Round(time.Millisecond)
	return fmt.Sprintf("%d:%02d:%02d.%03d", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second, d%time.Second/time.Millisecond)
}

// source is a stream of random numbers of its own for each label.
func source(seed uint64, label string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a, 64 bits
	for _, c := range []byte(label) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}
