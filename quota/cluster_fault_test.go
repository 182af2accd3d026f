package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// Many callers, some with the same ID at the same time, and every tenth script dies before or after it ran. Whatever
// comes of it: an ID that was admitted to anybody counts in all its buckets, and no bucket has more of them than its limit.
func TestQuota10NothingIsAdmittedOverTheLimitWhateverFails(t *testing.T) {
	const callers, calls, limit = 16, 40, 5
	rules := []Rule{sliding(Recipient, limit, time.Hour), sliding(IP, limit, time.Hour), sliding(App, limit, time.Hour)}
	limiter, client := clusterLimiter(t, between(func(_ int, run func() error) error {
		switch rand.IntN(20) {
		case 0:
			return errKilled
		case 1:
			_ = run()
			return errKilled
		}
		return run()
	}))
	var mu sync.Mutex
	admitted := map[string]map[string]bool{} // bucket, ID
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				req := Request{ID: fmt.Sprint(rand.IntN(callers * calls / 4)), Rules: rules, Buckets: map[Scope]string{
					Recipient: Bucket("r", fmt.Sprint(rand.IntN(6))), IP: Bucket("ip", fmt.Sprint(rand.IntN(6))),
					App: Bucket("app", fmt.Sprint(rand.IntN(6))),
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
		t.Errorf("only %d buckets let anybody in", len(admitted))
	}
	whole := NewRedis(client, "q:")
	for b, ids := range admitted {
		holds := counted(t, client, whole, b)
		if len(holds) > limit {
			t.Errorf("%s counts %d", b, len(holds))
		}
		for id := range ids {
			if !slices.Contains(holds, id) {
				t.Errorf("%s was admitted and does not count in %s", id, b)
			}
		}
	}
}

// homes gives the name of a bucket on each node of the cluster.
func homes(t *testing.T, r *Redis) (names []string) {
	const slots = 16384
	for node := range 3 {
		for i := 0; ; i++ {
			name := Bucket("home", fmt.Sprint(i))
			slot := r.client.ClusterKeySlot(t.Context(), r.Key(name)).Val()
			if slots*node/3 <= int(slot) && int(slot) < slots*(node+1)/3 {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

func one(id, recipient string) Request {
	return Request{ID: id, Rules: twice[:1], Buckets: map[Scope]string{Recipient: recipient}}
}

func two(id, recipient, ip string) Request {
	return Request{ID: id, Rules: twice, Buckets: map[Scope]string{Recipient: recipient, IP: ip}}
}

func TestQuota10AMasterThatIsGoneAdmitsNothingOfItsOwn(t *testing.T) {
	cluster := parts.Cluster(t)
	limiter := NewRedis(newClient(t, cluster.URL()), "q:")
	home := homes(t, limiter)
	ctx := t.Context()
	must(t, limiter.Ping(ctx))
	cluster.Nodes[1].Stop()
	for _, req := range []Request{one("a", home[1]), two("b", home[0], home[1]), two("c", home[1], home[2])} {
		begin := time.Now()
		d, err := limiter.Take(ctx, req)
		same(t, "unavailable", errors.Is(err, ErrUnavailable) && !d.Admitted, true)
		if took := time.Since(begin); took > 10*budget {
			t.Errorf("after %v", took)
		}
	}
	mustBeUnavailable(t, map[string]error{
		"peek": second(limiter.Peek(ctx, two("", home[0], home[1]))), "refund": limiter.Refund(ctx, "x", home[0], home[1]),
		"reset": limiter.Reset(ctx, home[0], home[1]), "record": limiter.Record(ctx, home[1], time.Hour, []Event{{"x", time.Now()}}),
		"ping": limiter.Ping(ctx),
	})
	d, err := limiter.Take(ctx, two("d", home[0], home[2]))
	must(t, err)
	same(t, "admitted where the masters are there", d.Admitted, true)
	same(t, "used, with nothing of those that failed", d.Rules[0].Used, 1)
	await(t, "the cluster to notice", func() bool { return errors.Is(limiter.Ping(ctx), ErrUnavailable) })
	must(t, cluster.Nodes[1].Start())
	await(t, "the cluster to be whole", func() bool { return limiter.Ping(ctx) == nil })
	await(t, "takes to go on", func() bool { d, err := limiter.Take(ctx, one("a", home[1])); return err == nil && d.Admitted })
}

// All masters are there, but a slot is not served.
func TestQuota14PingMissesASlotThatIsNotServed(t *testing.T) {
	cluster := parts.Cluster(t)
	limiter := NewRedis(newClient(t, cluster.URL()), "q:")
	must(t, limiter.Ping(t.Context()))
	for _, node := range cluster.Nodes {
		_ = newClient(t, node.URL()).Do(t.Context(), "cluster", "delslots", 0).Err() // those to whom it isn't assigned say so
	}
	same(t, "ping", errors.Is(limiter.Ping(t.Context()), ErrUnavailable), true)
	must(t, newClient(t, cluster.Nodes[0].URL()).Do(t.Context(), "cluster", "addslots", 0).Err())
	await(t, "the cluster to be whole", func() bool { return limiter.Ping(t.Context()) == nil })
}

// A cluster that wants to be whole says CLUSTERDOWN for every slot.
func TestQuota14AClusterThatIsDownAdmitsNothing(t *testing.T) {
	cluster := parts.Cluster(t, "--cluster-require-full-coverage", "yes")
	limiter := NewRedis(newClient(t, cluster.URL()), "q:")
	home := homes(t, limiter)
	cluster.Nodes[2].Stop()
	direct := newClient(t, cluster.Nodes[0].URL())
	await(t, "the others to notice", func() bool {
		return redis.HasErrorPrefix(direct.Get(t.Context(), limiter.Key(home[0])).Err(), "CLUSTERDOWN")
	})
	_, err := limiter.Take(t.Context(), one("a", home[0]))
	same(t, "unavailable", errors.Is(err, ErrUnavailable), true)
	same(t, "ping", errors.Is(limiter.Ping(t.Context()), ErrUnavailable), true)
}

// While a slot moves to another master, and after, its bucket stays exact: MOVED and ASK are followed.
func TestQuota10ASlotThatMovesStaysExact(t *testing.T) {
	cluster := parts.Cluster(t)
	client := newClient(t, cluster.URL())
	limiter := NewRedis(client, "q:")
	home := homes(t, limiter)
	ctx, key := t.Context(), limiter.Key(home[0])
	from, to := newClient(t, cluster.Nodes[0].URL()), newClient(t, cluster.Nodes[1].URL())
	admits := func(id string, want bool) {
		t.Helper()
		d, err := limiter.Take(ctx, two(id, home[0], home[2]))
		must(t, err)
		same(t, id+" admitted", d.Admitted, want)
	}
	id := func(c redis.UniversalClient) string { return c.Do(ctx, "cluster", "myid").Val().(string) }
	slot := client.ClusterKeySlot(ctx, key).Val()
	admits("one", true)
	must(t, to.Do(ctx, "cluster", "setslot", slot, "importing", id(from)).Err())
	must(t, from.Do(ctx, "cluster", "setslot", slot, "migrating", id(to)).Err())
	admits("one", true) // where it was, still
	host, port, err := net.SplitHostPort(cluster.Nodes[1].Addr())
	must(t, err)
	must(t, from.Do(ctx, "migrate", host, port, key, 0, 5000).Err())
	admits("two", true) // by ASK
	admits("three", false)
	for _, c := range []redis.UniversalClient{to, from} {
		must(t, c.Do(ctx, "cluster", "setslot", slot, "node", id(to)).Err())
	}
	admits("two", true) // by MOVED
	admits("four", false)
	must(t, limiter.Refund(ctx, "one", home...))
	admits("five", true)
	same(t, "on the new node", to.ZCard(ctx, key).Val() >= 2, true)
}

// Also when the caller has gone in between, a late refusal gives back.
func TestQuota10ACallerWhoHasGoneLeavesNoPlaceTaken(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	names := slices.Sorted(slices.Values([]string{clusterFor[Recipient], clusterFor[IP]}))
	var rival *Redis
	limiter, client := clusterLimiter(t, between(func(n int, run func() error) error {
		if n == takeSteps {
			must(t, rival.Record(t.Context(), names[1], time.Hour, []Event{{"rival", time.Now()}, {"other", time.Now()}}))
			defer leave()
		}
		return run()
	}))
	rival = NewRedis(client, "q:")
	_, _ = limiter.Take(ctx, request("gone", twice...))
	sameList(t, "counted", counted(t, client, rival, names[0]), nil)
}

// On Cluster a bucket that is only looked at is asked once, before any place is taken: who is refused there late would
// have to keep its ID from being admitted by a copy, and would do so in a bucket that minds no ID.
func TestQuota15OnClusterFailuresAreLookedAtOnce(t *testing.T) {
	var steps atomic.Int64
	limiter, client := clusterLimiter(t, between(func(_ int, run func() error) error {
		steps.Add(1)
		return run()
	}))
	rules := []Rule{sliding(Recipient, 2, time.Hour), {Name: "failures", Scope: Failures, Limit: 1, Window: time.Hour}}
	req := Request{ID: "one", Rules: rules, Buckets: map[Scope]string{Recipient: ann(), Failures: Bucket("failures", "ann")}}
	for range 2 { // the same again, too
		d, err := limiter.Take(t.Context(), req)
		must(t, err)
		same(t, "admitted", d.Admitted, true)
		sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{1, 0})
	}
	same(t, "scripts of both: two looks and one take each", steps.Load(), 6)
	same(t, "what stands in the bucket", client.Exists(t.Context(), limiter.Key(req.Buckets[Failures])).Val(), 0)
	must(t, limiter.Record(t.Context(), req.Buckets[Failures], time.Hour, []Event{{"x", time.Now()}}))
	req.ID = "two"
	d, err := limiter.Take(t.Context(), req)
	must(t, err)
	same(t, "admitted after a failure", d.Admitted, false)
	sameList(t, "violated", d.Violated(), []string{"failures"})
}

// A take that only looks has counted nothing that could have to be given back.
func TestQuota15LookingCountsNothingToGiveBack(t *testing.T) {
	r := redisWorld(t).Limiter.(*Redis)
	p, err := planTake(Request{ID: "one", Rules: []Rule{{Name: "failures", Scope: Failures, Limit: 1, Window: time.Hour}},
		Buckets: map[Scope]string{Failures: "f"}})
	must(t, err)
	a, err := r.runTake(t.Context(), "one", take, 0, p)
	must(t, err)
	same(t, "admitted", a.Admitted, true)
	same(t, "added", a.added, false)
}
