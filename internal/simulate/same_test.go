//go:build !race

package simulate_test

import (
	"flag"
	"testing"

	"sendcode/internal/simulate"
)

var again = flag.Int("simulate.again", 3, "how often one seed is repeated")

// One seed gives one course of events, to the nanosecond.
func TestSameStory(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		p := simulate.NewPlan(seed, 0)
		first := simulate.Run(t, p, simulate.Options{Trace: true})
		for range *again - 1 {
			next := simulate.Run(t, p, simulate.Options{Trace: true})
			if next.Digest == first.Digest {
				continue
			}
			for i, line := range first.Trace {
				if i >= len(next.Trace) || next.Trace[i] != line {
					t.Errorf("seed %d differs at step %d of %d:\n%s\n%s", seed, i, len(first.Trace), line, next.Trace[min(i, len(next.Trace)-1)])
					break
				}
			}
		}
	}
}
