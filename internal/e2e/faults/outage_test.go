package faults

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
)

// limiterUp is what the metrics say of the limiter.
func limiterUp(s *apptest.Stack, i int) string {
	s.Helper()
	_, value, _ := strings.Cut(string(s.Do(i, http.MethodGet, "/metrics", "").Raw), "\nsendcode_limiter_up ")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// three are as the default ones, but for the first, whose window is longer than any test takes.
const three = "    - {name: short, scope: recipient, limit: 1, window: 300s}\n    - {name: hour, scope: recipient, limit: 5, window: 1h}\n" +
	"    - {name: day, scope: recipient, limit: 10, window: 24h}\n"

// While Redis is away, the log decides alone, exactly; a Redis that comes back empty learns.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(three).Start(2)
	if a := s.Ask(0, "before@example.com"); a.StatusCode != http.StatusAccepted {
		t.Fatal(a.StatusCode)
	}
	s.Redis.Stop()
	if n := s.Burst(60, apptest.Ana); n != 1 {
		t.Errorf("%d let in without Redis", n)
	}
	if n := s.Burst(20, "before@example.com"); n != 0 {
		t.Errorf("%d let in within the window, without Redis", n)
	}
	told := s.Ask(1, apptest.Ana)
	if told.StatusCode != http.StatusTooManyRequests || told.RetryAfter < 150 || len(told.Quota.Rules) != 3 {
		t.Errorf("%d %s", told.StatusCode, told.Raw)
	}
	s.AwaitMail(apptest.Ana, 1)
	s.Await("degraded", func() bool { status, body := s.Ready(0); return status == 200 && body == "degraded" })
	if up := limiterUp(s, 0); up != "0" {
		t.Errorf("without Redis the metrics say %s", up)
	}
	if err := s.Redis.Start(); err != nil {
		t.Fatal(err)
	}
	s.Await("the metrics to say so", func() bool { return limiterUp(s, 0) == "1" })
	s.Await("readiness", func() bool { status, body := s.Ready(0); return status == 200 && body == "ok" })
	s.Await("Redis to learn", func() bool {
		q := s.Do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`)
		return q.Quota.BlockedBy == "short" && q.Quota.Rules[2].Remaining == 9
	})
	for _, to := range []string{apptest.Ana, "before@example.com"} {
		if n := s.Burst(20, to); n != 0 {
			t.Errorf("%d let in once Redis was back, empty", n)
		}
	}
}

func TestPostgresAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(1)
	first := s.Ask(0, "before@example.com")
	s.AwaitMail("before@example.com", 1)
	s.Postgres.Stop()
	s.Unavailable(s.Ask(0, apptest.Ana))
	s.Unavailable(s.Do(0, http.MethodGet, "/v1/verifications/"+first.ID, ""))
	s.Unavailable(s.Check(0, first.ID, "123456"))
	s.Await("not ready", func() bool { status, _ := s.Ready(0); return status == http.StatusServiceUnavailable })
	if live := s.Do(0, http.MethodGet, "/livez", ""); live.StatusCode != 200 {
		t.Errorf("livez: %d", live.StatusCode)
	}
	if n := len(s.Mails()); n != 1 {
		t.Errorf("%d mails while nothing could be written", n)
	}
	if err := s.Postgres.Start(); err != nil {
		t.Fatal(err)
	}
	s.Await("recovery", func() bool { return s.Ask(0, apptest.Ana).StatusCode == http.StatusAccepted })
	s.AwaitMail(apptest.Ana, 1)
	s.Await("readiness", func() bool { status, _ := s.Ready(0); return status == 200 })
}

func TestMailServerAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	s.SMTP.Stop()
	s.Start(1)
	a := s.Ask(0, apptest.Ana)
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	s.Await("the first attempt to fail", func() bool {
		return strings.Contains(s.Printed.String(), "an attempt failed")
	})
	s.Await("the state queued, between two attempts", func() bool {
		return s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "queued"
	})
	s.Await("readiness without it", func() bool { status, _ := s.Ready(0); return status == 200 })
	s.SMTP.Restart()
	s.AwaitMail(apptest.Ana, 1)
	s.Await("the state sent", func() bool {
		return s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "sent"
	})
}

// A mailbox that takes nothing costs nothing: the next code for it may be asked for at once, in both gates.
func TestRefusedMailboxCostsNothing(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	s.SMTP.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: apptest.Ana, Times: 1, Reply: "550 5.2.1 takes no mail " + apptest.Ana},
	}})
	s.Start(2)
	a := s.Ask(0, apptest.Ana)
	s.Await("the state failed", func() bool {
		got := s.Do(1, http.MethodGet, "/v1/verifications/"+a.ID, "")
		return got.Send.Status == "failed" && got.Send.Reason == "rejected" && got.Quota.Allowed
	})
	if again := s.Ask(1, apptest.Ana); again.StatusCode != http.StatusAccepted || again.ID != a.ID || again.Send.Number != 2 {
		t.Errorf("%d %s", again.StatusCode, again.Raw)
	}
	s.AwaitMail(apptest.Ana, 1)
}
