package app

import (
	"flag"
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

// guesses is how many wrong codes an attack has; make soak asks for 10,000, the bound by default.
var guesses = flag.Int("app.guesses", 100, "wrong codes of an attack on an app, ten from each network")

// Wrong codes from many networks, for recipients of the attackers' own: the right codes of honest callers are approved
// throughout. At the app's bound browsers' new codes become longer, and the metrics and the log have an alarm.
func TestAnAppOverItsBoundOnFailedChecks(t *testing.T) {
	s := embedded(t).tenants().withSettings(fmt.Sprintf("trusted_proxies: [127.0.0.1/32]\nchecks: {app: {limit: %d, window: 1h}}\n", *guesses)).start(1)
	mails := 0
	honest := func(length int) {
		t.Helper()
		mails++
		browsers, backEnds := fmt.Sprintf("browser%d@example.com", mails), fmt.Sprintf("backend%d@example.com", mails)
		a, own := s.browserAsks("203.0.113.7", browsers), s.ask(0, backEnds)
		code := s.codeIn(s.awaitMail(browsers, 1)[0])
		if len(code) != length || !s.browserChecks("203.0.113.7", a.ID, code).Valid {
			s.Errorf("an honest browser's code has %d characters, or is not approved", len(code))
		}
		code = s.codeIn(s.awaitMail(backEnds, 1)[0])
		if len(code) != 6 || !s.check(0, own.ID, code).Valid {
			s.Errorf("a back end's code has %d characters, or is not approved", len(code))
		}
	}
	compared := 0
	for n := range *guesses / 10 {
		ip := fmt.Sprintf("10.%d.%d.1", n/256, n%256)
		for i := range 2 {
			a := s.browserAsks(ip, fmt.Sprintf("r%d-%d@attacker.example", n, i))
			for range 5 {
				if c := s.browserChecks(ip, a.ID, "000000"); c.status == http.StatusOK && !c.Valid {
					compared++
				}
			}
		}
		if n == *guesses/20 {
			honest(6)
		}
	}
	if compared != *guesses {
		s.Errorf("%d wrong codes were compared", compared)
	}
	honest(8)
	if m := s.metric(0, `sendcode_check_bounds_total{app="default",bound="app",channel="email"}`); m == "" || strings.HasSuffix(m, " 0") {
		s.Errorf("the metrics say %q", m)
	}
	s.browserChecks("203.0.113.7", s.browserAsks("203.0.113.7", "late@example.com").ID, "00000000")
	if logged := s.printed.String(); strings.Count(logged, "more codes fail to be checked") != 1 {
		s.Error("the log has no alarm, or more than one a minute")
	}
	if m := s.metric(0, `sendcode_check_bounds_total{app="default",bound="network"`); m != "" {
		s.Errorf("the metrics say %q", m)
	}
}
