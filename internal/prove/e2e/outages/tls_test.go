//go:build nightly

package outages

import (
	"strconv"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// TLS by a private authority over two replicas; the certificate is exchanged under them.
func TestRedisWithTLSAndAnExchangedCertificate(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	ca, port := servertest.NewAuthority(t), strconv.Itoa(servertest.FreePort(t))
	certificate, key := ca.Issue(t)
	s.Redis = servertest.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", ca.File,
		"--tls-cert-file", certificate, "--tls-key-file", key)
	admin := s.RedisClient()
	s.Env["SENDCODE_REDIS_URL"] = "rediss://127.0.0.1:" + port + "/0?ca=" + ca.File
	s.Start(2)
	s.Admits(1, 2, apptest.Ana)
	certificate, key = ca.Issue(t)
	apptest.Must(t, admin.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key).Err())
	apptest.Must(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	s.AwaitReady(0, 200, "ok")
	s.AwaitReady(1, 200, "ok")
	s.Admits(1, 2, "after@example.com")
}
