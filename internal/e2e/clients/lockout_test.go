package clients

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// asBrowser is a page of the app, wherever its person is.
func asBrowser(ip string) func(*http.Request) {
	return func(r *http.Request) {
		apptest.As(apptest.PublicKey)(r)
		r.Header.Set("X-Forwarded-For", ip)
	}
}

func browserAsks(s *apptest.Stack, ip, to string) apptest.Answer {
	s.Helper()
	return s.Ask(0, to, asBrowser(ip))
}

func browserChecks(s *apptest.Stack, ip, id, code string) apptest.Answer {
	s.Helper()
	return s.Post("/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code), asBrowser(ip))
}

// Wrong codes that a browser enters for a person keep the back end neither from sending nor from checking.
func TestWrongCodesOfABrowser(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	s.Tenants().Start(1)
	const page = "203.0.113.7"
	for range 4 {
		a := browserAsks(s, page, apptest.Ana)
		for range 5 {
			browserChecks(s, page, a.ID, "000000")
		}
	}
	mails := len(s.AwaitMail(apptest.Ana, 4))
	refused := browserAsks(s, page, apptest.Ana)
	s.Is("the browser's next send", refused, http.StatusTooManyRequests, refused.RetryAfter > 86_000,
		refused.Type == "/problems/too-many-checks")
	own := s.Ask(0, apptest.Ana)
	all := s.AwaitMail(apptest.Ana, mails+1)
	if len(all) != mails+1 {
		s.Errorf("%d mails, want %d", len(all), mails+1)
	}
	approved := false
	for _, m := range all { // in any order: five mails, and the tries of one code
		approved = approved || s.Check(0, own.ID, s.CodeIn(m)).Valid
	}
	if own.StatusCode != http.StatusAccepted || !approved {
		s.Errorf("the back end: %d %s, approved %t", own.StatusCode, own.Raw, approved)
	}
	s.Counts(`sendcode_requests_total{app="default",channel="email",outcome="refused",rule="checks"}`, "1")
}

// guesses is how many wrong codes an attack has; make soak asks for 10,000, the bound by default.
var guesses = flag.Int("clients.guesses", 100, "wrong codes of an attack on an app, ten from each network")

// Wrong codes from many networks, for recipients of the attackers' own: the right codes of honest callers are approved
// throughout. At the app's bound browsers' new codes become longer, and the metrics and the log have an alarm.
func TestAnAppOverItsBoundOnFailedChecks(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Tenants().Add(fmt.Sprintf("trusted_proxies: [127.0.0.1/32]\nchecks: {app: {limit: %d, window: 1h}}\n", *guesses)).Start(1)
	mails := 0
	honest := func(length int) {
		t.Helper()
		mails++
		browsers, backEnds := fmt.Sprintf("browser%d@example.com", mails), fmt.Sprintf("backend%d@example.com", mails)
		a, own := browserAsks(s, "203.0.113.7", browsers), s.Ask(0, backEnds)
		code := s.CodeIn(s.AwaitMail(browsers, 1)[0])
		if len(code) != length || !browserChecks(s, "203.0.113.7", a.ID, code).Valid {
			s.Errorf("an honest browser's code has %d characters, or is not approved", len(code))
		}
		code = s.CodeIn(s.AwaitMail(backEnds, 1)[0])
		if len(code) != 6 || !s.Check(0, own.ID, code).Valid {
			s.Errorf("a back end's code has %d characters, or is not approved", len(code))
		}
	}
	compared := 0
	for n := range *guesses / 10 {
		ip := fmt.Sprintf("10.%d.%d.1", n/256, n%256)
		for i := range 2 {
			a := browserAsks(s, ip, fmt.Sprintf("r%d-%d@attacker.example", n, i))
			for range 5 {
				if c := browserChecks(s, ip, a.ID, "000000"); c.StatusCode == http.StatusOK && !c.Valid {
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
	if m := s.Metric(0, `sendcode_check_bounds_total{app="default",bound="app",channel="email"}`); m == "" || m == "0" {
		s.Errorf("the metrics say %q", m)
	}
	browserChecks(s, "203.0.113.7", browserAsks(s, "203.0.113.7", "late@example.com").ID, "00000000")
	if logged := s.Printed.String(); strings.Count(logged, "codes are being guessed") != 1 {
		s.Error("the log has no alarm, or more than one a minute")
	}
	s.Counts(`sendcode_check_bounds_total{app="default",bound="network"`, "")
}
