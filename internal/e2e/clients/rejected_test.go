package clients

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
)

// rejecting is a service whose mail server does not know ana.
func rejecting(t *testing.T) *apptest.Stack {
	t.Helper()
	s := apptest.OnRealParts(t).Policy(apptest.Roomy)
	s.SMTP.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: apptest.Ana, Reply: "550 5.2.1 takes no mail"},
	}})
	return s
}

// hammer asks the replicas for n codes to ana, each of which ends as failed and costs nothing.
func hammer(s *apptest.Stack, n int, replicas ...int) {
	s.Helper()
	for i := range n {
		a := s.Do(replicas[i%len(replicas)], http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`"}`, apptest.Patiently)
		if a.StatusCode != http.StatusBadGateway || a.Send.Reason != "rejected" {
			s.Fatalf("%d: %d %s", i, a.StatusCode, a.Raw)
		}
		if last := i == n-1 && n == 20; a.Quota.Allowed == last || len(a.Quota.Rules) != 1 && !last {
			s.Fatalf("%d: %s", i, a.Raw)
		}
	}
}

// barred checks that ana is kept out by failures for the rest of a day, and others are not.
func barred(s *apptest.Stack, when string, replicas ...int) {
	s.Helper()
	for _, i := range replicas {
		spec := s.SpecificationOf(i)
		a := s.Ask(i, apptest.Ana)
		if a.StatusCode != http.StatusTooManyRequests || a.BlockedBy != "failures" || !slices.Equal(a.Violated, []string{"failures"}) ||
			a.RetryAfter < 86_000 || a.RetryAfter > 86_400 || len(a.Quota.Rules) != 2 {
			s.Fatalf("%s: %d %s", when, a.StatusCode, a.Raw)
		}
		if rule := a.Quota.Rules[1]; rule.Name != "failures" || rule.Limit != 20 || rule.Window != 86_400 || rule.Remaining != 0 || a.Quota.Rules[0].Remaining != 1000 {
			s.Errorf("%s: %+v", when, a.Quota.Rules)
		}
		if got := a.Header.Get("RateLimit-Policy"); got != `"wide";q=1000;w=300, "failures";q=20;w=86400` {
			s.Errorf("%s: RateLimit-Policy %s", when, got)
		}
		if err := apptest.Conforms(spec, http.MethodPost, "/v1/verifications", a); err != nil {
			s.Error(err)
		}
		look := s.Do(i, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`)
		if look.Quota.BlockedBy != "failures" || look.Quota.RetryAfter < 86_000 {
			s.Errorf("%s: a look: %s", when, look.Raw)
		}
	}
	if a := s.Ask(replicas[0], fmt.Sprintf("b%d@example.com", time.Now().UnixNano())); a.StatusCode != http.StatusAccepted || len(a.Quota.Rules) != 1 {
		s.Errorf("%s: another person: %d %s", when, a.StatusCode, a.Raw)
	}
}

// Twenty refused mailboxes cost nothing; the twenty-first request in a day is refused, whatever becomes of Redis (QUOTA-15).
func TestBadAddressesAreNotHammered(t *testing.T) {
	t.Parallel()
	s := rejecting(t).Start(2)
	hammer(s, 20, 0, 1)
	got := s.Do(0, http.MethodPost, "/v1/admin/search", `{"channel":"email","to":"`+apptest.Ana+`"}`, apptest.AsAdmin)
	if n := strings.Count(string(got.Raw), `"reason":"rejected"`); n != 20 {
		t.Errorf("%d rejected", n)
	}
	barred(s, "by Redis", 0, 1)
	s.Flush()
	s.Await("a refusal by the log", func() bool { // each replica remembers refusals for a moment
		const begin = `sendcode_requests_total{app="default",channel="email",outcome="refused_by_log",rule="failures"}`
		for i := range 2 {
			if a := s.Ask(i, apptest.Ana); a.BlockedBy != "failures" {
				t.Fatalf("%d %s", a.StatusCode, a.Raw)
			}
		}
		return s.Metric(0, begin) != "" || s.Metric(1, begin) != ""
	})
	barred(s, "by the log, which taught Redis", 0, 1)
	s.Redis.Stop()
	barred(s, "without Redis", 0, 1)
	if err := s.Redis.Start(); err != nil {
		t.Fatal(err)
	}
	s.Await("readiness", func() bool { status, body := s.Ready(0); return status == 200 && body == "ok" })
	s.Await("Redis to learn", func() bool {
		s.Ask(0, apptest.Ana)
		return s.Do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`).Quota.BlockedBy == "failures"
	})
	barred(s, "with an empty Redis", 0, 1)
	s.Await("the refusals in the log", func() bool {
		rows := s.Do(0, http.MethodGet, "/v1/admin/sends?blocked_by=failures", "", apptest.AsAdmin)
		return strings.Contains(string(rows.Raw), `"status":"refused"`)
	})
}

// In process, too, and after a restart before anybody was refused.
func TestBadAddressesAfterARestart(t *testing.T) {
	t.Parallel()
	s := rejecting(t)
	delete(s.Env, "SENDCODE_REDIS_URL")
	delete(s.Env, "SENDCODE_DATABASE_URL")
	s.Start(1)
	hammer(s, 20, 0)
	barred(s, "in process", 0)
	s.Stop(0)
	s.Start(1)
	look := s.Do(1, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`)
	if look.Quota.BlockedBy != "failures" || look.Quota.RetryAfter < 86_000 {
		t.Errorf("after a restart: %s", look.Raw)
	}
	barred(s, "after a restart", 1)
}
