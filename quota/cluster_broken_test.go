package quota

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// homes returns the name of a bucket on each node of the cluster.
func homes(t *testing.T, r *Redis) (names []string) {
	const slots = 16384
	for node := range 3 {
		for i := 0; ; i++ {
			name := Bucket("home", fmt.Sprint(i))
			slot := r.client.ClusterKeySlot(t.Context(), r.key(name)).Val()
			if slots*node/3 <= int(slot) && int(slot) < slots*(node+1)/3 {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// The subtests share a cluster, and all but the first break it. whole waits until the cluster works
// again.
func TestNewRedisOnAClusterThatBreaks(t *testing.T) {
	t.Parallel() // the test waits, and has servers of its own
	cluster := servertest.Cluster(t)
	url := cluster.URL() + servertest.LongTimeouts
	client := newClient(t, url)
	limiter := withLongBudget(NewRedis(client, "q:"))
	home := homes(t, limiter)
	ctx := t.Context()
	node := func(i int) redis.UniversalClient { return newClient(t, cluster.Nodes[i].URL()) }
	whole := func(t *testing.T) {
		servertest.Await(t, "the cluster to be whole", func() bool { return limiter.Ping(ctx) == nil })
		flushAll(t, client)
	}

	t.Run("a user with the documented rights", func(t *testing.T) {
		rights := append(documentedRights(t, operations, limiterRights), documentedRights(t, operations, besideOnCluster)...)
		for i := range cluster.Nodes {
			setUser(t, node(i), "plain", rights)
		}
		allAre(t, nil, calls(t, withLongBudget(NewRedis(newClient(t, asPlain(url)), "sendcode")), 31))
	})
	t.Run("all masters are there, but a slot is not served", func(t *testing.T) {
		whole(t)
		for i := range cluster.Nodes {
			_ = node(i).Do(ctx, "cluster", "delslots", 0).Err() // nodes that do not serve the slot return an error
		}
		same(t, "ping", errors.Is(limiter.Ping(ctx), ErrUnavailable), true)
		// sends each command once, because a second addslots is an error
		once := newClient(t, cluster.Nodes[0].URL()+servertest.LongTimeouts+"&max_retries=-1")
		must(t, once.Do(ctx, "cluster", "addslots", 0).Err())
	})
	// A bucket stays exact while its slot moves, because the client follows MOVED and ASK.
	t.Run("a slot that moves to another master", func(t *testing.T) {
		whole(t)
		key := limiter.key(home[2])
		from, to := node(2), node(0)
		admits := func(id string, want bool) {
			t.Helper()
			mustTake(t, limiter, two(id, home[2], home[1]), want)
		}
		id := func(c redis.UniversalClient) string { return c.Do(ctx, "cluster", "myid").Val().(string) }
		slot := client.ClusterKeySlot(ctx, key).Val()
		admits("one", true)
		must(t, to.Do(ctx, "cluster", "setslot", slot, "importing", id(from)).Err())
		must(t, from.Do(ctx, "cluster", "setslot", slot, "migrating", id(to)).Err())
		admits("one", true) // the slot is still at the old master
		host, port, err := net.SplitHostPort(cluster.Nodes[0].Addr())
		must(t, err)
		must(t, from.Do(ctx, "migrate", host, port, key, 0, 5000).Err())
		admits("two", true) // the client follows ASK
		admits("three", false)
		for _, c := range []redis.UniversalClient{to, from} {
			must(t, c.Do(ctx, "cluster", "setslot", slot, "node", id(to)).Err())
		}
		admits("two", true) // the client follows MOVED
		admits("four", false)
		must(t, limiter.Refund(ctx, "one", home...))
		admits("five", true)
		same(t, "on the new node", to.ZCard(ctx, key).Val() >= 2, true)
	})
	t.Run("a master that is gone", func(t *testing.T) {
		whole(t)
		cluster.Nodes[1].Stop()
		for _, req := range []Request{one("a", home[1]), two("b", home[0], home[1]), two("c", home[1], home[2])} {
			d, err := limiter.Take(ctx, req)
			same(t, "unavailable, alone", errors.Is(err, ErrUnavailable) && errors.Is(err, ErrPartly) && !d.Admitted, true)
		}
		allAre(t, ErrUnavailable, map[string]error{
			"peek":   second(limiter.Peek(ctx, two("", home[0], home[1]))),
			"refund": limiter.Refund(ctx, "x", home[0], home[1]),
			"reset":  limiter.Reset(ctx, home[0], home[1]),
			"record": limiter.Record(ctx, home[1], time.Hour, []AgedEvent{{ID: "x"}}),
			"ping":   limiter.Ping(ctx),
		})
		same(t, "ping says that others answer", errors.Is(limiter.Ping(ctx), ErrPartly), true)
		d := mustTake(t, limiter, two("d", home[0], home[2]), true) // these buckets' masters answer
		same(t, "used, with nothing of those that failed", d.Rules[0].Used, 1)
		for _, i := range []int{0, 2} { // with these settings, they answer CLUSTERDOWN for every slot
			must(t, node(i).ConfigSet(ctx, "cluster-require-full-coverage", "yes").Err())
			must(t, node(i).ConfigSet(ctx, "cluster-node-timeout", "1000").Err())
		}
		servertest.Await(t, "the others to notice", func() bool {
			return redis.HasErrorPrefix(node(0).Get(ctx, limiter.key(home[0])).Err(), "CLUSTERDOWN") &&
				redis.HasErrorPrefix(node(2).Get(ctx, "x").Err(), "CLUSTERDOWN")
		})
		for i := range 20 { // the buckets are spread over all nodes
			_, _ = limiter.Take(ctx, one("a", Bucket("any", fmt.Sprint(i))))
		}
		away := map[string]error{"take": second(limiter.Take(ctx, one("a", home[0]))), "ping": limiter.Ping(ctx)}
		allAre(t, ErrUnavailable, away)
		for name, err := range away {
			same(t, name+" says that others answer", errors.Is(err, ErrPartly), false)
		}
		must(t, cluster.Nodes[1].Start())
		servertest.Await(t, "takes to go on",
			func() bool { d, err := limiter.Take(ctx, one("a", home[1])); return err == nil && d.Admitted })
	})
}

// After a pause, only one call tries a node, because the node may hang.
func TestOneCallTriesAPausedNode(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var n nodeHealth
		n.note("up", nil)
		for _, answer := range []error{io.EOF, io.EOF, nil} {
			n.note("hung", io.EOF)
			paused := [3]bool{}
			for i := range paused {
				paused[i] = n.isPaused("hung")
				time.Sleep(nodePause * time.Duration(1-i))
			}
			same(t, "paused", paused, [3]bool{true, false, true})
			n.note("hung", answer)
		}
		same(t, "after the answer", !n.isPaused("hung") && n.othersAnswer("hung"), true)
		time.Sleep(answerLife)
		same(t, "another has answered lately", n.othersAnswer("hung"), false)
	})
}
