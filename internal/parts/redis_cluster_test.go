package parts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// clusterClient needs one node's address only: it learns the others.
func clusterClient(t *testing.T, c *RedisCluster) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr()}, MaxRedirects: 1})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestAClusterServesEverySlotFromThreeMasters(t *testing.T) {
	c := Cluster(t)
	client := clusterClient(t, c)
	for i := range 100 {
		if err := client.Set(t.Context(), fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range c.Nodes {
		if n, err := redisClient(t, node).DBSize(t.Context()).Result(); err != nil || n < 10 || n > 90 {
			t.Errorf("node %d has %d of 100 keys, %v", i, n, err)
		}
		if !strings.Contains(c.URL(), node.Addr()) {
			t.Errorf("%s does not name node %d", c.URL(), i)
		}
	}
}

func TestANodeOfAClusterGoesAndComesBack(t *testing.T) {
	c := Cluster(t)
	pids := []int{c.Nodes[0].PID(), c.Nodes[1].PID(), c.Nodes[2].PID()}
	c.Nodes[1].Stop()
	awaitTrue(t, func() bool { return c.Nodes[0].sees(t.Context(), masters) != nil }, "the others do not miss the node")
	do(t, c.Nodes[1].Start)
	awaitTrue(t, func() bool { return c.Nodes[0].sees(t.Context(), masters) == nil }, "the node does not come back")
	if got := len(redisClient(t, c.Nodes[1]).ClusterShards(t.Context()).Val()); got != masters {
		t.Errorf("the node that came back knows %d shards", got)
	}
	do(t, c.Close)
	for _, pid := range append(pids, c.Nodes[1].PID()) {
		if pid != 0 {
			awaitGone(t, pid)
		}
	}
}
