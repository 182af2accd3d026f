package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// crowd is a limiter whose lanes are all taken by calls that wait until the channel open is closed.
type crowd struct {
	*Redis
	t       *testing.T
	client  redis.UniversalClient // this client does not wait for open
	open    chan struct{}
	callers sync.WaitGroup

	mu    sync.Mutex
	trips []int // how many scripts each round trip had
	of    []any // the value in the context of each round trip
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, open: make(chan struct{}), client: newClient(t, sharedRedis(t))}
	flushAll(t, c.client)
	hooked := newClient(t, sharedRedis(t))
	c.Redis = withLongBudget(NewRedis(hooked, "q:"))
	must(t, second(c.Take(t.Context(), recipientRequest("warm", "warm"))))
	hooked.AddHook(hook(func(ctx context.Context, cmds []redis.Cmder, next func([]redis.Cmder) error) error {
		if cmds[0].Name() == "evalsha" { // leaves out the commands that open a connection
			c.mu.Lock()
			c.trips, c.of = append(c.trips, len(cmds)), append(c.of, ctx.Value(c))
			c.mu.Unlock()
			<-c.open
		}
		return next(cmds)
	}))
	for i := range roundTripLanes {
		c.callers.Go(func() { must(t, c.Refund(t.Context(), "lane", Bucket("lane", fmt.Sprint(i)))) })
	}
	servertest.Await(t, "the lanes to be taken", func() bool { return len(c.sizes()) == roundTripLanes })
	return c
}

func (c *crowd) sizes() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.trips)
}

func (c *crowd) awaitPipe(what string, is func(*callBatcher) bool) {
	servertest.Await(c.t, what, func() bool {
		c.pipe.mu.Lock()
		defer c.pipe.mu.Unlock()
		return is(c.pipe)
	})
}

func (c *crowd) awaitWaiting(n int) {
	c.awaitPipe("the others to wait", func(p *callBatcher) bool { return len(p.waiting) == n })
}

func recipientRequest(id, name string) Request {
	return Request{ID: id, Rules: []Rule{sliding(Recipient, 9, time.Hour)}, Buckets: map[Scope]string{Recipient: Bucket("r", name)}}
}

func (c *crowd) take(id string) error {
	d, err := c.Take(c.t.Context(), recipientRequest(id, id))
	if err == nil && (!d.Admitted || d.Rules[0].Used != 1) {
		err = fmt.Errorf("not as it is alone: %+v", d)
	}
	return err
}

// goTogether starts n Takes that wait for a lane, calls meanwhile, and then releases the Takes.
func (c *crowd) goTogether(n int, meanwhile func()) []error {
	errs, before := make([]error, n), len(c.pipe.waiting)
	for i := range n {
		c.callers.Go(func() { errs[i] = c.take(fmt.Sprint(i)) })
	}
	c.awaitWaiting(before + n)
	meanwhile()
	close(c.open)
	c.callers.Wait()
	return errs
}

// Calls that wait for a lane share round trips of at most maxBatch calls. If one of the calls has
// an error, the others succeed.
func TestPipeSharesRoundTrip(t *testing.T) {
	c := newCrowd(t)
	must(t, c.client.Set(t.Context(), c.key(Bucket("r", "7")), "not a sorted set", 0).Err())
	for i, err := range c.goTogether(maxBatch+50, func() {}) {
		if (i == 7) != errors.Is(err, ErrUnavailable) || i != 7 && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	trips := c.sizes()[roundTripLanes:]
	slices.Sort(trips)
	sameList(t, "scripts of each round trip", trips, []int{50, maxBatch})
}

// If a goroutine panics, only the calls of its round trip fail: the process continues, and the lane
// is free.
func TestAPanicFailsTheCallsOfItsRoundTrip(t *testing.T) {
	c := newCrowd(t)
	panics := make(chan any, 9)
	c.OnPanic = func(value any) { panics <- value }
	c.Redis.client.AddHook(hook(func(_ context.Context, cmds []redis.Cmder, next func([]redis.Cmder) error) error {
		if len(cmds) == 50 {
			panic("planted")
		}
		return next(cmds)
	}))
	for i, err := range c.goTogether(50, func() {}) {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%d: %v", i, err)
		}
	}
	same(t, "panics", <-panics, any("planted"))
	must(t, c.take("next"))
	c.awaitPipe("all lanes to be free", func(p *callBatcher) bool { return p.busy == 0 })
	err := c.concurrently(2, func(i int) error { return []error{nil}[i] })
	same(t, "error on Cluster", errors.Is(err, ErrUnavailable) && len(panics) == 1, true)
}

func TestPipeReloadsFlushedScript(t *testing.T) {
	c := newCrowd(t)
	c.callers.Go(func() { must(t, c.Refund(t.Context(), "x", Bucket("other script"))) })
	c.awaitWaiting(1) // the first of 51 calls runs another script than the others
	for i, err := range c.goTogether(50, func() { must(t, c.client.ScriptFlush(t.Context()).Err()) }) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A shared round trip has the values in the context of its oldest caller, so it belongs to the
// trace of that caller, even if the caller leaves meanwhile.
func TestASharedRoundTripBelongsToItsOldestCaller(t *testing.T) {
	c := newCrowd(t)
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), c, "oldest"))
	c.callers.Go(func() { _, _ = c.Take(ctx, recipientRequest("oldest", "oldest")) })
	c.awaitWaiting(1)
	for i, err := range c.goTogether(2, leave) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	sameList(t, "whose trips", c.of[roundTripLanes:], []any{"oldest"})
}

// If a caller leaves while it waits, nothing is sent for it. If only one caller waits, its round
// trip has one call.
func TestPipeDropsCanceledCaller(t *testing.T) {
	c := newCrowd(t)
	ctx, leave := context.WithCancel(t.Context())
	var left error
	var gone sync.WaitGroup
	gone.Go(func() { _, left = c.Take(ctx, recipientRequest("gone", "gone")) })
	c.awaitWaiting(1)
	leave()
	gone.Wait() // while the lanes are still taken
	same(t, "unavailable", errors.Is(left, ErrUnavailable) && errors.Is(left, context.Canceled), true)
	close(c.open)
	c.callers.Wait()
	c.awaitPipe("the lanes to be free", func(p *callBatcher) bool { return p.busy == 0 })
	for i := range 3 {
		must(t, c.take(fmt.Sprint(i)))
	}
	sameList(t, "scripts of each round trip", c.sizes(), []int{1, 1, 1, 1, 1})
	same(t, "counted", len(counted(t, c.Redis, Bucket("r", "gone"))), 0)
}
