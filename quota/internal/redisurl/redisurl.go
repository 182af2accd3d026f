// Package redisurl makes a Redis client from a URL: for a single server, for servers behind
// Sentinel, or for a Cluster.
package redisurl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// CallBudget is the default of quota.Redis.Budget.
const CallBudget = 2 * time.Second

// defaults bound each dial, read, write and wait for a pooled connection to a second, unless the
// URL sets other values. A context, such as that of quota.Redis with its Budget, must bound the
// whole call. Where connections are refused, a call fails within 0.2 s.
var defaults = map[string]string{
	"dial_timeout": "1s", "read_timeout": "1s", "write_timeout": "1s",
	"pool_timeout": "1s", "min_retry_backoff": "10ms", "max_retry_backoff": "100ms",
}

// retries is how often a failed call is repeated. One dial for each try is enough, because a
// repeated call dials again.
const (
	retries = "2"
	dials   = 1
)

// refused are parameters of go-redis that a Sentinel or Cluster URL has in another place, or that
// would let a replica with old data decide.
var refused = []string{
	"addr", "db", "master_name", "username", "password", "read_only", "replica_only",
	"use_disconnected_replicas", "route_by_latency", "route_by_latency_tolerance", "route_randomly",
}

// errNotURL hides the error of a parser, which could show a password.
var errNotURL = errors.New("redis URL: it is not a URL; in a user name or password, write special characters as %XX")

// Open makes a client without connecting; see quota.OpenRedis. Like StandaloneOptions,
// SentinelOptions and ClusterOptions, it never shows the URL in an error.
func Open(rawURL string) (redis.UniversalClient, error) {
	switch scheme, _, _ := strings.Cut(rawURL, "://"); scheme {
	case "redis", "rediss":
		return open(StandaloneOptions, redis.NewClient, rawURL)
	case "redis+sentinel", "rediss+sentinel":
		return open(SentinelOptions, newFailoverClient, rawURL)
	case "redis+cluster", "rediss+cluster":
		return open(ClusterOptions, redis.NewClusterClient, rawURL)
	default:
		return nil, errors.New("redis URL: it must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
}

func newFailoverClient(o *redis.FailoverOptions) *redis.Client {
	client := redis.NewFailoverClient(o)
	client.AddHook(masterNamer(o.MasterName))
	return client
}

// masterNamer adds the master's name to redis.Nil, the answer of a Sentinel that does not know the
// master.
type masterNamer string

func (name masterNamer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if errors.Is(err, redis.Nil) {
			err = fmt.Errorf("no Sentinel knows a master %q, which the URL names after the hosts: %w", string(name), err)
		}
		return conn, err
	}
}

func (masterNamer) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (masterNamer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func open[O any, C redis.UniversalClient](
	options func(string) (O, error), client func(O) C, rawURL string,
) (redis.UniversalClient, error) {
	o, err := options(rawURL)
	if err != nil {
		return nil, err
	}
	return client(o), nil
}

// StandaloneOptions parses redis:// and rediss://.
func StandaloneOptions(rawURL string) (*redis.Options, error) {
	a, err := parse(rawURL, "6379")
	if err == nil && len(a.hosts) > 1 {
		err = errors.New("redis URL: several hosts need redis+sentinel:// or redis+cluster://")
	}
	if err != nil {
		return nil, err
	}
	a.setDefault("max_retries", retries)
	o, err := redis.ParseURL(a.text())
	if err != nil {
		return nil, a.redact(err)
	}
	o.ContextTimeoutEnabled, o.DialerRetries = true, dials
	a.trust(o.TLSConfig, a.url.Hostname())
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// SentinelOptions parses redis+sentinel:// and rediss+sentinel://.
func SentinelOptions(rawURL string) (*redis.FailoverOptions, error) {
	a, err := parse(rawURL, "26379", refused...)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(strings.TrimPrefix(a.url.Path, "/"), "/")
	if master == "" {
		return nil, errors.New("redis URL: the name of the master is missing, as in redis+sentinel://host/master/0")
	}
	user, password := a.query.Get("sentinel_username"), a.query.Get("sentinel_password")
	a.query.Del("sentinel_username")
	a.query.Del("sentinel_password")
	a.setDefault("max_retries", retries)
	a.url.Path = db
	o, err := redis.ParseFailoverURL(a.text())
	if err == nil && o.DB < 0 {
		err = errors.New("the number of the database is below 0")
	}
	if err != nil {
		return nil, a.redact(err)
	}
	o.MasterName, o.SentinelAddrs = master, a.hosts
	o.Username, o.Password, o.SentinelUsername, o.SentinelPassword = o.SentinelUsername, o.SentinelPassword, user, password
	o.ContextTimeoutEnabled, o.DialerRetries = true, dials
	a.trust(o.TLSConfig, "")
	return o, nil
}

// ClusterOptions parses redis+cluster:// and rediss+cluster://. The cluster's client repeats a
// failed call up to MaxRedirects times. The clients of its nodes don't repeat it, unless the URL
// sets max_retries.
func ClusterOptions(rawURL string) (*redis.ClusterOptions, error) {
	a, err := parse(rawURL, "6379", refused...)
	if err != nil {
		return nil, err
	}
	if a.url.Path != "" && a.url.Path != "/" {
		return nil, errors.New("redis URL: a Cluster has no numbered databases, so write nothing after the hosts")
	}
	o, err := redis.ParseClusterURL(a.text())
	if err != nil {
		return nil, a.redact(err)
	}
	o.Addrs = a.hosts
	o.ContextTimeoutEnabled, o.DialerRetries = true, dials
	a.trust(o.TLSConfig, "")
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}
