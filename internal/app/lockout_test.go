package app

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// asBrowser is a page of the app, wherever its person is.
func asBrowser(ip string) func(*http.Request) {
	return func(r *http.Request) {
		as(publicKey)(r)
		r.Header.Set("X-Forwarded-For", ip)
	}
}

func (s *stack) withSettings(more string) *stack {
	s.Helper()
	file := s.env["SENDCODE_CONFIG"]
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, more...), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
	return s
}

func (s *stack) browserAsks(ip, to string) answer {
	s.Helper()
	return s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q}`, to), asBrowser(ip))
}

func (s *stack) browserChecks(ip, id, code string) answer {
	s.Helper()
	return s.do(0, http.MethodPost, "/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code), asBrowser(ip))
}

// Wrong codes that a browser enters for somebody keep their back end neither from sending nor from checking.
func TestWrongCodesOfABrowser(t *testing.T) {
	onEach(t, func(s *stack) {
		s.tenants().start(1)
		const page = "203.0.113.7"
		for range 4 {
			a := s.browserAsks(page, ana)
			for range 5 {
				s.browserChecks(page, a.ID, "000000")
			}
		}
		mails := len(s.awaitMail(ana, 4))
		refused := s.browserAsks(page, ana)
		if refused.status != http.StatusTooManyRequests || refused.Type != "/problems/too-many-checks" || refused.RetryAfter < 86_000 || refused.header.Get("Retry-After") == "" {
			s.Errorf("the browser's next send: %d %s", refused.status, refused.raw)
		}
		own := s.ask(0, ana)
		all := s.awaitMail(ana, mails+1)
		if len(all) != mails+1 {
			s.Errorf("%d mails, want %d", len(all), mails+1)
		}
		approved := false
		for _, m := range all { // in any order: five mails, and the tries of one code
			approved = approved || s.check(0, own.ID, s.codeIn(m)).Valid
		}
		if own.status != http.StatusAccepted || !approved {
			s.Errorf("the back end: %d %s, approved %t", own.status, own.raw, approved)
		}
		if m := s.metric(0, `sendcode_requests_total{app="default",channel="email",outcome="refused",rule="checks"}`); !strings.HasSuffix(m, " 1") {
			s.Errorf("the metrics say %q", m)
		}
	})
}

// The bound of an app stops nobody: people are alarmed, and browsers' new codes are longer.
func TestAnAppOverItsBoundOnFailedChecks(t *testing.T) {
	s := embedded(t).tenants().withSettings("trusted_proxies: [127.0.0.1/32]\nchecks: {app: {limit: 50, window: 1h}}\n").start(1)
	for n := range 12 {
		ip := fmt.Sprintf("198.18.%d.1", n)
		a := s.browserAsks(ip, fmt.Sprintf("r%d@attacker.example", n))
		if a.status != http.StatusAccepted {
			s.Fatalf("%d %s", a.status, a.raw)
		}
		for range 5 {
			if c := s.browserChecks(ip, a.ID, "000000"); c.status != http.StatusOK {
				s.Fatalf("%d %s", c.status, c.raw)
			}
		}
	}
	a := s.browserAsks("203.0.113.7", ana)
	code := s.codeIn(s.awaitMail(ana, 1)[0])
	if len(code) != 8 || !s.browserChecks("203.0.113.7", a.ID, code).Valid {
		s.Errorf("an honest browser's code has %d characters, or is not approved", len(code))
	}
	own := s.ask(0, "bob@example.com")
	code = s.codeIn(s.awaitMail("bob@example.com", 1)[0])
	if len(code) != 6 || !s.check(0, own.ID, code).Valid {
		s.Errorf("a back end's code has %d characters, or is not approved", len(code))
	}
	if m := s.metric(0, `sendcode_check_bounds_total{app="default",bound="app",channel="email"}`); m == "" || strings.HasSuffix(m, " 0") {
		s.Errorf("the metrics say %q", m)
	}
}
