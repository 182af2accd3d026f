package simulate_test

import (
	"flag"
	"testing"

	"sendcode/internal/simulate"
)

var (
	seeds    = flag.Int("simulate.seeds", 300, "how many worlds")
	from     = flag.Uint64("simulate.from", 1, "the first seed")
	replicas = flag.Int("simulate.replicas", 0, "of each world; 0: two or three, as the seed says")
)

func TestWorlds(t *testing.T) {
	for seed := *from; seed < *from+uint64(*seeds); seed++ {
		p := simulate.NewPlan(seed, *replicas)
		r := simulate.Run(t, p, simulate.Options{})
		if len(r.Violations) > 0 {
			p = simulate.Shrink(t, p, r.Violations[0].Oracle, simulate.Options{})
			t.Errorf("%s", simulate.Run(t, p, simulate.Options{}).Story())
		}
	}
}
