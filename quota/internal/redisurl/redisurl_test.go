package redisurl

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestOpenWaitsForNothingLongerThanTheBudgetAndAsksThePrimary(t *testing.T) {
	alone, err := aloneOptions("rediss://user:p%40ss@redis.example:7000/3?pool_size=7")
	must(t, err)
	same(t, "host", alone.Addr, "redis.example:7000")
	same(t, "user", alone.Username+" "+alone.Password, "user p@ss")
	same(t, "db and pool", [2]int{alone.DB, alone.PoolSize}, [2]int{3, 7})
	same(t, "TLS name", alone.TLSConfig.ServerName, "redis.example")
	same(t, "TLS", alone.TLSConfig.MinVersion >= tls.VersionTLS12 && !alone.TLSConfig.InsecureSkipVerify, true)
	sentinel, err := sentinelOptions("redis+sentinel://h/m")
	must(t, err)
	for _, o := range [][]time.Duration{
		{alone.DialTimeout, alone.ReadTimeout, alone.WriteTimeout, alone.PoolTimeout},
		{sentinel.DialTimeout, sentinel.ReadTimeout, sentinel.WriteTimeout, sentinel.PoolTimeout},
	} {
		for _, d := range o {
			if d <= 0 || d > Budget/2 {
				t.Errorf("a timeout of %v", d)
			}
		}
	}
	same(t, "the context's deadline holds", alone.ContextTimeoutEnabled && sentinel.ContextTimeoutEnabled, true)
	same(t, "replicas", sentinel.ReplicaOnly || sentinel.RouteByLatency || sentinel.RouteRandomly, false)
	same(t, "repetitions", alone.MaxRetries > 0 && sentinel.MaxRetries > 0, true)
	same(t, "dials", [2]int{alone.DialerRetries, sentinel.DialerRetries}, [2]int{1, 1})
	chosen, err := aloneOptions("redis://h?read_timeout=300ms&max_retries=1")
	must(t, err)
	same(t, "the user's own read timeout", chosen.ReadTimeout, 300*time.Millisecond)
	same(t, "the user's own repetitions", chosen.MaxRetries, 1)
	same(t, "the context's deadline holds", chosen.ContextTimeoutEnabled, true)
	for url, want := range map[string]string{"redis://h": "h:6379", "redis://[::1]:6380/0": "[::1]:6380"} {
		client := opened(t, url)
		same(t, url, client.Options().Addr, want)
	}
}

func TestSentinelURLs(t *testing.T) {
	o, err := sentinelOptions("rediss+sentinel://user:p%40s%2Fs@one,two:7000,[::1]:7001/main/4?sentinel_username=su&sentinel_password=sp")
	must(t, err)
	same(t, "sentinels", strings.Join(o.SentinelAddrs, " "), "one:26379 two:7000 [::1]:7001")
	same(t, "user", o.Username+" "+o.Password, "user p@s/s")
	same(t, "master", o.MasterName, "main")
	same(t, "db", o.DB, 4)
	same(t, "sentinel's user", o.SentinelUsername+" "+o.SentinelPassword, "su sp")
	same(t, "TLS", o.TLSConfig.MinVersion >= tls.VersionTLS12 && !o.TLSConfig.InsecureSkipVerify, true)
	o, err = sentinelOptions("redis+sentinel://one/main")
	must(t, err)
	same(t, "no TLS", o.TLSConfig == nil, true)
	same(t, "db", o.DB, 0)
}

func TestClusterURLs(t *testing.T) {
	o, err := clusterOptions("rediss+cluster://user:p%40s%2Fs@one,two:7000,[::1]:7001?pool_size=7&max_redirects=2")
	must(t, err)
	same(t, "nodes", strings.Join(o.Addrs, " "), "one:6379 two:7000 [::1]:7001")
	same(t, "user", o.Username+" "+o.Password, "user p@s/s")
	same(t, "TLS", o.TLSConfig.MinVersion >= tls.VersionTLS12 && !o.TLSConfig.InsecureSkipVerify && o.TLSConfig.ServerName == "", true)
	same(t, "the user's own pool and repetitions", [2]int{o.PoolSize, o.MaxRedirects}, [2]int{7, 2})
	o, err = clusterOptions("redis+cluster://one/")
	must(t, err)
	same(t, "no TLS", o.TLSConfig == nil, true)
	for _, d := range []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout} {
		if d <= 0 || d > Budget/2 {
			t.Errorf("a timeout of %v", d)
		}
	}
	same(t, "the context's deadline holds", o.ContextTimeoutEnabled, true)
	same(t, "dials", o.DialerRetries, 1)
	same(t, "replicas", o.ReadOnly || o.RouteByLatency || o.RouteRandomly, false)
	for _, name := range []string{"read_only", "route_by_latency", "route_by_latency_tolerance", "route_randomly"} {
		if _, err := clusterOptions("redis+cluster://one?" + name + "=1"); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func opened(t *testing.T, url string) *redis.Client {
	t.Helper()
	client, err := Open(url)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client.(*redis.Client)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestWrongURLsAreExplainedWithoutTheirSecrets(t *testing.T) {
	for url, says := range map[string]string{
		"":                                         "starts with redis://",
		"localhost:6379":                           "starts with redis://",
		"http://user:hunter2@h":                    "starts with redis://",
		"redis+cluster://user:hunter2@h1,h2/0":     "no numbered databases",
		"redis+cluster://user:hunter2@":            "host 1",
		"redis+cluster://user:hunter2@h1,h2:x":     "host 2",
		"redis+cluster://user:hunter2%@h1":         "not a URL",
		"rediss+cluster://user:hunter2@h?addr=h2":  `"addr"`,
		"redis+cluster://user:hunter2@h?hunter=1":  "hunter",
		"redis://user:hunter2@":                    "no host",
		"redis://user:hunter2%@h":                  "not a URL",
		"redis://user:hunter2@h:port":              "not a URL",
		"redis://user:hunter2@h/x":                 "database number",
		"redis://user:hunter2@h?no_such_option=1":  "no_such_option",
		"redis+sentinel://user:hunter2@h":          "no name of the master",
		"redis+sentinel://user:hunter2@h//0":       "no name of the master",
		"redis+sentinel://user:hunter2@/main":      "host 1",
		"redis+sentinel://user:hunter2@h1,,h2/m":   "host 2",
		"redis+sentinel://user:hunter2@h1,h2:x/m":  "host 2",
		"redis+sentinel://user:hunter2%@h/m":       "not a URL",
		"redis+sentinel://user:hunter2@h/m/x":      "database",
		"redis+sentinel://user:hunter2@h/m/-1":     "database",
		"redis+sentinel://user:hunter2@h/m/0?db=1": `"db"`,
	} {
		client, err := Open(url)
		if err == nil || client != nil {
			t.Errorf("%s: accepted", url)
		} else if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
