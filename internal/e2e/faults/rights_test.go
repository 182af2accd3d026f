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
