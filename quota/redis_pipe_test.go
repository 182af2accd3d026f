package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// gate is a hook that holds back single scripts until it is opened, and records how many scripts each round trip has.
type gate struct {
	open  chan struct{}
	mu    sync.Mutex
	trips []int
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			g.note(1)
			<-g.open
		}
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // not what opens a connection
			g.note(len(cmds))
		}
		return next(ctx, cmds)
	}
}

func (g *gate) note(scripts int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trips = append(g.trips, scripts)
}

func (g *gate) sizes() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.trips)
}

// crowd is a limiter whose lanes are taken by calls that wait at the gate.
type crowd struct {
	*Redis
	*gate
	t       *testing.T
	client  redis.UniversalClient // past the gate
	callers sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, gate: &gate{open: make(chan struct{})}, client: newClient(t, sharedRedis(t))}
	flushAll(t, c.client)
	hooked := newClient(t, sharedRedis(t))
	c.Redis = patient(NewRedis(hooked, "q:"))
	must(t, second(c.Take(t.Context(), recipientRequest("warm", "warm"))))
	hooked.AddHook(c.gate)
	for i := range lanes {
		c.callers.Go(func() { must(t, c.Refund(t.Context(), "lane", Bucket("lane", fmt.Sprint(i)))) })
	}
	await(t, "the lanes to be taken", func() bool { return len(c.sizes()) == lanes })
	return c
}

func (c *crowd) awaitWaiting(n int) {
	await(c.t, "the others to wait", func() bool {
		c.pipe.mu.Lock()
		defer c.pipe.mu.Unlock()
		return len(c.pipe.waiting) == n
	})
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

// goTogether starts n takes that wait for a lane, calls meanwhile, and opens the gate.
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

func TestOneCallerAloneGoesByItself(t *testing.T) {
	c := newCrowd(t)
	close(c.open)
	c.callers.Wait()
	for i := range 3 {
		must(t, c.take(fmt.Sprint(i)))
	}
	sameList(t, "scripts of each round trip", c.sizes(), []int{1, 1, 1, 1, 1})
}

func TestCallersWhoComeMeanwhileShareARoundTrip(t *testing.T) {
	c := newCrowd(t)
	for i, err := range c.goTogether(maxShared+50, func() {}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	trips := c.sizes()[lanes:]
	slices.Sort(trips)
	sameList(t, "scripts of each round trip", trips, []int{50, maxShared})
	for i := range maxShared + 50 {
		same(t, "counted", len(counted(t, c.client, c.Redis, Bucket("r", fmt.Sprint(i)))), 1)
	}
}

func TestAScriptThatWasFlushedIsLoadedAgainInASharedRoundTrip(t *testing.T) {
	c := newCrowd(t)
	c.callers.Go(func() { must(t, c.Refund(t.Context(), "x", Bucket("other script"))) })
	c.awaitWaiting(1) // the first of 51 runs another script than the rest
	for i, err := range c.goTogether(50, func() { must(t, c.client.ScriptFlush(t.Context()).Err()) }) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestTheErrorOfOneCallHurtsNoOther(t *testing.T) {
	c := newCrowd(t)
	must(t, c.client.Set(t.Context(), c.Key(Bucket("r", "7")), "not a sorted set", 0).Err())
	for i, err := range c.goTogether(20, func() {}) {
		if (i == 7) != errors.Is(err, ErrUnavailable) || i != 7 && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestWhoLeavesBeforeItsTurnAsksNothing(t *testing.T) {
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
	must(t, c.take("after"))
	same(t, "counted", len(counted(t, c.client, c.Redis, Bucket("r", "gone"))), 0)
	await(t, "the lanes to be free", func() bool {
		c.pipe.mu.Lock()
		defer c.pipe.mu.Unlock()
		return c.pipe.busy == 0
	})
}

// A recipient's first event costs the script and four commands, however many rules count it.
func TestRedisCommandsOfATake(t *testing.T) {
	l, client := real(t)
	request := func() Request { return Request{ID: newID(), Rules: defaults, Buckets: buckets(newID(), "office")} }
	must(t, second(l.Take(t.Context(), request()))) // the script is known
	must(t, client.ConfigResetStat(t.Context()).Err())
	const takes = 10
	for range takes {
		must(t, second(l.Take(t.Context(), request())))
	}
	stats := client.Info(t.Context(), "commandstats").Val()
	for _, c := range []string{"evalsha", "time", "zcard", "zadd", "pexpireat"} {
		if want := fmt.Sprintf("cmdstat_%s:calls=%d,", c, takes); !strings.Contains(stats, want) {
			t.Errorf("no %q in\n%s", want, stats)
		}
	}
	if n := strings.Count(stats, "cmdstat_") - strings.Count(stats, "cmdstat_config|resetstat") - strings.Count(stats, "cmdstat_info"); n != 5 {
		t.Errorf("%d kinds of commands in\n%s", n, stats)
	}
}
