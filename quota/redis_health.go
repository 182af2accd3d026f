package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ErrNotPermitted is the ErrUnavailable of a user of Redis who may not run what the limiter runs, or not on its keys.
var ErrNotPermitted = errors.New("the user of Redis has too few rights")

// Ping reports whether a Take could be decided now: unlike the command PING it also fails on a replica, where Redis
// may not write (out of memory, failing disk), where its user has too few rights for any call, and on Cluster where any
// slot has no master. It writes nothing. Errors: ErrUnavailable, of which some are ErrNotPermitted.
func (r *Redis) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	err := r.onMasters(ctx, func(ctx context.Context, master redis.UniversalClient) error {
		denied, err := r.probe.Run(ctx, master, nil, r.prefix).StringSlice()
		if err = rights(denied, err, r.prefix); err != nil || r.cluster == nil {
			return err
		}
		return whole(ctx, master)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// rights is the error of a probe that some commands were denied to, or that was denied itself.
func rights(denied []string, err error, prefix string) error {
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%w: it may not run eval and evalsha: %w", ErrNotPermitted, err)
	case len(denied) > 0:
		return fmt.Errorf("%w: it may not run %s on keys that begin with %s", ErrNotPermitted, strings.Join(denied, ", "), prefix)
	}
	return err
}

// whole asks a node whether it sees all slots served: a script without keys runs also where they are not.
func whole(ctx context.Context, node redis.UniversalClient) error {
	info, err := node.ClusterInfo(ctx).Result()
	if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384")) {
		err = errors.New("a part of the cluster is down")
	}
	return err
}

func (r *Redis) onMasters(ctx context.Context, do func(context.Context, redis.UniversalClient) error) error {
	if r.cluster == nil {
		return do(ctx, r.client)
	}
	return r.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return do(ctx, c) })
}

// Warnings tells in whole sentences which settings of Redis put the quota at risk, none if all is well (OPS-5). What
// several masters of a Cluster have in common is told once.
func (r *Redis) Warnings(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	var mu sync.Mutex
	var all []string
	err := r.onMasters(ctx, func(ctx context.Context, master redis.UniversalClient) error {
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
	for _, s := range []struct{ name, want, else_ string }{
		{"maxmemory-policy", "noeviction", "Redis may forget events when its memory is full; set noeviction."},
		{"appendonly", "yes", "A restart of Redis forgets events; turn the append-only file on."},
	} {
		settings, err := client.ConfigGet(ctx, s.name).Result()
		if got, ok := settings[s.name]; err != nil || !ok {
			all = append(all, fmt.Sprintf("Redis setting %s is unknown, since Redis does not tell it; it should be %s.", s.name, s.want))
		} else if got != s.want {
			all = append(all, fmt.Sprintf("Redis setting %s is %s. %s", s.name, got, s.else_))
		}
	}
	return all
}
