package quota

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Scripts with the mistakes of docs/SIX-LIMITERS.md. In a short random schedule, each admits a fourth event of three within ten seconds.

const (
	pitfallLimit  = 3
	pitfallWindow = 10 * time.Second
)

// pitfallStep is one caller, or two whose calls overlap.
type pitfallStep struct {
	gap  time.Duration // since the step before
	skew time.Duration // of the caller's clock
	pair bool
}

// starts begins a call. ends ends it, and reports whether it was admitted.
type starts func(id string, now time.Time, skew time.Duration) (ends func() bool)

// naiveScript drops what is too old, counts and adds. Its arguments are the instant in ms, the window in ms, the limit and the member.
var naiveScript = redis.NewScript(`redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[4])
return 1`)

func pitfalls(t *testing.T, client redis.UniversalClient) map[string]starts {
	run := func(now time.Time, limit int, member any) func() bool {
		n, err := naiveScript.Run(t.Context(), client, []string{"naive"}, now.UnixMilli(), pitfallWindow.Milliseconds(), limit, member).Int()
		must(t, err)
		return func() bool { return n == 1 }
	}
	return map[string]starts{
		"check then add": func(id string, now time.Time, _ time.Duration) func() bool {
			from := fmt.Sprint("(", now.Add(-pitfallWindow).UnixMilli())
			used, err := client.ZCount(t.Context(), "naive", from, "+inf").Result()
			must(t, err)
			return func() bool {
				if used >= pitfallLimit {
					return false
				}
				must(t, client.ZAdd(t.Context(), "naive", redis.Z{Score: float64(now.UnixMilli()), Member: id}).Err())
				return true
			}
		},
		"members by timestamp": func(_ string, now time.Time, _ time.Duration) func() bool {
			return run(now, pitfallLimit, now.UnixMilli())
		},
		"the client's clock": func(id string, now time.Time, skew time.Duration) func() bool {
			return run(now.Add(skew), pitfallLimit, id)
		},
		"three that admit four": func(id string, now time.Time, _ time.Duration) func() bool {
			return run(now, pitfallLimit+1, id) // as count <= limit does
		},
	}
}

// tooMany plays a schedule from an empty limiter, and reports whether it admitted more than the limit within a window.
func tooMany(w *world, start starts, steps []pitfallStep) bool {
	w.set(epoch)
	w.flush()
	var in []time.Time
	for n, s := range steps {
		w.pass(s.gap)
		ends := []func() bool{start(fmt.Sprint(n), w.now, s.skew)}
		if s.pair {
			ends = append(ends, start(fmt.Sprint(n, " too"), w.now, s.skew))
		}
		for _, end := range ends {
			if end() {
				in = append(in, w.now)
			}
		}
		if k := len(in) - 1 - pitfallLimit; k >= 0 && w.now.Sub(in[k]) < pitfallWindow {
			return true
		}
	}
	return false
}

func pitfallSchedule(seed uint64) (steps []pitfallStep) {
	dice := rand.New(rand.NewPCG(seed, 6))
	for range 12 {
		steps = append(steps, pitfallStep{
			gap:  []time.Duration{0, time.Millisecond, time.Second, 3 * time.Second, 9 * time.Second}[dice.IntN(5)],
			skew: []time.Duration{0, 0, 12 * time.Second, -12 * time.Second}[dice.IntN(4)],
			pair: dice.IntN(3) == 0,
		})
	}
	return steps
}

const pitfallSeeds = 40

func TestRandomSchedulesFindWhatPeopleWriteFirst(t *testing.T) {
	w := redisWorld(t)
	client := w.Limiter.(*Redis).client
	for name := range pitfalls(t, client) {
		t.Run(name, func(t *testing.T) {
			start := pitfalls(t, client)[name]
			for seed := range uint64(pitfallSeeds) {
				if tooMany(w, start, pitfallSchedule(seed)) {
					return
				}
			}
			t.Errorf("no counterexample in %d seeds", pitfallSeeds)
		})
	}
	t.Run("ours", func(t *testing.T) {
		let := 0
		ours := func(id string, _ time.Time, _ time.Duration) func() bool {
			d := w.takeID(id, sliding(Recipient, pitfallLimit, pitfallWindow))
			if d.Admitted {
				let++
			}
			return func() bool { return d.Admitted }
		}
		for seed := range uint64(pitfallSeeds) {
			if tooMany(w, ours, pitfallSchedule(seed)) {
				t.Fatalf("seed %d: %+v", seed, pitfallSchedule(seed))
			}
		}
		if let < pitfallSeeds*2*pitfallLimit {
			t.Errorf("only %d let in by %d schedules", let, pitfallSeeds)
		}
	})
}
