package quota

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"sendcode/internal/parts"
)

var steps = flag.Int("quota.steps", 10_000, "steps of the random schedule")

// TestRandomScheduleOfManySteps holds memory, Redis, a cluster and the naive model against each other.
func TestRandomScheduleOfManySteps(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 1))
			s := newSchedule(t, dice.IntN, memoryWorld(t), rememberingWorld(t), redisWorld(t), clusterWorld(t))
			for i := range *steps / 4 {
				if s.step(); t.Failed() {
					t.Fatalf("seed %d, step %d", seed, i)
				}
			}
			s.mustHaveSeen("admitted", "refused", "refunded", "repeated", "freed", "in the future", "stepped back", "refused by the hour", "free with the hour", "let in by observing rules", "refused by failures alone")
		})
	}
}

// TestRandomSchedulesShrunk finds the shortest schedule where they differ.
func TestRandomSchedulesShrunk(t *testing.T) {
	client := newClient(t, parts.Redis(t).URL()+patiently)
	rapid.Check(t, func(rt *rapid.T) {
		s := newSchedule(rt, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "dice") }, memoryWorld(rt), rememberingWorld(rt), fakeRedis(rt, client))
		s.flush()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			s.step()
		}
	})
}
