//go:build nightly

// Only make nightly and make bench run these tests: they measure, alone on the machine, for
// minutes.

package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	rounds = flag.Int("perf.rounds", 0, "how often everything is measured; 0: once, for a second, with 8 callers")
	length = flag.Duration("perf.for", 2*time.Second, "for how long callers ask in each workload")
	counts = flag.String("perf.callers", "1,64,256,1000", "numbers of callers, by commas")
	older  = flag.String("perf.older", "", "commits to measure beside this build, by commas; one may stand there twice")
	peer   = flag.String("perf.otpgateway", "",
		"the program of github.com/knadh/otpgateway, its directory static beside it, to measure too")
	write = flag.Bool("perf.write", false, "write docs/PERFORMANCE.md and tools/bench/RESULTS.md")
)

// TestBench measures in rounds, of which the one before the first warms up. In each, all contenders
// take turns at every workload and number of callers. It fails if a goal of RESULTS.md was missed.
func TestBench(t *testing.T) {
	var callers []int
	if err := json.Unmarshal([]byte("["+*counts+"]"), &callers); err != nil {
		t.Fatal(err)
	}
	b := openRig(t)
	short := b.rounds == 0
	if short {
		b.rounds, b.length, callers = 1, time.Second, []int{8}
	}
	b.startAll()
	for round := range b.rounds + 1 {
		if round == 1 {
			clear(b.results) // of the round that warms up
		}
		b.vacuum()
		for _, n := range callers {
			for _, w := range workloads {
				b.inTurns(round, n, w)
			}
		}
		if round == 0 {
			b.half = b.results[cell{ours, send, unitCallers(callers)}][0][rate] / 2
		}
		b.inTurns(round, openLoop, send)
		t.Logf("round %d of %d", round, b.rounds)
	}
	results, err := os.ReadFile("RESULTS.md")
	b.must(err)
	goals := goalsIn(string(results), b.goals(unitCallers(callers)))
	for _, s := range b.report(callers, goals) {
		b.publish(s)
		if strings.Contains(s.text, "NaN") || strings.Contains(s.text, "Inf") {
			t.Errorf("%s has a figure that is none", s.title)
		}
	}
	for _, g := range goals {
		if g.missed() && !short {
			t.Errorf("missed: %s is %s, at most %s", g.name, precise(g.measured), precise(g.bound))
		}
	}
}

// inTurns measures a workload of all contenders that know it; another one begins in each round.
func (ri *rig) inTurns(round, callers int, workload string) {
	for i := range ri.contenders {
		if c := ri.contenders[(i+round)%len(ri.contenders)]; slices.Contains(c.knows, workload) {
			at := cell{c.name, workload, callers}
			ri.results[at] = append(ri.results[at], ri.measure(c, callers, workload))
		}
	}
}

// unitCallers is the number of callers of which unit costs and most goals are: 64, or the most
// there are.
func unitCallers(callers []int) int {
	if slices.Contains(callers, 64) {
		return 64
	}
	return slices.Max(callers)
}

// The goals of a page are kept, those that were not measured too.
func TestGoalsIn(t *testing.T) {
	const page = "## Goals\n\n```\nwhat       recorded  at most  measured  result\ncost       2.00      2.50     2.00      met\n" +
		"statements  1,700    1,734    1,700     met\n```\n"
	got := goalsIn(page, []goal{{"statements", 1.02, 0, 0, 1800}, {"new", 1.2, 0, 0, 5}})
	want := []goal{{"statements", 1.02, 1700, 1734, 1800}, {"new", 1.2, 5, 6, 5}, {"cost", 0, 2, 2.5, unknown}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !got[0].missed() || got[1].missed() || got[2].missed() {
		t.Errorf("the first alone is missed: %v", got)
	}
	if again := goalsIn("## Goals\n\n"+tableOf(got), nil); len(again) != 3 || again[0].bound != 1734 {
		t.Errorf("read again: %v", again)
	}
}
