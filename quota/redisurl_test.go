package quota_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
	"sendcode/quota/internal/redisurl"
)

// shortSteps fails the test unless each step of a client has a timeout of at most half of
// CallBudget.
func shortSteps(t *testing.T, dial, read, write, pool time.Duration) {
	t.Helper()
	if least, most := min(dial, read, write, pool), max(dial, read, write, pool); least <= 0 || most > redisurl.CallBudget/2 {
		t.Errorf("timeouts of %v to %v", least, most)
	}
}

type login struct{ username, password string }

type connections struct{ db, pool, dials int }

func secure(c *tls.Config) bool { return c.MinVersion >= tls.VersionTLS12 && !c.InsecureSkipVerify }

func TestStandaloneURLs(t *testing.T) {
	o, err := redisurl.StandaloneOptions("rediss://user:p%40ss@redis.example:7000/3?pool_size=7")
	mustBeNil(t, err)
	servertest.Same(t, "host", o.Addr, "redis.example:7000")
	servertest.Same(t, "login", login{o.Username, o.Password}, login{"user", "p@ss"})
	servertest.Same(t, "connections", connections{o.DB, o.PoolSize, o.DialerRetries}, connections{db: 3, pool: 7, dials: 1})
	servertest.Same(t, "TLS", secure(o.TLSConfig) && o.TLSConfig.ServerName == "redis.example", true)
	servertest.Same(t, "retries, and a context's deadline", o.MaxRetries > 0 && o.ContextTimeoutEnabled, true)
	shortSteps(t, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
	o, err = redisurl.StandaloneOptions("redis://h?read_timeout=300ms&max_retries=1")
	mustBeNil(t, err)
	servertest.Same(t, "chosen read timeout", o.ReadTimeout, 300*time.Millisecond)
	servertest.Same(t, "chosen retries, and a context's deadline", o.MaxRetries == 1 && o.ContextTimeoutEnabled, true)
	for url, want := range map[string]string{"redis://h": "h:6379", "redis://[::1]:6380/0": "[::1]:6380"} {
		servertest.Same(t, url, opened(t, url).Options().Addr, want)
	}
}

func TestSentinelURLs(t *testing.T) {
	o, err := redisurl.SentinelOptions(
		"rediss+sentinel://user:p%40s%2Fs@one,two:7000,[::1]:7001/main/4?sentinel_username=su&sentinel_password=sp&pool_size=7")
	mustBeNil(t, err)
	servertest.Same(t, "sentinels", strings.Join(o.SentinelAddrs, " "), "one:26379 two:7000 [::1]:7001")
	servertest.Same(t, "login", login{o.Username, o.Password}, login{"user", "p@s/s"})
	servertest.Same(t, "login to sentinels", login{o.SentinelUsername, o.SentinelPassword}, login{"su", "sp"})
	servertest.Same(t, "master", o.MasterName, "main")
	servertest.Same(t, "connections", connections{o.DB, o.PoolSize, o.DialerRetries}, connections{db: 4, pool: 7, dials: 1})
	servertest.Same(t, "TLS", secure(o.TLSConfig), true)
	servertest.Same(t, "replicas", o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly, false)
	servertest.Same(t, "retries, and a context's deadline", o.MaxRetries > 0 && o.ContextTimeoutEnabled, true)
	shortSteps(t, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
	o, err = redisurl.SentinelOptions("redis+sentinel://one/main")
	mustBeNil(t, err)
	servertest.Same(t, "no TLS, first database", o.TLSConfig == nil && o.DB == 0, true)
}

func TestClusterURLs(t *testing.T) {
	o, err := redisurl.ClusterOptions("rediss+cluster://user:p%40s%2Fs@one,two:7000,[::1]:7001?pool_size=7&max_redirects=2")
	mustBeNil(t, err)
	servertest.Same(t, "nodes", strings.Join(o.Addrs, " "), "one:6379 two:7000 [::1]:7001")
	servertest.Same(t, "login", login{o.Username, o.Password}, login{"user", "p@s/s"})
	servertest.Same(t, "TLS", secure(o.TLSConfig) && o.TLSConfig.ServerName == "", true)
	servertest.Same(t, "chosen pool and redirects", [2]int{o.PoolSize, o.MaxRedirects}, [2]int{7, 2})
	o, err = redisurl.ClusterOptions("redis+cluster://one/")
	mustBeNil(t, err)
	servertest.Same(t, "no TLS", o.TLSConfig == nil, true)
	shortSteps(t, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
	servertest.Same(t, "dials, and a context's deadline", o.DialerRetries == 1 && o.ContextTimeoutEnabled, true)
	servertest.Same(t, "replicas", o.ReadOnly || o.RouteByLatency || o.RouteRandomly, false)
}

func opened(t *testing.T, url string) *redis.Client {
	t.Helper()
	client, err := redisurl.Open(url)
	mustBeNil(t, err)
	t.Cleanup(func() { client.Close() })
	return client.(*redis.Client)
}

func mustBeNil(t *testing.T, err error) {
	t.Helper()
	servertest.OK(t, err)
}

func TestOpenExplainsWrongURLsWithoutSecrets(t *testing.T) {
	for url, says := range map[string]string{
		"":                                     "must begin with redis://",
		"http://user:hunter2@h":                "must begin with redis://",
		"redis+cluster://user:hunter2@h1,h2/0": "no numbered databases",
		"rediss+cluster://user:hunter2@h?addr=h2":                     `"addr"`,
		"redis+cluster://user:hunter2@h?read_only=1":                  `"read_only"`,
		"redis+cluster://user:hunter2@h?route_by_latency=1":           `"route_by_latency"`,
		"redis+cluster://user:hunter2@h?route_by_latency_tolerance=1": `"route_by_latency_tolerance"`,
		"redis+cluster://user:hunter2@h?route_randomly=1":             `"route_randomly"`,
		"redis+cluster://user:hunter2@h?hunter=1":                     "hunter",
		"redis://user:hunter2@":                                       "host 1",
		"redis://user:hunter2%@h":                                     "not a URL",
		"redis://user:hunter2@h/x":                                    "database number",
		"redis://user:hunter2@h?no_such_option=1":                     "no_such_option",
		"redis+sentinel://user:hunter2@h":                             "the name of the master is missing",
		"redis+sentinel://user:hunter2@/main":                         "host 1",
		"redis+sentinel://user:hunter2@h1,h2:x/m":                     "host 2",
		"redis+sentinel://user:hunter2@h/m/x":                         "database",
		"redis+sentinel://user:hunter2@h/m/-1":                        "database",
		"redis+sentinel://user:hunter2@h/m/0?db=1":                    `"db"`,
		"redis+sentinel://user:hunter2@h/m?route_randomly=1":          `"route_randomly"`,
		"redis+sentinel://user:hunter2@h/m?hunter=1":                  "hunter",
		"redis://user:7/hunter2@h/0":                                  "%XX",
		"redis://user:hunter2@h1,h2/0":                                "several hosts",
		"redis://user:7?hunter2@h":                                    "%XX",
		"redis+cluster://user:7?hunter2@h":                            "%XX",
		"redis+sentinel://user:7/m/hunter2@h/m":                       "%XX",
		"redis+sentinel://h/m?sentinel_password=x&hunter2":            "%XX",
	} {
		client, err := redisurl.Open(url)
		if err == nil || client != nil {
			t.Errorf("%s: accepted", url)
		} else if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A private CA, which the system does not trust, signed the certificate of Redis. The client
// connects only if the parameter ca names that CA.
func TestRedisBehindAPrivateAuthority(t *testing.T) {
	ca, other := servertest.NewAuthority(t), servertest.NewAuthority(t)
	certificate, key := ca.Issue(t)
	port := strconv.Itoa(servertest.FreePort(t))
	servertest.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", ca.File,
		"--tls-cert-file", certificate, "--tls-key-file", key)
	url := "rediss://127.0.0.1:" + port + "/0?dial_timeout=1m&read_timeout=1m" // on a busy machine a handshake takes seconds
	mustBeNil(t, opened(t, url+"&pool_size=3&ca="+ca.File).Ping(t.Context()).Err())
	for name, url := range map[string]string{"the system's authorities": url, "another authority": url + "&ca=" + other.File} {
		if err := opened(t, url).Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthoritiesOfEveryKindOfURL(t *testing.T) {
	ca := servertest.NewAuthority(t)
	file, pool := ca.File, x509.NewCertPool()
	pool.AddCert(ca.Certificate)
	alone, err := redisurl.StandaloneOptions("rediss://u:p%40@h/0?ca=" + file)
	mustBeNil(t, err)
	servertest.Same(t, "alone", alone.TLSConfig.RootCAs.Equal(pool), true)
	servertest.Same(t, "its name", alone.TLSConfig.ServerName, "h")
	servertest.Same(t, "its login", login{alone.Username, alone.Password}, login{"u", "p@"})
	sentinel, err := redisurl.SentinelOptions("rediss+sentinel://h1,h2/m?sentinel_password=s&ca=" + file)
	mustBeNil(t, err)
	servertest.Same(t, "sentinel", sentinel.TLSConfig.RootCAs.Equal(pool) && sentinel.SentinelPassword == "s", true)
	cluster, err := redisurl.ClusterOptions("rediss+cluster://h1,h2?pool_size=5&ca=" + file)
	mustBeNil(t, err)
	servertest.Same(t, "cluster", cluster.TLSConfig.RootCAs.Equal(pool) && cluster.PoolSize == 5, true)
	without, err := redisurl.StandaloneOptions("rediss://h")
	mustBeNil(t, err)
	servertest.Same(t, "the system's", without.TLSConfig.RootCAs == nil, true)
}

func TestAuthoritiesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	mustBeNil(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	absent := filepath.Join(dir, "absent.pem")
	for url, want := range map[string]string{
		"rediss://h?ca=" + absent: "redis URL: ca names a file that cannot be read: no such file or directory",
		"rediss://h?ca=" + empty:  "redis URL: ca names a file without a certificate in PEM form",
		"rediss://h?ca=":          "redis URL: ca names no file",
		"rediss://h?ca=/a&ca=/b":  "redis URL: ca is given twice",
		"redis://h?ca=" + absent:  "redis URL: ca needs TLS: the URL must begin with rediss",
	} {
		_, err := redisurl.Open(url)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}
