package servertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisCluster is a private Redis Cluster of three masters without replicas.
type RedisCluster struct {
	Nodes []*RedisServer // each with a third of the slots, in ascending order
	buses []*place       // the ports over which the nodes talk to each other
}

const masters = 3

// Cluster starts a private Redis Cluster for one test, as [StartRedisCluster] does, and closes it
// afterwards.
func Cluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	c, err := StartRedisCluster(t.Context(), args...)
	return closeAfterTest(t, c, err)
}

// StartRedisCluster starts three servers, joins them to one cluster, and returns when each of them
// says that the cluster is complete. However busy the machine is, no node marks another one as
// failed, unless args or CONFIG SET shorten cluster-node-timeout. When a node counts as failed, the
// other nodes still serve their slots. args, ctx and the errors are as for [StartRedis]. The caller
// must Close the cluster.
func StartRedisCluster(ctx context.Context, args ...string) (_ *RedisCluster, err error) {
	c := &RedisCluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for range masters {
		bus, err := claim()
		if err != nil {
			return nil, err
		}
		c.buses = append(c.buses, bus)
		node, err := StartRedis(ctx, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus.port), "--cluster-node-timeout", "3600000",
			"--cluster-require-full-coverage", "no",
		}, args...)...)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	return c, c.join(ctx)
}

// URL returns redis+cluster:// with the addresses of all nodes.
func (c *RedisCluster) URL() string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Close stops the servers and removes their directories.
func (c *RedisCluster) Close() (err error) {
	for _, node := range c.Nodes {
		err = errors.Join(err, node.Close())
	}
	for _, bus := range c.buses {
		err = errors.Join(err, bus.release())
	}
	return err
}

// join gives each node its slots and its own epoch, introduces the first node to the others, and
// waits until all agree.
func (c *RedisCluster) join(ctx context.Context) error {
	const slots = 16384
	for i, node := range c.Nodes {
		client := node.client()
		defer client.Close()
		err := errors.Join(client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(),
			client.Do(ctx, "cluster", "addslotsrange", slots*i/masters, slots*(i+1)/masters-1).Err())
		if i > 0 {
			err = errors.Join(err, client.Do(ctx, "cluster", "meet", "127.0.0.1", c.Nodes[0].place.port, c.buses[0].port).Err())
		}
		if err != nil {
			return err
		}
	}
	for _, node := range c.Nodes {
		if err := await(ctx, node.process, node.seesAll); err != nil {
			return fmt.Errorf("the cluster does not come together: %w", err)
		}
	}
	return nil
}

// client returns a client that sends a command once: a second set-config-epoch or addslotsrange is
// an error.
func (s *RedisServer) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 30 * time.Second, MaxRetries: -1, ContextTimeoutEnabled: true})
}

// seesAll returns nil if the node knows all masters, and they serve every slot together.
func (s *RedisServer) seesAll(ctx context.Context) error {
	client := s.client()
	defer client.Close()
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", fmt.Sprintf("cluster_size:%d", masters)} {
		if !strings.Contains(info, want) {
			return fmt.Errorf("no %s yet", want)
		}
	}
	return nil
}
