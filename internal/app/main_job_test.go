package app

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stacks are the two ways of running it; what holds for one must hold for the other.
var stacks = map[string]func(*testing.T) *stack{"embedded": embedded, "on real parts": onRealParts}

func onEach(t *testing.T, test func(s *stack)) {
	t.Helper()
	for name, make := range stacks {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(make(t)) })
	}
}

// Ask, read the mail, check, be approved; ask again and be told how long to wait; find both in the log.
func TestMainJob(t *testing.T) {
	onEach(t, func(s *stack) {
		s.start(1)
		began := time.Now()
		a := s.ask(0, ana)
		if a.status != http.StatusAccepted || a.To != anaMasked || a.state() != "pending" || a.Send.Status != "queued" {
			s.Fatalf("%d %s", a.status, a.raw)
		}
		if a.header.Get("RateLimit-Policy") != `"minute";q=1;w=60, "hour";q=5;w=3600, "day";q=10;w=86400` || a.header.Get("RateLimit") != `"minute";r=0;t=60` {
			s.Errorf("headers: %v", a.header)
		}
		if a.header.Get("Location") != "/v1/verifications/"+a.ID || a.Quota.RetryAfter != 60 || a.Quota.Allowed {
			s.Errorf("%v %s", a.header, a.raw)
		}
		code := s.codeIn(s.awaitMail(ana, 1)[0])
		s.await("the state sent", func() bool {
			return s.do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "sent"
		})
		again := s.ask(0, ana)
		if again.status != http.StatusTooManyRequests || again.BlockedBy != "minute" || again.RetryAfter > 60 || again.RetryAfter < 59-int(time.Since(began).Seconds()) {
			s.Errorf("%d %s", again.status, again.raw)
		}
		if h := again.header.Get("Retry-After"); h != strconv.Itoa(again.RetryAfter) || again.header.Get("Cache-Control") != "no-store" {
			s.Errorf("Retry-After %q, body %d", h, again.RetryAfter)
		}
		s.checks(a.ID, code)
		s.inTheLog(a.Send.ID)
		s.noCanary(code)
	})
}

func (s *stack) check(i int, id, code string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code))
}

func (s *stack) checks(id, code string) {
	s.Helper()
	if c := s.check(0, id, wrong(code)); c.status != 200 || c.Valid || *c.AttemptsRemaining != 4 {
		s.Errorf("wrong code: %s", c.raw)
	}
	if c := s.check(0, id, code[:3]+" "+code[3:]); c.status != 200 || !c.Valid || c.state() != "approved" {
		s.Errorf("right code: %s", c.raw)
	}
	if c := s.check(0, id, code); c.Valid || c.state() != "approved" || c.AttemptsRemaining != nil {
		s.Errorf("used again: %s", c.raw)
	}
}

func wrong(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return "9" + code[1:]
}

// inTheLog finds the send and the refusal as an administrator's script does.
func (s *stack) inTheLog(id string) {
	s.Helper()
	asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	s.await("send and refusal in the log", func() bool {
		list := s.do(0, http.MethodPost, "/v1/admin/search", fmt.Sprintf(`{"channel":"email","to":%q}`, ana), asAdmin)
		return strings.Contains(string(list.raw), `"status":"refused"`) && strings.Contains(string(list.raw), id)
	})
	one := s.do(0, http.MethodGet, "/v1/admin/sends/"+id, "", asAdmin)
	if one.status != 200 || !strings.Contains(string(one.raw), `"status":"sent"`) || strings.Contains(string(one.raw), "ana.maria") {
		s.Errorf("%d %s", one.status, one.raw)
	}
	if refused := s.do(0, http.MethodGet, "/v1/admin/sends", ""); refused.status != http.StatusUnauthorized {
		s.Errorf("an API key opens the log: %d", refused.status)
	}
}

// Who waits as told is let in; who comes earlier is not.
func TestWaitingAsTold(t *testing.T) {
	const rules = `    - {name: second, scope: recipient, limit: 1, window: 1s}
    - {name: five, scope: recipient, limit: 3, window: 5s}
`
	onEach(t, func(s *stack) {
		s.policy(rules).start(1)
		for round := range 6 {
			began := time.Now()
			if a := s.ask(0, ana); a.status != http.StatusAccepted {
				s.Fatalf("round %d: %d %s", round, a.status, a.raw)
			}
			wait, free := time.Second, began.Add(time.Second)
			for refusals := 0; refusals < 2; { // at once, and after half the wait
				began = time.Now()
				switch told := s.ask(0, ana); {
				case told.status == http.StatusTooManyRequests:
					wait = time.Duration(told.RetryAfterMS) * time.Millisecond
					free = began.Add(wait)
					if refusals++; refusals == 1 {
						after(wait / 2)
					}
				case told.status == http.StatusAccepted && !time.Now().Before(free): // the machine stood still for all of the wait
					free, refusals = began.Add(time.Second), 0
				default:
					s.Fatalf("round %d, after %d refusals: %d", round, refusals, told.status)
				}
			}
			after(wait)
		}
	})
}

func TestRestartForgetsNothing(t *testing.T) {
	onEach(t, func(s *stack) {
		s.start(1)
		a := s.ask(0, ana)
		code := s.codeIn(s.awaitMail(ana, 1)[0])
		s.stop(0)
		s.start(1)
		if again := s.ask(1, ana); again.status != http.StatusTooManyRequests || again.RetryAfter > 60 {
			s.Errorf("%d %s", again.status, again.raw)
		}
		if got := s.do(1, http.MethodGet, "/v1/verifications/"+a.ID, ""); got.Quota.RetryAfter == 0 || got.Send.Status != "sent" {
			s.Errorf("%s", got.raw)
		}
		if c := s.check(1, a.ID, code); !c.Valid {
			s.Errorf("%s", c.raw)
		}
	})
}
