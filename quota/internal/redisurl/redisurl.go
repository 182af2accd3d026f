// Package redisurl makes a Redis client from a URL: for a single server, Sentinel or Cluster.
package redisurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// CallBudget bounds one call including its retries. It is the default of quota.Redis.Budget.
const CallBudget = 2 * time.Second

// Default timeouts and retries, chosen so that a call ends within CallBudget. If a server refuses
// connections, a call fails within 0.2 s. stepTimeout bounds each dial, read, write, and wait for a
// pooled connection.
const (
	stepTimeout = time.Second
	retries     = 2
	minBackoff  = 10 * time.Millisecond
	maxBackoff  = 100 * time.Millisecond
)

// Default ports of the hosts in a URL.
const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// Open makes a client without connecting; see quota.OpenRedis. Errors never show the URL.
func Open(rawURL string) (redis.UniversalClient, error) {
	switch scheme, _, _ := strings.Cut(rawURL, "://"); scheme {
	case "redis", "rediss":
		o, err := StandaloneOptions(rawURL)
		if err != nil {
			return nil, err
		}
		return redis.NewClient(o), nil
	case "redis+sentinel", "rediss+sentinel":
		o, err := SentinelOptions(rawURL)
		if err != nil {
			return nil, err
		}
		return redis.NewFailoverClient(o), nil
	case "redis+cluster", "rediss+cluster":
		o, err := ClusterOptions(rawURL)
		if err != nil {
			return nil, err
		}
		return redis.NewClusterClient(o), nil
	default:
		return nil, errors.New("redis URL: it starts with redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
}

// StandaloneOptions parses the URL of a single server. Errors never show the URL.
func StandaloneOptions(rawURL string) (*redis.Options, error) {
	if u, err := parseURL(rawURL); err != nil {
		return nil, err
	} else if u.Hostname() == "" {
		return nil, errors.New("redis URL: no host")
	}
	rest, pool, err := extractCA(rawURL)
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(rest)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	if pool != nil {
		o.TLSConfig.RootCAs = pool
	}
	o.ContextTimeoutEnabled = true
	setTimeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	setBackoff(&o.MinRetryBackoff, &o.MaxRetryBackoff, &o.DialerRetries)
	setDefault(&o.MaxRetries, retries)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// setTimeouts and setBackoff set the defaults that keep a call within CallBudget, where the URL
// sets no other value. A caller's own deadline still applies.
func setTimeouts(steps ...*time.Duration) {
	for _, s := range steps {
		setDefault(s, stepTimeout)
	}
}

func setBackoff(least, most *time.Duration, dials *int) {
	setDefault(least, minBackoff)
	setDefault(most, maxBackoff)
	setDefault(dials, 1) // the repeated call dials again
}

func setDefault[T comparable](v *T, to T) {
	var unset T
	if *v == unset {
		*v = to
	}
}

// SentinelOptions parses the URL of a master that Sentinels watch. Errors never show the URL.
func SentinelOptions(rawURL string) (*redis.FailoverOptions, error) {
	rest, pool, err := extractCA(rawURL)
	if err != nil {
		return nil, err
	}
	hosts, u, err := splitHosts(rest, sentinelPort)
	if err != nil {
		return nil, err
	}
	o := &redis.FailoverOptions{
		SentinelAddrs: hosts, Username: u.User.Username(),
		ContextTimeoutEnabled: true, DialTimeout: stepTimeout, ReadTimeout: stepTimeout, WriteTimeout: stepTimeout,
		PoolTimeout: stepTimeout,
		MaxRetries:  retries, MinRetryBackoff: minBackoff, MaxRetryBackoff: maxBackoff, DialerRetries: 1,
	}
	o.Password, _ = u.User.Password()
	if u.Scheme == "rediss+sentinel" {
		o.TLSConfig = tlsConfig(pool)
	}
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if o.MasterName = master; master == "" {
		return nil, errors.New("redis URL: no name of the master, as in redis+sentinel://host/master/0")
	}
	if db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return nil, fmt.Errorf("redis URL: %q is not a number of a database", db)
		}
	}
	for name, values := range u.Query() {
		switch value := values[len(values)-1]; name {
		case "sentinel_username":
			o.SentinelUsername = value
		case "sentinel_password":
			o.SentinelPassword = value
		default:
			return nil, fmt.Errorf("redis URL: unknown parameter %q", name)
		}
	}
	return o, nil
}

// ClusterOptions parses a Cluster URL. The cluster client repeats a call up to MaxRedirects times;
// the node clients repeat none unless the URL says max_retries.
func ClusterOptions(rawURL string) (*redis.ClusterOptions, error) {
	rest, pool, err := extractCA(rawURL)
	if err != nil {
		return nil, err
	}
	hosts, u, err := splitHosts(rest, redisPort)
	if err != nil {
		return nil, err
	}
	if u.Path != "" && u.Path != "/" {
		return nil, errors.New("redis URL: Cluster has no numbered databases, nothing goes behind the hosts")
	}
	for name := range u.Query() {
		switch name {
		case "read_only", "route_by_latency", "route_by_latency_tolerance", "route_randomly", "addr":
			return nil, fmt.Errorf("redis URL: unknown parameter %q", name)
		}
	}
	secure := u.Scheme == "rediss+cluster"
	u.Scheme = "redis"
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	if o.Addrs = hosts; secure {
		o.TLSConfig = tlsConfig(pool)
	}
	o.ContextTimeoutEnabled = true
	setTimeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	setBackoff(&o.MinRetryBackoff, &o.MaxRetryBackoff, &o.DialerRetries)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// splitHosts returns the host:port list of a URL, and the parsed URL with the host name "host" in
// place of the list, since net/url does not parse host lists.
func splitHosts(rawURL, defaultPort string) ([]string, *url.URL, error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	start := strings.LastIndex(rest[:end], "@") + 1
	hosts := strings.Split(rest[start:end], ",")
	for i, host := range hosts {
		u, err := parseURL("redis://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host {
			return nil, nil, fmt.Errorf("redis URL: host %d is not of the form host or host:port", i+1)
		}
		port := u.Port()
		setDefault(&port, defaultPort)
		hosts[i] = net.JoinHostPort(u.Hostname(), port)
	}
	u, err := parseURL(scheme + "://" + rest[:start] + "host" + rest[end:])
	return hosts, u, err
}

// parseURL replaces the error of url.Parse, which could show a password.
func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New(
			"redis URL: it is not a URL; in a user name or password, write special characters as %XX")
	}
	return u, nil
}
