package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery/smtptest"
)

// Room for sends, so that nothing but failures can be the reason of a refusal.
const roomy = "    - {name: wide, scope: recipient, limit: 1000, window: 300s}\n"

// rejecting is a service whose mail server does not know ana.
func rejecting(t *testing.T) *stack {
	t.Helper()
	s := onRealParts(t).policy(roomy)
	s.smtp.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: ana, Reply: "550 5.2.1 takes no mail"},
	}})
	return s
}

// hammer asks the replicas for n codes to ana, each of which ends as failed and costs nothing.
func (s *stack) hammer(n int, replicas ...int) {
	s.Helper()
	for i := range n {
		a := s.do(replicas[i%len(replicas)], http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+ana+`"}`, patiently)
		if a.status != http.StatusBadGateway || a.Send.Reason != "rejected" {
			s.Fatalf("%d: %d %s", i, a.status, a.raw)
		}
		if last := i == n-1 && n == 20; a.Quota.Allowed == last || len(a.Quota.Rules) != 1 && !last {
			s.Fatalf("%d: %s", i, a.raw)
		}
	}
}

// barred checks that ana is kept out by failures for the rest of a day, and others are not.
func (s *stack) barred(when string, replicas ...int) {
	s.Helper()
	for _, i := range replicas {
		spec := s.specificationOf(i)
		a := s.ask(i, ana)
		if a.status != http.StatusTooManyRequests || a.BlockedBy != "failures" || !slices.Equal(a.Violated, []string{"failures"}) ||
			a.RetryAfter < 86_000 || a.RetryAfter > 86_400 || len(a.Quota.Rules) != 2 {
			s.Fatalf("%s: %d %s", when, a.status, a.raw)
		}
		if rule := a.Quota.Rules[1]; rule.Name != "failures" || rule.Limit != 20 || rule.Window != 86_400 || rule.Remaining != 0 || a.Quota.Rules[0].Remaining != 1000 {
			s.Errorf("%s: %+v", when, a.Quota.Rules)
		}
		if got := a.header.Get("RateLimit-Policy"); got != `"wide";q=1000;w=300, "failures";q=20;w=86400` {
			s.Errorf("%s: RateLimit-Policy %s", when, got)
		}
		if err := conforms(spec, http.MethodPost, "/v1/verifications", a); err != nil {
			s.Error(err)
		}
		look := s.do(i, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`)
		if look.Quota.BlockedBy != "failures" || look.Quota.RetryAfter < 86_000 {
			s.Errorf("%s: a look: %s", when, look.raw)
		}
	}
	if a := s.ask(replicas[0], fmt.Sprintf("b%d@example.com", time.Now().UnixNano())); a.status != http.StatusAccepted || len(a.Quota.Rules) != 1 {
		s.Errorf("%s: somebody else: %d %s", when, a.status, a.raw)
	}
}

// Twenty refused mailboxes cost nothing; the twenty-first request in a day is refused, whatever becomes of Redis (QUOTA-15).
func TestBadAddressesAreNotHammered(t *testing.T) {
	t.Parallel()
	s := rejecting(t).start(2)
	s.hammer(20, 0, 1)
	got := s.do(0, http.MethodPost, "/v1/admin/search", `{"channel":"email","to":"`+ana+`"}`, asAdmin)
	if n := strings.Count(string(got.raw), `"reason":"rejected"`); n != 20 {
		t.Errorf("%d rejected", n)
	}
	s.barred("by Redis", 0, 1)
	s.flush()
	s.await("a refusal by the log", func() bool { // each replica remembers refusals for a moment
		const begin = `sendcode_requests_total{app="default",channel="email",outcome="refused_by_log",rule="failures"}`
		for i := range 2 {
			if a := s.ask(i, ana); a.BlockedBy != "failures" {
				t.Fatalf("%d %s", a.status, a.raw)
			}
		}
		return s.metric(0, begin) != "" || s.metric(1, begin) != ""
	})
	s.barred("by the log, which taught Redis", 0, 1)
	s.redis.Stop()
	s.barred("without Redis", 0, 1)
	if err := s.redis.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("readiness", func() bool { status, body := s.ready(0); return status == 200 && body == "ok" })
	s.await("Redis to learn", func() bool {
		s.ask(0, ana)
		return s.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`).Quota.BlockedBy == "failures"
	})
	s.barred("with an empty Redis", 0, 1)
	s.await("the refusals in the log", func() bool {
		rows := s.do(0, http.MethodGet, "/v1/admin/sends?blocked_by=failures", "", asAdmin)
		return strings.Contains(string(rows.raw), `"status":"refused"`)
	})
}

// In process, too, and after a restart before anybody was refused.
func TestBadAddressesAfterARestart(t *testing.T) {
	t.Parallel()
	s := rejecting(t)
	delete(s.env, "SENDCODE_REDIS_URL")
	delete(s.env, "SENDCODE_DATABASE_URL")
	s.start(1)
	s.hammer(20, 0)
	s.barred("in process", 0)
	s.stop(0)
	s.start(1)
	look := s.do(1, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`)
	if look.Quota.BlockedBy != "failures" || look.Quota.RetryAfter < 86_000 {
		t.Errorf("after a restart: %s", look.raw)
	}
	s.barred("after a restart", 1)
}
