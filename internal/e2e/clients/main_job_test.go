// Package clients tests what apps, browsers and people meet at the whole: sends, checks, limits, keys, and what attackers learn.
package clients

import (
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m)) }

// Ask, read the mail, check, be approved; ask again and be told how long to wait; find both in the log.
func TestMainJob(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Start(1)
		began := time.Now()
		a := s.Ask(0, apptest.Ana)
		if a.StatusCode != http.StatusAccepted || a.To != apptest.AnaMasked || a.State() != "pending" || a.Send.Status != "queued" {
			s.Fatalf("%d %s", a.StatusCode, a.Raw)
		}
		if a.Header.Get("RateLimit-Policy") != `"minute";q=1;w=60, "hour";q=5;w=3600, "day";q=10;w=86400` || a.Header.Get("RateLimit") != `"minute";r=0;t=60` {
			s.Errorf("headers: %v", a.Header)
		}
		if a.Header.Get("Location") != "/v1/verifications/"+a.ID || a.Quota.RetryAfter != 60 || a.Quota.Allowed {
			s.Errorf("%v %s", a.Header, a.Raw)
		}
		code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
		s.Await("the state sent", func() bool {
			return s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "sent"
		})
		again := s.Ask(0, apptest.Ana)
		if again.StatusCode != http.StatusTooManyRequests || again.BlockedBy != "minute" || again.RetryAfter > 60 || again.RetryAfter < 59-int(time.Since(began).Seconds()) {
			s.Errorf("%d %s", again.StatusCode, again.Raw)
		}
		if h := again.Header.Get("Retry-After"); h != strconv.Itoa(again.RetryAfter) || again.Header.Get("Cache-Control") != "no-store" {
			s.Errorf("Retry-After %q, body %d", h, again.RetryAfter)
		}
		checks(s, a.ID, code)
		s.InTheLog(a.Send.ID)
		noCanary(s, code)
	})
}

func checks(s *apptest.Stack, id, code string) {
	s.Helper()
	if c := s.Check(0, id, apptest.Wrong(code)); c.StatusCode != 200 || c.Valid || *c.AttemptsRemaining != 4 {
		s.Errorf("wrong code: %s", c.Raw)
	}
	if c := s.Check(0, id, code[:3]+" "+code[3:]); c.StatusCode != 200 || !c.Valid || c.State() != "approved" {
		s.Errorf("right code: %s", c.Raw)
	}
	if c := s.Check(0, id, code); c.Valid || c.State() != "approved" || c.AttemptsRemaining != nil {
		s.Errorf("used again: %s", c.Raw)
	}
}

// Who waits as told is let in; who comes earlier is not.
func TestWaitingAsTold(t *testing.T) {
	const rules = `    - {name: second, scope: recipient, limit: 1, window: 1s}
    - {name: five, scope: recipient, limit: 3, window: 5s}
`
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Policy(rules).Start(1)
		for round := range 6 {
			began := time.Now()
			if a := s.Ask(0, apptest.Ana); a.StatusCode != http.StatusAccepted {
				s.Fatalf("round %d: %d %s", round, a.StatusCode, a.Raw)
			}
			wait, free := time.Second, began.Add(time.Second)
			for refusals := 0; refusals < 2; { // at once, and after half the wait
				began = time.Now()
				switch told := s.Ask(0, apptest.Ana); {
				case told.StatusCode == http.StatusTooManyRequests:
					wait = time.Duration(told.RetryAfterMS) * time.Millisecond
					free = began.Add(wait)
					if refusals++; refusals == 1 {
						apptest.Sleep(wait / 2)
					}
				case told.StatusCode == http.StatusAccepted && !time.Now().Before(free): // the machine stood still for all of the wait
					free, refusals = began.Add(time.Second), 0
				default:
					s.Fatalf("round %d, after %d refusals: %d", round, refusals, told.StatusCode)
				}
			}
			apptest.Sleep(wait)
		}
	})
}

func TestRestartForgetsNothing(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Start(1)
		a := s.Ask(0, apptest.Ana)
		code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
		s.Stop(0)
		s.Start(1)
		if again := s.Ask(1, apptest.Ana); again.StatusCode != http.StatusTooManyRequests || again.RetryAfter > 60 {
			s.Errorf("%d %s", again.StatusCode, again.Raw)
		}
		if got := s.Do(1, http.MethodGet, "/v1/verifications/"+a.ID, ""); got.Quota.RetryAfter == 0 || got.Send.Status != "sent" {
			s.Errorf("%s", got.Raw)
		}
		if c := s.Check(1, a.ID, code); !c.Valid {
			s.Errorf("%s", c.Raw)
		}
	})
}
