package faults

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
	"sendcode/internal/parts"
)

// redisUser gives the stack a user of Redis with these rights.
func redisUser(s *apptest.Stack, rights ...string) {
	s.Helper()
	args := []any{"ACL", "SETUSER", "sendcode", "reset", "on", ">password"}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := redisAdmin(s).Do(s.Context(), args...).Err(); err != nil {
		s.Fatal(err)
	}
	s.Env["SENDCODE_REDIS_URL"] = strings.Replace(s.Redis.URL(), "redis://", "redis://sendcode:password@", 1)
}

func redisAdmin(s *apptest.Stack) *redis.Client {
	s.Helper()
	options, err := redis.ParseURL(s.Redis.URL())
	if err != nil {
		s.Fatal(err)
	}
	admin := redis.NewClient(options)
	s.Cleanup(func() { _ = admin.Close() })
	return admin
}

// documentedRights are those of docs/operations.md.
func documentedRights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^ACL SETUSER sendcode reset on >password (.*)$`).FindStringSubmatch(string(text))
	if rule == nil {
		t.Fatal("docs/operations.md has no ACL SETUSER")
	}
	return strings.Fields(rule[1])
}

// TLS by a private authority and a user with few rights, over two replicas; the certificate is exchanged under them.
func TestRedisWithTLSAndAnExchangedCertificate(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	ca, port := parts.NewAuthority(t), strconv.Itoa(parts.FreePort(t))
	certificate, key := ca.Issue(t)
	s.Redis = parts.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", ca.File, "--tls-cert-file", certificate, "--tls-key-file", key)
	redisUser(s, documentedRights(t)...)
	s.Env["SENDCODE_REDIS_URL"] = "rediss://sendcode:password@127.0.0.1:" + port + "/0?ca=" + ca.File
	s.Start(2)
	if a := s.Ask(0, apptest.Ana); a.StatusCode != http.StatusAccepted || s.Ask(1, apptest.Ana).StatusCode != http.StatusTooManyRequests {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	admin := redisAdmin(s)
	certificate, key = ca.Issue(t)
	if err := admin.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "USER", "sendcode").Err(); err != nil {
		t.Fatal(err)
	}
	s.Await("both replicas to be ready", func() bool {
		_, first := s.Ready(0)
		_, second := s.Ready(1)
		return first == "ok" && second == "ok"
	})
	if a := s.Ask(1, "after@example.com"); a.StatusCode != http.StatusAccepted || s.Ask(0, "after@example.com").StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d %s", a.StatusCode, a.Raw)
	}
	if n := s.Burst(20, apptest.Ana); n != 0 {
		t.Errorf("%d let in", n)
	}
}

// A user of Redis who may read alone is found before anything is sent.
func TestRedisUserWhoMayNotWrite(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	redisUser(s, "~*", "+@all", "-@write")
	s.Start(1)
	const reason = "degraded: redis_no_permission: The user of Redis may not run what the limiter needs; docs/operations.md lists it."
	if status, body := s.Ready(0); status != http.StatusOK || body != reason {
		t.Errorf("/readyz says %d %s", status, body)
	}
	if up := limiterUp(s, 0); up != "0" {
		t.Errorf("the metrics say %s", up)
	}
	if !apptest.Contains(s.Printed, "may not run zadd") {
		t.Error("the log does not say so at the start")
	}
	var out strings.Builder
	if err := doctor.Examine(t.Context(), s.Config(), &out); err == nil || !strings.Contains(out.String(), "✗ redis: ") || !strings.Contains(out.String(), "may not run zadd") {
		t.Errorf("the doctor says %v\n%s", err, out.String())
	}
	if n := s.Burst(5, apptest.Ana); n != 1 { // the log decides
		t.Errorf("%d let in", n)
	}
	redisUser(s, "~*", "+@all")
	s.Await("readiness", func() bool { _, body := s.Ready(0); return body == "ok" && limiterUp(s, 0) == "1" })
}
