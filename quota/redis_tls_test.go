package quota

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/parts"
)

// A private CA signs Redis's certificate: the system trusts it not, ca= does.
func TestRedisBehindAPrivateAuthority(t *testing.T) {
	dir := t.TempDir()
	ca, other := authority(t, filepath.Join(dir, "ca.pem")), filepath.Join(dir, "other.pem")
	authority(t, other)
	ca.issue(t, filepath.Join(dir, "server"))
	port := strconv.Itoa(parts.FreePort(t))
	parts.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", filepath.Join(dir, "ca.pem"),
		"--tls-cert-file", filepath.Join(dir, "server.pem"), "--tls-key-file", filepath.Join(dir, "server.key"))
	url := "rediss://127.0.0.1:" + port + "/0"
	rules := Request{ID: "one", Rules: defaults, Buckets: map[Scope]string{Recipient: "ann"}}
	d, err := NewRedis(newClient(t, url+"?pool_size=3&ca="+filepath.Join(dir, "ca.pem")), "q:").Take(t.Context(), rules)
	must(t, err)
	same(t, "admitted", d.Admitted, true)
	for name, url := range map[string]string{"the system's authorities": url, "another authority": url + "?ca=" + other} {
		if err := NewRedis(newClient(t, url), "q:").Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthoritiesOfEveryKindOfURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca := authority(t, file)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	alone, err := aloneOptions("rediss://u:p%40@h/0?ca=" + file)
	must(t, err)
	same(t, "alone", alone.TLSConfig.RootCAs.Equal(pool), true)
	same(t, "its name and password", alone.TLSConfig.ServerName+" "+alone.Password, "h p@")
	sentinel, err := sentinelOptions("rediss+sentinel://h1,h2/m?sentinel_password=s&ca=" + file)
	must(t, err)
	same(t, "sentinel", sentinel.TLSConfig.RootCAs.Equal(pool) && sentinel.SentinelPassword == "s", true)
	cluster, err := clusterOptions("rediss+cluster://h1,h2?pool_size=5&ca=" + file)
	must(t, err)
	same(t, "cluster", cluster.TLSConfig.RootCAs.Equal(pool) && cluster.PoolSize == 5, true)
	without, err := aloneOptions("rediss://h")
	must(t, err)
	same(t, "the system's", without.TLSConfig.RootCAs == nil, true)
}

func TestAuthoritiesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	must(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	absent := filepath.Join(dir, "absent.pem")
	for url, want := range map[string]string{
		"rediss://h?ca=" + absent:            "redis URL: ca names a file that cannot be read: no such file or directory",
		"rediss+sentinel://h/m?ca=" + absent: "redis URL: ca names a file that cannot be read: no such file or directory",
		"rediss+cluster://h?ca=" + absent:    "redis URL: ca names a file that cannot be read: no such file or directory",
		"rediss://h?ca=" + empty:             "redis URL: ca names a file without a certificate in PEM form",
		"rediss://h?ca=":                     "redis URL: ca names no file",
		"rediss://h?ca=/a&ca=/b":             "redis URL: ca is given twice",
		"redis://h?ca=" + absent:             "redis URL: ca is of no use without TLS; the URL would begin with rediss",
		"redis+sentinel://h/m?ca=" + absent:  "redis URL: ca is of no use without TLS; the URL would begin with rediss",
		"redis+cluster://u:p@h?ca=" + absent: "redis URL: ca is of no use without TLS; the URL would begin with rediss",
	} {
		_, err := OpenRedis(url)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// issuer is a certificate authority.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func authority(t *testing.T, file string) issuer {
	t.Helper()
	key := must2(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := must2(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	writePEM(t, file, "CERTIFICATE", der)
	return issuer{must2(x509.ParseCertificate(der)), key}
}

// issue writes name.pem and name.key, for 127.0.0.1.
func (i issuer) issue(t *testing.T, name string) {
	t.Helper()
	key := must2(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	writePEM(t, name+".pem", "CERTIFICATE", must2(x509.CreateCertificate(rand.Reader, template, i.cert, &key.PublicKey, i.key)))
	writePEM(t, name+".key", "PRIVATE KEY", must2(x509.MarshalPKCS8PrivateKey(key)))
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
