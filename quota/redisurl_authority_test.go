package quota_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/quota/internal/redisurl"
)

// A private CA signs Redis's certificate: the system trusts it not, ca= does.
func TestRedisBehindAPrivateAuthority(t *testing.T) {
	ca, other := servertest.NewAuthority(t), servertest.NewAuthority(t)
	certificate, key := ca.Issue(t)
	port := strconv.Itoa(servertest.FreePort(t))
	servertest.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", ca.File,
		"--tls-cert-file", certificate, "--tls-key-file", key)
	url := "rediss://127.0.0.1:" + port + "/0"
	mustBeNil(t, opened(t, url+"?pool_size=3&ca="+ca.File).Ping(t.Context()).Err())
	for name, url := range map[string]string{"the system's authorities": url,
		"another authority": url + "?ca=" + other.File} {
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
	servertest.Same(t, "its name and password", alone.TLSConfig.ServerName+" "+alone.Password, "h p@")
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
		"redis://h?ca=" + absent:  "redis URL: ca is of no use without TLS; the URL would begin with rediss",
	} {
		_, err := redisurl.Open(url)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}
