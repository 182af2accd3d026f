package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// ErrNotPermitted means that the Redis user may not run the limiter's commands on its keys. Like
// ErrPartly and ErrClusterNode, it comes with ErrUnavailable.
var ErrNotPermitted = errors.New("the user of Redis has too few rights")

// ErrPartly means that some nodes of a Cluster don't answer, but others do.
var ErrPartly = errors.New("a part of the Redis Cluster is unavailable")

// ErrClusterNode means that a client of a single server talks to a node of a Cluster, which runs no
// script on keys of several slots.
var ErrClusterNode = errors.New("this Redis is a node of a Cluster: its URL must begin with redis+cluster:// or rediss+cluster://")

// ErrSentinel means that a client of a single server talks to a Sentinel, which keeps no keys and
// runs no script. Like ErrClusterNode, it comes with ErrUnavailable.
var ErrSentinel = errors.New("this Redis is a Sentinel: its URL must begin with redis+sentinel:// or rediss+sentinel://, " +
	"and name the master after the hosts")

// explainSentinel adds ErrSentinel to an error about an unknown command, if a Sentinel has
// answered. It checks the server's mode, because a server whose commands are renamed gives the same
// error. The mode is redis_mode in Redis and server_mode in Valkey.
func (r *Redis) explainSentinel(ctx context.Context, err error) error {
	if r.cluster != nil || !redis.HasErrorPrefix(err, "unknown command") {
		return err
	}
	if info, failed := r.client.Info(ctx, "server").Result(); failed != nil || !strings.Contains(info, "_mode:sentinel") {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSentinel, err)
}

// explainClusterNode adds ErrClusterNode to errors that only nodes of a Cluster return, unless the
// client is for a Cluster.
func (r *Redis) explainClusterNode(err error) error {
	for _, prefix := range []string{"CROSSSLOT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"} {
		if r.cluster == nil && redis.HasErrorPrefix(err, prefix) {
			return fmt.Errorf("%w: %w", ErrClusterNode, err)
		}
	}
	return err
}

// probeRequest has several buckets, as a send has.
var probeRequest = Request{Buckets: map[Scope]string{Recipient: "probe 1", IP: "probe 2", App: "probe 3"}, Rules: []Rule{
	{Name: "1", Scope: Recipient, Limit: 1, Window: MinWindow},
	{Name: "2", Scope: IP, Limit: 1, Window: MinWindow},
	{Name: "3", Scope: App, Limit: 1, Window: MinWindow},
}}

// Ping returns nil if a Take could be decided now. Unlike the command PING, it fails on a replica,
// on a Redis that can't write (full memory, failing disk) or doesn't run scripts on several keys,
// if the user lacks a right, and if a slot of a Cluster has no master. It writes nothing. Error:
// ErrUnavailable, possibly with ErrNotPermitted, ErrClusterNode, ErrSentinel or ErrPartly.
func (r *Redis) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	var well atomic.Bool // at least one master answers and serves its slots
	err := r.forEachMaster(ctx, func(ctx context.Context, master redis.UniversalClient) error {
		denied, err := r.probe.Run(ctx, master, nil, r.prefix).StringSlice()
		if err = permissionError(denied, err, r.prefix); err != nil || r.cluster == nil {
			return err
		}
		up, err := checkSlots(ctx, master)
		if up {
			well.Store(true)
		}
		return err
	})
	if err != nil && well.Load() && !errors.Is(err, ErrNotPermitted) {
		err = fmt.Errorf("%w: %w", ErrPartly, err)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, r.explainSentinel(ctx, err))
	case r.cluster == nil:
		_, err = r.Peek(ctx, probeRequest)
	}
	return err
}

func permissionError(denied []string, err error, prefix string) error {
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%w: it needs the commands eval and evalsha: %w", ErrNotPermitted, err)
	case len(denied) > 0:
		return fmt.Errorf("%w: it needs %s on keys that begin with %s", ErrNotPermitted,
			strings.Join(denied, ", "), prefix)
	}
	return err
}

// checkSlots fails if the node reports a slot that no node serves. The probe wouldn't notice,
// because its script has no keys. up says that the node serves its own slots.
func checkSlots(ctx context.Context, node redis.UniversalClient) (up bool, err error) {
	info, err := node.ClusterInfo(ctx).Result()
	up = strings.Contains(info, "cluster_state:ok")
	if err == nil && !(up && strings.Contains(info, "cluster_slots_ok:16384")) {
		err = errors.New("not all slots are served")
	}
	return up, err
}

func (r *Redis) forEachMaster(ctx context.Context, do func(context.Context, redis.UniversalClient) error) error {
	if r.cluster == nil {
		return do(ctx, r.client)
	}
	return r.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return do(ctx, c) })
}

// Warnings returns a sentence for each setting with which Redis may lose events, and for each
// setting that Redis doesn't show. On Cluster it reads the settings of all masters.
func (r *Redis) Warnings(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	var mu sync.Mutex
	var all []string
	err := r.forEachMaster(ctx, func(ctx context.Context, master redis.UniversalClient) error {
		some := warnings(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		for _, w := range some {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
		return nil
	})
	if err != nil {
		all = append(all, "The settings of Redis are unknown, since the cluster does not tell its masters.")
	}
	return all
}

func warnings(ctx context.Context, client redis.UniversalClient) (all []string) {
	for _, s := range []struct{ name, want, advice string }{
		{"maxmemory-policy", "noeviction", "Redis may forget events when its memory is full; set noeviction."},
		{"appendonly", "yes", "A restart of Redis forgets events; turn the append-only file on."},
	} {
		settings, err := client.ConfigGet(ctx, s.name).Result()
		if got, ok := settings[s.name]; err != nil || !ok {
			all = append(all, fmt.Sprintf("Redis setting %s is unknown, since Redis does not tell it; it should be %s.",
				s.name, s.want))
		} else if got != s.want {
			all = append(all, fmt.Sprintf("Redis setting %s is %s. %s", s.name, got, s.advice))
		}
	}
	return all
}

// Size returns the number of keys and the bytes of memory in use, of all masters together. The user
// needs the rights +dbsize and +info. Error: ErrUnavailable, with ErrNotPermitted if a right is
// missing.
func (r *Redis) Size(ctx context.Context) (keys, bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	var allKeys, allBytes atomic.Int64
	err = r.forEachMaster(ctx, func(ctx context.Context, master redis.UniversalClient) error {
		n, err := master.DBSize(ctx).Result()
		if err != nil {
			return err
		}
		info, err := master.InfoMap(ctx, "memory").Result()
		if err != nil {
			return err
		}
		used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
		allKeys.Add(n)
		allBytes.Add(used)
		return err
	})
	if redis.HasErrorPrefix(err, "NOPERM") {
		err = fmt.Errorf("%w: it needs the commands dbsize and info: %w", ErrNotPermitted, err)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return allKeys.Load(), allBytes.Load(), nil
}
