package faults

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/servertest"
)

// TLS by a private authority and a user with the rights that docs/operations.md gives it, over two replicas; the certificate is
// exchanged under them.
func TestRedisWithTLSAndAnExchangedCertificate(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	ca, port := servertest.NewAuthority(t), strconv.Itoa(servertest.FreePort(t))
	certificate, key := ca.Issue(t)
	s.Redis = servertest.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", ca.File, "--tls-cert-file", certificate, "--tls-key-file", key)
	admin := s.RedisClient()
	text, err := os.ReadFile("../../../docs/operations.md")
	apptest.Must(t, err)
	rights := []any{"ACL"}
	for _, word := range strings.Fields(string(regexp.MustCompile(`(?m)^ACL (SETUSER sendcode reset on >password .*)$`).FindSubmatch(text)[1])) {
		rights = append(rights, word)
	}
	apptest.Must(t, admin.Do(t.Context(), rights...).Err())
	s.Env["SENDCODE_REDIS_URL"] = "rediss://sendcode:password@127.0.0.1:" + port + "/0?ca=" + ca.File
	s.Start(2)
	if a := s.Ask(0, apptest.Ana); a.StatusCode != http.StatusAccepted || s.Ask(1, apptest.Ana).StatusCode != http.StatusTooManyRequests {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	certificate, key = ca.Issue(t)
	apptest.Must(t, admin.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key).Err())
	apptest.Must(t, admin.Do(t.Context(), "CLIENT", "KILL", "USER", "sendcode").Err())
	s.AwaitReady(0, 200, "ok")
	s.AwaitReady(1, 200, "ok")
	if a := s.Ask(1, "after@example.com"); a.StatusCode != http.StatusAccepted || s.Ask(0, "after@example.com").StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d %s", a.StatusCode, a.Raw)
	}
	if n := s.Burst(20, apptest.Ana); n != 0 {
		t.Errorf("%d let in", n)
	}
}
