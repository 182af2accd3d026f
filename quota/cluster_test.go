package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// between returns a hook that calls do for each script. do gets the script's number, from 1, and a
// function that runs the script. If do returns an error, the script fails with this error.
func between(do func(n int, run func() error) error) hook {
	var n atomic.Int64
	return func(_ context.Context, cmds []redis.Cmder, next func([]redis.Cmder) error) error {
		if cmds[0].Name() != "evalsha" {
			return next(cmds)
		}
		err := do(int(n.Add(1)), func() error { return next(cmds) })
		cmds[0].SetErr(err)
		return err
	}
}

var errKilled = errors.New("killed")

// twice has the rules of two buckets, each of which admits two events. A Take of one ID runs four
// scripts: two that look at the buckets, and two that take a place in them.
var (
	twice      = []Rule{sliding(Recipient, 2, time.Hour), sliding(IP, 2, time.Hour)}
	takeSteps  = 4
	lookSteps  = 2
	clusterFor = slices.Sorted(maps.Values(buckets("ann", "office")))
)

// clusterLimiter returns a limiter whose scripts are run by do, and a second limiter on the same
// cluster. All nodes have the scripts of Take and Refund.
func clusterLimiter(t *testing.T, do func(n int, run func() error) error) (limiter, direct *Redis) {
	hooked, client := newClient(t, sharedCluster(t)), newClient(t, sharedCluster(t))
	hooked.AddHook(between(do))
	limiter, direct = withLongBudget(NewRedis(hooked, "q:")), withLongBudget(NewRedis(client, "q:"))
	flushAll(t, client)
	onEach(t, client, func(c redis.UniversalClient) error {
		return errors.Join(direct.take.Load(t.Context(), c).Err(), direct.refund.Load(t.Context(), c).Err())
	})
	return limiter, direct
}

func one(id, recipient string) Request {
	return Request{ID: id, Rules: twice[:1], Buckets: map[Scope]string{Recipient: recipient}}
}

func two(id, recipient, ip string) Request {
	return Request{ID: id, Rules: twice, Buckets: map[Scope]string{Recipient: recipient, IP: ip}}
}

// counted returns the IDs that a bucket counts.
func counted(t *testing.T, r *Redis, bucket string) []string {
	ids, err := r.client.ZRangeByScore(t.Context(), r.key(bucket), &redis.ZRangeBy{Min: "0", Max: "+inf"}).Result()
	must(t, err)
	slices.Sort(ids)
	return ids
}

// If a script fails, before or after it ran, nothing is admitted, no matter which script it is. A
// repeated Take admits the ID and counts it once. A refund removes the ID from both buckets.
func TestQuota10FaultBetweenSlotsAdmitsNothing(t *testing.T) {
	for n := 1; n <= takeSteps; n++ {
		for _, reaches := range []bool{false, true} {
			t.Run(fmt.Sprintf("script %d, reached %v", n, reaches), func(t *testing.T) {
				broken, whole := clusterLimiter(t, func(i int, run func() error) error {
					if i != n {
						return run()
					}
					if reaches {
						must(t, run())
					}
					return errKilled
				})
				ctx, want := t.Context(), max(0, n-lookSteps-1) // how many places were taken by the scripts that ran
				if n > lookSteps && reaches {
					want++
				}
				d, err := broken.Take(ctx, request("one", twice...))
				same(t, "unavailable", errors.Is(err, ErrUnavailable) && errors.Is(err, errKilled) && !d.Admitted, true)
				same(t, "places taken", len(counted(t, whole, clusterFor[0]))+len(counted(t, whole, clusterFor[1])), want)
				mustTake(t, whole, request("one", twice...), true)
				for _, name := range clusterFor {
					sameList(t, "counted", counted(t, whole, name), []string{"one"})
				}
				must(t, whole.Refund(ctx, "one", clusterFor...))
				left, err := whole.Peek(ctx, request("", twice...))
				must(t, err)
				sameList(t, "left after a refund", remaining(left), []int{2, 2})
			})
		}
	}
}

// refusedLate returns a limiter for which the second bucket refuses a Take with the rules in the
// variable twice, because that bucket counts two other events between the look and the take. The
// function after is called when the script of that take has run.
func refusedLate(t *testing.T, after func(others *Redis)) (limiter, direct *Redis) {
	limiter, direct = clusterLimiter(t, func(n int, run func() error) error {
		if n != takeSteps {
			return run()
		}
		must(t, direct.Record(t.Context(), clusterFor[1], time.Hour, []AgedEvent{{ID: "rival"}, {ID: "other"}}))
		defer after(direct)
		return run()
	})
	return limiter, direct
}

// If the second bucket refuses, the event in the first bucket is refunded, even if the caller has
// gone. The decision names the rule of the second bucket.
func TestQuota10ALateRefusalIsRefunded(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	limiter, direct := refusedLate(t, func(*Redis) { leave() })
	d, err := limiter.Take(ctx, request("late", twice...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
	sameList(t, "violated", d.Violated(), []string{"recipient"})
	sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{2, 0})
	look, err := direct.Peek(t.Context(), request("", twice...))
	must(t, err)
	sameList(t, "used", []int{look.Rules[0].Used, look.Rules[1].Used}, []int{2, 0})

	must(t, direct.Refund(t.Context(), "rival", clusterFor[1]))
	same(t, "the ID is refunded", errors.Is(second(direct.Take(t.Context(), request("late", twice...))), ErrRefunded), true)
	mustTake(t, direct, request("new", twice...), true)
}

// While a call is being refused, a copy of the call is not admitted, since the copy would rely on a
// place that is about to be refunded.
func TestQuota10ACopyOfARefusedCallIsNotAdmitted(t *testing.T) {
	limiter, _ := refusedLate(t, func(direct *Redis) {
		must(t, direct.Refund(t.Context(), "rival", clusterFor[1])) // now there is a place again
		d, err := direct.Take(t.Context(), request("late", twice...))
		same(t, "the copy is refunded", errors.Is(err, ErrRefunded) && !d.Admitted, true)
	})
	mustTake(t, limiter, request("late", twice...), false)
}

// If a repeated ID is refused late, places that an earlier call with the ID took are not refunded.
func TestQuota10RefusedRepetitionKeepsPlaces(t *testing.T) {
	limiter, direct := refusedLate(t, func(*Redis) {})
	must(t, direct.Record(t.Context(), clusterFor[0], time.Hour, []AgedEvent{{ID: "one"}}))
	mustTake(t, limiter, request("one", twice...), false)
	sameList(t, "counted still", counted(t, direct, clusterFor[0]), []string{"one"})
	must(t, second(direct.Take(t.Context(), request("one", twice...)))) // there is no tombstone
}

// On a Cluster, a bucket that is only read is read once, before anything is counted. A late refusal
// would need a tombstone in the bucket, but a bucket that is only read ignores IDs.
func TestQuota15OnClusterFailuresAreLookedAtOnce(t *testing.T) {
	var steps atomic.Int64
	limiter, direct := clusterLimiter(t, func(_ int, run func() error) error {
		steps.Add(1)
		return run()
	})
	rules := []Rule{sliding(Recipient, 2, time.Hour), {Name: "failures", Scope: failures, Limit: 1, Window: time.Hour, Recorded: true}}
	req := Request{ID: "one", Rules: rules, Buckets: map[Scope]string{Recipient: ann(), failures: Bucket("failures", "ann")}}
	for range 2 { // a repetition gets the same answer
		d := mustTake(t, limiter, req, true)
		sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{1, 0})
	}
	same(t, "scripts of both: two looks and one take each", steps.Load(), 6)
	same(t, "what stands in the bucket", direct.client.Exists(t.Context(), limiter.key(req.Buckets[failures])).Val(), 0)
	must(t, limiter.Record(t.Context(), req.Buckets[failures], time.Hour, []AgedEvent{{ID: "x"}}))
	req.ID = "two"
	d := mustTake(t, limiter, req, false)
	sameList(t, "violated", d.Violated(), []string{"failures"})
}

// Many callers call Take at the same time, some of them with the same ID, and about one script in
// ten fails before or after it ran. If an ID was admitted for one caller, all its buckets count it.
// No bucket counts more events than its limit.
func TestQuota10LimitHoldsUnderFaults(t *testing.T) {
	const callers, calls, limit = 16, 40, 5
	rules := []Rule{sliding(Recipient, limit, time.Hour), sliding(IP, limit, time.Hour), sliding(App, limit, time.Hour)}
	limiter, direct := clusterLimiter(t, func(_ int, run func() error) error {
		switch rand.IntN(20) {
		case 0:
			return errKilled
		case 1:
			_ = run()
			return errKilled
		}
		return run()
	})
	var mu sync.Mutex
	admitted := map[string]map[string]bool{} // by bucket and ID
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				n := rand.IntN(callers * calls / 4)
				// A repeated ID has the same buckets.
				req := Request{ID: fmt.Sprint(n), Rules: rules, Buckets: map[Scope]string{
					Recipient: Bucket("r", fmt.Sprint(n%6)), IP: Bucket("ip", fmt.Sprint(n/6%6)), App: Bucket("app", fmt.Sprint(n/36)),
				}}
				d, err := limiter.Take(t.Context(), req)
				if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, ErrRefunded) {
					t.Error(err)
				}
				if err != nil || !d.Admitted {
					continue
				}
				mu.Lock()
				for _, b := range req.Buckets {
					if admitted[b] == nil {
						admitted[b] = map[string]bool{}
					}
					admitted[b][req.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(admitted) < 12 {
		t.Errorf("only %d buckets admitted an event", len(admitted))
	}
	for b, ids := range admitted {
		countedIDs := counted(t, direct, b)
		if len(countedIDs) > limit {
			t.Errorf("%s counts %d", b, len(countedIDs))
		}
		for id := range ids {
			if !slices.Contains(countedIDs, id) {
				t.Errorf("%s was admitted and does not count in %s", id, b)
			}
		}
	}
}

// If a client of a single server talks to a node of a Cluster, the probe and the calls say so. If
// the URL is that of a Cluster, the same node gives no error.
func TestANodeOfAClusterBehindAPlainURL(t *testing.T) {
	for _, node := range clusterServer(t).Nodes[:2] {
		limiter := withLongBudget(NewRedis(newClient(t, node.URL()+servertest.LongTimeouts), "q:"))
		_, err := limiter.Take(t.Context(), request("one", twice...))
		for what, err := range map[string]error{"a send": err, "the probe": limiter.Ping(t.Context())} {
			if !errors.Is(err, ErrClusterNode) || !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		whole := withLongBudget(NewRedis(newClient(t, "redis+cluster://"+node.Addr()+servertest.LongTimeouts), "q:"))
		must(t, whole.Ping(t.Context()))
	}
}

// If a client of a single server talks to a Sentinel, the error says so.
func TestASentinelBehindAPlainURL(t *testing.T) {
	primary, _, _ := replicated(t)
	sentinel := servertest.Sentinel(t, primary.Addr())
	must(t, withLongBudget(NewRedis(newClient(t, primary.URL()+servertest.LongTimeouts), "q:")).Ping(t.Context()))
	err := withLongBudget(NewRedis(newClient(t, "redis://"+sentinel.Addr()+servertest.LongTimeouts), "q:")).Ping(t.Context())
	if !errors.Is(err, ErrSentinel) || !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}
