package app

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// redisUser gives the stack a user of Redis with these rights.
func (s *stack) redisUser(rights ...string) {
	s.Helper()
	args := []any{"ACL", "SETUSER", "sendcode", "reset", "on", ">password"}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := s.redisAdmin().Do(s.Context(), args...).Err(); err != nil {
		s.Fatal(err)
	}
	s.env["SENDCODE_REDIS_URL"] = strings.Replace(s.redis.URL(), "redis://", "redis://sendcode:password@", 1)
}

func (s *stack) redisAdmin() *redis.Client {
	s.Helper()
	options, err := redis.ParseURL(s.redis.URL())
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
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^ACL SETUSER sendcode reset on >password (.*)$`).FindStringSubmatch(string(text))
	if rule == nil {
		t.Fatal("docs/operations.md has no ACL SETUSER")
	}
	return strings.Fields(rule[1])
}

// A user with exactly the rights of docs/operations.md serves a send, a check and a look.
func TestRedisUserWithTheDocumentedRights(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	s.redisUser(documentedRights(t)...)
	s.start(1)
	sent := s.ask(0, ana)
	code := s.codeIn(s.awaitMail(ana, 1)[0])
	if sent.status != http.StatusAccepted || !s.check(0, sent.ID, code).Valid {
		t.Errorf("%d %s", sent.status, sent.raw)
	}
	if looked := s.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`); looked.Quota.BlockedBy != "minute" {
		t.Errorf("a look: %s", looked.raw)
	}
	if reset := s.byAdmin(0, "/v1/admin/quota/reset", `{"channel":"email","to":"`+ana+`","reason":"ticket 7"}`); reset.status != http.StatusNoContent {
		t.Errorf("a reset: %d %s", reset.status, reset.raw)
	}
	if _, body := s.ready(0); body != "ok" || s.limiterUp(0) != "1" || contains(s.printed, "NOPERM") || contains(s.printed, "log decides") {
		t.Errorf("/readyz says %s, the metrics %s", body, s.limiterUp(0))
	}
}

// TLS by a private authority and a user with few rights, over two replicas; the certificate is exchanged under them.
func TestRedisWithTLSAndAnExchangedCertificate(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	ca, port := parts.NewAuthority(t), strconv.Itoa(parts.FreePort(t))
	certificate, key := ca.Issue(t)
	s.redis = parts.Redis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", ca.File, "--tls-cert-file", certificate, "--tls-key-file", key)
	s.redisUser(documentedRights(t)...)
	s.env["SENDCODE_REDIS_URL"] = "rediss://sendcode:password@127.0.0.1:" + port + "/0?ca=" + ca.File
	s.start(2)
	if a := s.ask(0, ana); a.status != http.StatusAccepted || s.ask(1, ana).status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	admin := s.redisAdmin()
	certificate, key = ca.Issue(t)
	if err := admin.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "USER", "sendcode").Err(); err != nil {
		t.Fatal(err)
	}
	s.await("both replicas to be ready", func() bool {
		_, first := s.ready(0)
		_, second := s.ready(1)
		return first == "ok" && second == "ok"
	})
	if a := s.ask(1, "after@example.com"); a.status != http.StatusAccepted || s.ask(0, "after@example.com").status != http.StatusTooManyRequests {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if n := s.burst(20, ana); n != 0 {
		t.Errorf("%d let in", n)
	}
}

// A user of Redis who may read alone is found before anything is sent.
func TestRedisUserWhoMayNotWrite(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	s.redisUser("~*", "+@all", "-@write")
	s.start(1)
	const reason = "degraded: redis_no_permission: The user of Redis may not run what the limiter needs; docs/operations.md lists it."
	if status, body := s.ready(0); status != http.StatusOK || body != reason {
		t.Errorf("/readyz says %d %s", status, body)
	}
	if up := s.limiterUp(0); up != "0" {
		t.Errorf("the metrics say %s", up)
	}
	if !contains(s.printed, "may not run zadd") {
		t.Error("the log does not say so at the start")
	}
	var out strings.Builder
	if err := Doctor(t.Context(), s.config(), &out); err == nil || !strings.Contains(out.String(), "✗ redis: ") || !strings.Contains(out.String(), "may not run zadd") {
		t.Errorf("the doctor says %v\n%s", err, out.String())
	}
	if n := s.burst(5, ana); n != 1 { // the log decides
		t.Errorf("%d let in", n)
	}
	s.redisUser("~*", "+@all")
	s.await("readiness", func() bool { _, body := s.ready(0); return body == "ok" && s.limiterUp(0) == "1" })
}
