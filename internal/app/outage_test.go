package app

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/delivery/smtptest"
)

func (s *stack) ready(i int) (int, string) {
	s.Helper()
	a := s.do(i, http.MethodGet, "/readyz", "")
	return a.status, string(a.raw)
}

// limiterUp is what the metrics say of the limiter.
func (s *stack) limiterUp(i int) string {
	s.Helper()
	_, value, _ := strings.Cut(string(s.do(i, http.MethodGet, "/metrics", "").raw), "\nsendcode_limiter_up ")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// unavailable is a refusal in plain words: what it is, when to come back, and not the quota's words.
func (s *stack) unavailable(a answer) {
	s.Helper()
	if a.status != http.StatusServiceUnavailable || a.Type != "/problems/unavailable" || a.header.Get("Retry-After") == "" {
		s.Errorf("%d %s %v", a.status, a.raw, a.header)
	}
	if strings.Contains(string(a.raw), "quota") && strings.Contains(string(a.raw), "rules") {
		s.Errorf("an outage speaks of the quota: %s", a.raw)
	}
}

// three are as the default ones, but for the first, whose window is longer than any test takes.
const three = "    - {name: short, scope: recipient, limit: 1, window: 300s}\n    - {name: hour, scope: recipient, limit: 5, window: 1h}\n" +
	"    - {name: day, scope: recipient, limit: 10, window: 24h}\n"

// While Redis is away, the log decides alone, exactly; a Redis that comes back empty learns.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).policy(three).start(2)
	if a := s.ask(0, "before@example.com"); a.status != http.StatusAccepted {
		t.Fatal(a.status)
	}
	s.redis.Stop()
	if n := s.burst(60, ana); n != 1 {
		t.Errorf("%d let in without Redis", n)
	}
	if n := s.burst(20, "before@example.com"); n != 0 {
		t.Errorf("%d let in within the window, without Redis", n)
	}
	told := s.ask(1, ana)
	if told.status != http.StatusTooManyRequests || told.RetryAfter < 150 || len(told.Quota.Rules) != 3 {
		t.Errorf("%d %s", told.status, told.raw)
	}
	s.awaitMail(ana, 1)
	s.await("degraded", func() bool { status, body := s.ready(0); return status == 200 && body == "degraded" })
	if up := s.limiterUp(0); up != "0" {
		t.Errorf("without Redis the metrics say %s", up)
	}
	if err := s.redis.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("the metrics to say so", func() bool { return s.limiterUp(0) == "1" })
	s.await("readiness", func() bool { status, body := s.ready(0); return status == 200 && body == "ok" })
	s.await("Redis to learn", func() bool {
		q := s.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`)
		return q.Quota.BlockedBy == "short" && q.Quota.Rules[2].Remaining == 9
	})
	for _, to := range []string{ana, "before@example.com"} {
		if n := s.burst(20, to); n != 0 {
			t.Errorf("%d let in once Redis was back, empty", n)
		}
	}
}

func TestPostgresAway(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).start(1)
	first := s.ask(0, "before@example.com")
	s.awaitMail("before@example.com", 1)
	s.postgres.Stop()
	s.unavailable(s.ask(0, ana))
	s.unavailable(s.do(0, http.MethodGet, "/v1/verifications/"+first.ID, ""))
	s.unavailable(s.check(0, first.ID, "123456"))
	s.await("not ready", func() bool { status, _ := s.ready(0); return status == http.StatusServiceUnavailable })
	if live := s.do(0, http.MethodGet, "/livez", ""); live.status != 200 {
		t.Errorf("livez: %d", live.status)
	}
	if n := len(s.mails()); n != 1 {
		t.Errorf("%d mails while nothing could be written", n)
	}
	if err := s.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("recovery", func() bool { return s.ask(0, ana).status == http.StatusAccepted })
	s.awaitMail(ana, 1)
	s.await("readiness", func() bool { status, _ := s.ready(0); return status == 200 })
}

func TestMailServerAway(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	s.smtp.Stop()
	s.start(1)
	a := s.ask(0, ana)
	if a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	s.await("the first attempt to fail", func() bool {
		return strings.Contains(s.printed.String(), "an attempt failed")
	})
	s.await("the state queued, between two attempts", func() bool {
		return s.do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "queued"
	})
	s.await("readiness without it", func() bool { status, _ := s.ready(0); return status == 200 })
	s.smtp.Restart()
	s.awaitMail(ana, 1)
	s.await("the state sent", func() bool {
		return s.do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "sent"
	})
}

// A mailbox that takes nothing costs nothing: the next code for it may be asked for at once, in both gates.
func TestRefusedMailboxCostsNothing(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	s.smtp.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: ana, Times: 1, Reply: "550 5.2.1 takes no mail " + ana},
	}})
	s.start(2)
	a := s.ask(0, ana)
	s.await("the state failed", func() bool {
		got := s.do(1, http.MethodGet, "/v1/verifications/"+a.ID, "")
		return got.Send.Status == "failed" && got.Send.Reason == "rejected" && got.Quota.Allowed
	})
	if again := s.ask(1, ana); again.status != http.StatusAccepted || again.ID != a.ID || again.Send.Number != 2 {
		t.Errorf("%d %s", again.status, again.raw)
	}
	s.awaitMail(ana, 1)
}

// A back end that waits hears of the failure in the answer itself, and may ask again at once.
func TestWaitingForTheOutcome(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	s.smtp.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: ana, Times: 1, Reply: "550 5.2.1 takes no mail"},
	}})
	s.start(1)
	patient := func(r *http.Request) { r.Header.Set("Prefer", "wait=20") }
	body := `{"channel":"email","to":"` + ana + `"}`
	a := s.do(0, http.MethodPost, "/v1/verifications", body, patient)
	if a.status != http.StatusBadGateway || a.Type != "/problems/delivery-failed" || a.Send.Reason != "rejected" || !a.Quota.Allowed {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if err := conforms(s.specification(), http.MethodPost, "/v1/verifications", a); err != nil {
		t.Error(err)
	}
	again := s.do(0, http.MethodPost, "/v1/verifications", body, patient)
	if again.status != http.StatusAccepted || again.Send.Status != "sent" || again.header.Get("Preference-Applied") != "wait=20" {
		t.Errorf("%d %s %v", again.status, again.raw, again.header)
	}
	bad := s.do(0, http.MethodPost, "/v1/verifications", body, func(r *http.Request) { r.Header.Set("Prefer", "wait=soon") })
	if bad.status != http.StatusUnprocessableEntity || bad.Field != "prefer" {
		t.Errorf("%d %s", bad.status, bad.raw)
	}
}
