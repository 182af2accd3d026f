package admission

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// fakeDatabase is a database that decides a number of requests a second, in the order of their
// arrival, and answers each after the delay base. It does not decide requests whose callers have
// left.
type fakeDatabase struct {
	rate float64
	base time.Duration

	mu      sync.Mutex
	waiting []chan struct{}
	working bool
	free    time.Time // no request is decided before this instant
}

// serve waits for its turn and for the answer, but no longer than a call may take. It reports
// whether the answer came in time.
func (f *fakeDatabase) serve() bool {
	turn := make(chan struct{})
	f.mu.Lock()
	f.waiting = append(f.waiting, turn)
	if !f.working {
		f.working = true
		go f.work()
	}
	f.mu.Unlock()
	select {
	case <-turn:
		time.Sleep(f.base)
		return true
	case <-time.After(store.CallTimeout - f.base):
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waiting = slices.DeleteFunc(f.waiting, func(c chan struct{}) bool { return c == turn })
		return false
	}
}

func (f *fakeDatabase) work() {
	time.Sleep(time.Until(f.free))
	for {
		time.Sleep(time.Duration(float64(time.Second) / f.rate))
		f.mu.Lock()
		if len(f.waiting) == 0 {
			f.working = false
			f.mu.Unlock()
			return
		}
		close(f.waiting[0])
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
	}
}

// offered counts the answers to a load.
type offered struct{ served, late, refused, refusedLate atomic.Int64 }

// refusedWithin is the longest time until an overloaded service refuses a request, on the test's
// clock.
const refusedWithin = 100 * time.Millisecond

// offer sends rate requests a second, evenly, for as long as lasts says. It returns when all
// requests have ended.
func offer(a *Limiter, p *fakeDatabase, rate int, lasts time.Duration, stranger func(n int) bool) *offered {
	var o offered
	var all sync.WaitGroup
	for n := range int(lasts.Seconds() * float64(rate)) {
		all.Go(func() {
			asked := time.Now()
			decided, err := a.Enter(stranger(n))
			if err != nil {
				o.refused.Add(1)
				if time.Since(asked) > refusedWithin {
					o.refusedLate.Add(1)
				}
				return
			}
			if p.serve() {
				o.served.Add(1)
				decided(true)
			} else {
				o.late.Add(1)
				decided(false)
			}
		})
		time.Sleep(time.Second / time.Duration(rate))
	}
	all.Wait()
	return &o
}

func nobody(int) bool { return false }
func all(int) bool    { return true }

// With 2, 5 and 20 times as many requests as a database can serve, at least 80 % of its capacity is
// served in time, and the other requests are refused at once, whatever its rate and delay are.
// Without the limit, almost nothing would be served.
func TestOverloadIsServedAtCapacity(t *testing.T) {
	for _, c := range []struct {
		rate float64
		base time.Duration
	}{
		{150, 300 * time.Millisecond},
		{200, 450 * time.Millisecond},
		{400, 2 * time.Second},
		{1000, 10 * time.Millisecond},
	} {
		for _, times := range []int{2, 5, 20} {
			servertest.Bubble(t, func(t *testing.T) {
				a, p := New(), &fakeDatabase{rate: c.rate, base: c.base}
				offer(a, p, int(c.rate)*times, 5*time.Second, nobody) // in this time the limiter measures the database
				o := offer(a, p, int(c.rate)*times, 10*time.Second, nobody)
				// only requests of the beginning are late
				if share := float64(o.served.Load()) / (10 * c.rate); share < .8 ||
					o.late.Load() > int64(slowAfter.Seconds()*c.rate)*int64(times) || o.refusedLate.Load() > 0 {
					t.Errorf("%v a second, %v: %d times as many: %.2f served, %d late, %d refused, %d of them after %v", c.rate, c.base,
						times, share, o.late.Load(), o.refused.Load(), o.refusedLate.Load(), refusedWithin)
				}
			})
		}
	}
}

// A load below the capacity is never refused, even after an overload.
func TestNothingIsRefusedBelowCapacity(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		a, p := New(), &fakeDatabase{rate: 200, base: 450 * time.Millisecond}
		for _, over := range []bool{false, true, false, true} {
			if over {
				offer(a, p, 1000, 20*time.Second, nobody)
			}
			o := offer(a, p, 160, 20*time.Second, nobody)
			servertest.Same(t, "refused", o.refused.Load()+o.late.Load(), 0)
		}
	})
}

// While a database stands still, few requests wait, and the others are refused at once. When the
// database continues, so do sends.
func TestLimiterRecoversFromAStandstill(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		a, p := New(), &fakeDatabase{rate: 200, base: 20 * time.Millisecond}
		offer(a, p, 100, 10*time.Second, nobody)
		p.free = time.Now().Add(25 * time.Second)
		o := offer(a, p, 400, 20*time.Second, nobody)
		if late := o.late.Load(); late > 5*minUnderWayLimit { // minUnderWayLimit requests in each CallTimeout
			t.Errorf("%d of 8,000 waited in vain", late)
		}
		time.Sleep(5 * time.Second)
		o = offer(a, p, 400, 10*time.Second, nobody)
		if o.served.Load() < 1600 || o.late.Load() > 0 {
			t.Errorf("%d of 2,000 served after a standstill, %d late", o.served.Load(), o.late.Load())
		}
	})
}

// Strangers have at most half of the places, so others are served as if they were alone.
// TestRefuseIfFull tests the bounds.
func TestLimiterGivesStrangersHalf(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		a, p := New(), &fakeDatabase{rate: 200, base: 450 * time.Millisecond}
		offer(a, p, 1000, 10*time.Second, all)
		known := make(chan *offered)
		go func() { known <- offer(a, p, 50, 20*time.Second, nobody) }()
		strangers := offer(a, p, 1000, 20*time.Second, all)
		o := <-known
		if o.served.Load() != 1000 || strangers.served.Load() < 2000 {
			t.Errorf("%d of 1,000 known served, %d refused; %d strangers served", o.served.Load(), o.refused.Load(),
				strangers.served.Load())
		}
	})
}

// A request that was not read yet is refused only if every request would be refused. Strangers get
// no place if others have taken all places.
func TestRefuseIfFull(t *testing.T) {
	const half = MaxUnderWay / 2
	type refusals struct{ unread, known, stranger bool }
	none, strangers, all := refusals{}, refusals{stranger: true}, refusals{true, true, true}
	for _, c := range []struct {
		strangers, known int
		stalled          bool // the database has stood still for so long that the limit is lower
		want             refusals
	}{
		{0, 2*half - 1, false, none},
		{0, 2 * half, false, all},
		{half - 1, half + 1, false, all},
		{half, half, false, all},
		{half, half - 1, false, strangers},
		{half, 0, true, strangers},
		{half - 1, 1, true, strangers},
		{0, half, true, all},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			a := New()
			for n := range c.strangers + c.known {
				if _, err := a.Enter(n < c.strangers); err != nil {
					t.Fatal(n, err)
				}
			}
			most := MaxUnderWay
			if c.stalled {
				most = minUnderWayLimit
				time.Sleep(time.Minute)
			}
			refused := a.RefuseIfFull(ClassStranger)
			if refused != nil {
				overloaded, ok := errors.AsType[*OverloadedError](refused)
				again := ok && overloaded.RetryAfter > 0 && errors.Is(refused, fault.Unavailable)
				servertest.Same(t, "the refused may ask again", again, true)
			}
			got := refusals{a.RefuseIfFull(ClassUnread) != nil, a.RefuseIfFull(ClassKnown) != nil, refused != nil}
			servertest.Same(t, fmt.Sprintf("%+v: refused", c), got, c.want)
			state := a.Stats()
			servertest.Same(t, "limit", state.Limit, most)
			servertest.Same(t, "strangers under way", state.UnderWay[ClassStranger], c.strangers)
			servertest.Same(t, "known under way", state.UnderWay[ClassKnown], c.known)
			so := refusals{state.Refused[ClassUnread] > 0, state.Refused[ClassKnown] > 0, state.Refused[ClassStranger] > 0}
			servertest.Same(t, "refused so far", so, c.want)
		})
	}
}

// A request leaves once, and a request that was not decided does not count in the rate.
func TestLimiterLeavesOnce(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		a := New()
		first, _ := a.Enter(true)
		for decided := range 2 {
			leave, _ := a.Enter(true)
			leave(decided == 1)
			leave(true)
		}
		servertest.Same(t, "under way", a.underWay.Len(), 1)
		first(true)
		servertest.Same(t, "under way and strangers", a.underWay.Len()+a.strangers, 0)
		sum := 0
		for _, n := range a.decided {
			sum += n
		}
		servertest.Same(t, "decided", sum, 2)
	})
}
