// Package simulate runs whole worlds by seed: two or three replicas of the service (use cases,
// outbox, jobs, webhooks, HTTP handlers) over one database and one limiter (without Redis, one
// limiter each), with people, back ends, strangers and faults. Time is virtual (testing/synctest),
// so hours pass in milliseconds. The method is deterministic simulation testing, as FoundationDB
// describes it (Zhou et al., SIGMOD 2021, section 4).
//
// A seed gives a Plan: which events happen, and when. It also gives each call of a part a latency
// of its own, in nanoseconds. No two calls go on at the same instant, so one seed always gives one
// course of events. The database is SQLite in memory.
//
// After the plan, everything is repaired, and the work under way may end. Then oracles compare the
// answers, messages, log lines and events with docs/PROMISES.md. The plan of a world that broke a
// promise is shrunk to the events that matter, and described in sentences. judge_test.go says what
// the oracles allow.
package simulate_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/prove/simulate"
)

var (
	seeds    = flag.Int("simulate.seeds", 40, "how many worlds")
	from     = flag.Uint64("simulate.from", 1, "the first seed")
	replicas = flag.Int("simulate.replicas", 0, "of each world; 0: two or three, as the seed says")
	progress = flag.String("simulate.progress", "",
		"a file that remembers what is done, so that a run can go on; several processes may share it")
	twice = flag.Uint64("simulate.twice", 5, "how many seeds TestSameStory runs twice")
	part  = flag.Int("simulate.part", 0, "of this process among simulate.parts")
	parts = flag.Int("simulate.parts", 1, "how many processes share the work")
)

// TestWorlds runs worlds. Each of them must keep every promise.
func TestWorlds(t *testing.T) {
	// A world leaves little garbage, so rare collections suffice.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	if servertest.Raced && *progress == "" {
		*seeds = min(*seeds, 20) // the race detector makes a world some ten times slower
	}
	total := map[string]int{}
	done := readProgress(t)
	for n, first := 0, *from; first < *from+uint64(*seeds); n, first = n+1, first+pieceSize {
		p, known := done[first]
		if !known && n%*parts != *part {
			continue
		}
		if !known {
			p = runPiece(t, first, min(pieceSize, *from+uint64(*seeds)-first))
			writeProgress(t, p)
		}
		for what, n := range p.Counts {
			total[what] += n
		}
	}
	if n := total[violated]; n > 0 {
		t.Errorf("%d of %d worlds broke a promise", n, total["worlds"])
	}
	var covered strings.Builder
	for _, what := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(&covered, "\n%9d %s", total[what], what)
	}
	t.Log(covered.String())
}

// TestWorld prints the story of one seed, even if the world kept the promises.
func TestWorld(t *testing.T) {
	r := simulate.Run(t, simulate.NewPlan(*from, *replicas), simulate.Options{})
	if t.Log(r.Story()); len(r.Violations) > 0 {
		t.Errorf("%d violations", len(r.Violations))
	}
}

// pieceSize is how many worlds are recorded together in the file of progress.
const pieceSize = 100

// violated is the key under which the worlds that broke a promise are counted.
const violated = "worlds that broke a promise"

// piece has the counts of a range of worlds.
type piece struct {
	From   uint64
	Counts map[string]int
}

func runPiece(t *testing.T, first, n uint64) piece {
	p := piece{From: first, Counts: map[string]int{"worlds": int(n)}}
	for seed := first; seed < first+n; seed++ {
		plan := simulate.NewPlan(seed, *replicas)
		r := simulate.Run(t, plan, simulate.Options{})
		for what, n := range r.Counts {
			p.Counts[what] += n
		}
		if len(r.Violations) > 0 {
			p.Counts[violated]++
			fmt.Printf("--- FAIL: TestWorlds: seed %d\n", seed) // what t logs is lost when the run is stopped
			less := simulate.Shrink(t, plan, r.Violations[0].Oracle, simulate.Options{})
			t.Errorf("%s", simulate.Run(t, less, simulate.Options{}).Story())
		}
	}
	return p
}

func readProgress(t *testing.T) map[uint64]piece {
	done := map[uint64]piece{}
	text, _ := os.ReadFile(*progress) // before the first run there is no file
	for line := range strings.Lines(string(text)) {
		var p piece
		servertest.OK(t, json.Unmarshal([]byte(line), &p))
		done[p.From] = p
	}
	return done
}

func writeProgress(t *testing.T, p piece) {
	if *progress == "" {
		return
	}
	line, _ := json.Marshal(p)
	f, err := os.OpenFile(*progress, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	servertest.OK(t, err)
}
