//go:build nightly

package bench

import (
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	attackers    = 256
	honestASec   = 100 // honest requests a second, each for another recipient
	honestLimit  = 50  // how many connections honest people have
	attackWarmup = time.Second
)

// TestOneRecipientAttacked measures a 202 for honest people in quiet times, and while attackers
// request codes for one recipient without pause. No honest request may be refused. It logs the
// median and the slowest of a hundred, and how many refusals the attackers got a second.
func TestOneRecipientAttacked(t *testing.T) {
	b := openRig(t)
	b.startAll()
	for round := range *rounds {
		for i := range b.contenders {
			c := b.contenders[(i+round)%len(b.contenders)]
			if !slices.Contains(c.knows, flood) {
				continue
			}
			quiet := b.honest(c, *length)
			var attacked []time.Duration
			refusals := b.attack(c, func() {
				<-time.After(attackWarmup)
				attacked = b.honest(c, *length)
			})
			t.Logf("%-12s quiet %v, attacked %v (p50, p99); %.0f refusals a second", c.name,
				[]time.Duration{middle(quiet), slowest(quiet)}, []time.Duration{middle(attacked), slowest(attacked)},
				float64(refusals)/(*length+attackWarmup).Seconds())
		}
	}
}

func middle(d []time.Duration) time.Duration  { return d[len(d)/2].Round(10 * time.Microsecond) }
func slowest(d []time.Duration) time.Duration { return d[len(d)*99/100].Round(10 * time.Microsecond) }

// honest sends requests at a fixed rate, whether or not earlier ones have been answered. It returns
// how long the answers took, in ascending order.
func (ri *rig) honest(c *contender, during time.Duration) (took []time.Duration) {
	idle := make(chan *caller, honestLimit)
	for range honestLimit {
		idle <- &caller{base: c.base}
	}
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / honestASec)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < during; {
		due := <-tick.C
		all.Go(func() {
			x := <-idle
			_, err := c.one(x, send, ri.recipient())
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
			if err != nil {
				failed = err
			}
			idle <- x
		})
	}
	all.Wait()
	for range honestLimit {
		(<-idle).close()
	}
	ri.must(failed)
	slices.Sort(took)
	return took
}

// attack calls during while attackers send requests for one recipient. It returns how many of
// these were refused.
func (ri *rig) attack(c *contender, during func()) (refusals int) {
	victim := ri.recipient()
	x := &caller{base: c.base}
	_, err := c.one(x, send, victim)
	ri.must(err)
	x.close()
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		refusals = len(ri.closed(c, attackers, flood, func() *opened {
			select {
			case <-stop:
				return nil
			default:
				return victim
			}
		}))
	})
	during()
	close(stop)
	all.Wait()
	return refusals
}
