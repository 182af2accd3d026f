//go:build nightly

// Only `make nightly` and `make bench` run this test, because it measures for minutes, alone on the
// machine.

package bench

import (
	"encoding/json"
	"flag"
	"slices"
	"testing"
	"time"
)

var (
	rounds = flag.Int("perf.rounds", 1, "how often everything is measured")
	length = flag.Duration("perf.for", time.Second, "for how long callers ask in each workload")
	counts = flag.String("perf.callers", "8", "numbers of callers, by commas; goals and unit costs are of 64")
	older  = flag.String("perf.older", "", "commits to measure beside this build, by commas")
	peer   = flag.String("perf.otpgateway", "",
		"the program of github.com/knadh/otpgateway, its directory static beside it, to measure too")
	write = flag.Bool("perf.write", false, "write docs/PERFORMANCE.md and tools/bench/RESULTS.md")
)

// TestBench measures in rounds. A first round warms up. In each round, all contenders take turns at
// every workload and number of callers. The test fails if a goal was missed.
func TestBench(t *testing.T) {
	var callers []int
	if err := json.Unmarshal([]byte("["+*counts+"]"), &callers); err != nil {
		t.Fatal(err)
	}
	b := openRig(t)
	b.startAll()
	for round := range *rounds + 1 {
		if round == 1 {
			clear(b.results) // the results of the first round, which warms up
		}
		b.vacuum()
		for _, n := range callers {
			for _, w := range workloads {
				b.inTurns(round, n, w)
			}
		}
		t.Logf("round %d of %d", round, *rounds)
	}
	for _, s := range b.report(callers) {
		b.publish(s)
	}
	for _, g := range goals {
		if got := b.goal(g); got > g.most {
			t.Errorf("missed: %s is %s, at most %s", g.name(), number(got), number(g.most))
		}
	}
}

// inTurns measures a workload for all contenders that know it. Each round begins with another
// contender.
func (ri *rig) inTurns(round, callers int, workload string) {
	for i := range ri.contenders {
		if c := ri.contenders[(i+round)%len(ri.contenders)]; slices.Contains(c.knows, workload) {
			at := cell{c.name, workload, callers}
			ri.results[at] = append(ri.results[at], ri.measure(c, callers, workload))
		}
	}
}
