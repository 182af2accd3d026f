package clients

import (
	"crypto/sha256"
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

func browserChecks(s *apptest.Stack, ip, id, code string) apptest.Answer {
	s.Helper()
	return s.Post("/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code), asBrowser(ip))
}

// Strangers from 50 networks ask and guess until every limit of a person is reached. Then a known browser and the back end each send as
// soon as they are told, and get in. The database never has more than the policy. The windows are those of the default policy, made short.
func TestStrangersLeaveTheReserve(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Write(fmt.Sprintf(`trusted_proxies: [127.0.0.1/32]
policies:
  default:
    - {name: minute, scope: recipient, limit: 1, window: 1s}
    - {name: hour, scope: recipient, limit: 3, window: 6s, reserve: 1}
    - {name: day, scope: recipient, limit: 6, window: 1h, reserve: 2}
apps:
  - {name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}
`, sha256.Sum256([]byte(apptest.PublicKey)))).Start(1)
		mails := map[string]bool{}
		newCode := func() string {
			s.Helper()
			for _, m := range s.AwaitMail(apptest.Ana, len(mails)+1) {
				if !mails[m.ID] {
					mails[m.ID] = true
					return s.CodeIn(m)
				}
			}
			s.Fatal("no new mail")
			return ""
		}
		const home = "192.0.2.7"
		ask := func(change func(*http.Request), more string) apptest.Answer {
			s.Helper()
			return s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, apptest.Ana, more), change)
		}
		first := browserChecks(s, home, ask(asBrowser(home), "").ID, newCode())
		s.Is("the person's browser", first, http.StatusOK, first.Valid, first.Known != "")
		n := 0
		s.Await("as many sends as strangers may have", func() bool {
			stranger := asBrowser(fmt.Sprintf("10.%d.0.1", n%50))
			n++
			if a := ask(stranger, ""); a.StatusCode == http.StatusAccepted {
				newCode()
				for range 5 {
					s.Post("/v1/verifications/"+a.ID+"/check", `{"code":"000000"}`, stranger)
				}
				if policy := a.Header.Get("RateLimit-Policy"); !strings.HasPrefix(policy, `"minute";q=1;w=1, "hour";q=2;w=6, "day";q=4;w=3600`) {
					s.Errorf("a stranger is told %s", policy)
				}
			}
			return len(mails) == 4
		})
		s.Is("strangers at the end", ask(asBrowser("10.99.0.1"), ""), http.StatusTooManyRequests)
		s.Is("and with a token of another browser", ask(asBrowser("10.99.0.1"), `,"known":["AQ"]`), http.StatusTooManyRequests)
		s.Is("a back end for a stranger", ask(apptest.As(apptest.APIKey), `,"trust":"stranger"`), http.StatusTooManyRequests)
		for what, c := range map[string]struct {
			who  func(*http.Request)
			more string
		}{"the back end": {apptest.As(apptest.APIKey), ""}, "the known browser": {asBrowser(home), `,"known":["` + first.Known + `"]`}} {
			var a apptest.Answer
			s.Await(what, func() bool {
				if a = ask(c.who, c.more); a.StatusCode != http.StatusAccepted && a.RetryAfter > 6 {
					s.Fatalf("%s: %d %s", what, a.StatusCode, a.Raw)
				}
				return a.StatusCode == http.StatusAccepted
			})
			got := s.Post("/v1/verifications/"+a.ID+"/check", fmt.Sprintf(`{"code":%q}`, newCode()), c.who)
			s.Is(what, got, http.StatusOK, got.Valid, (got.Known != "") == (what == "the known browser"))
		}
		s.Is("one more than the policy", ask(apptest.As(apptest.APIKey), ""), http.StatusTooManyRequests)
		s.AwaitMail(apptest.Ana, 6)
		for field, body := range map[string]string{"trust": `,"trust":"stranger"`, "client_ip": `,"client_ip":"192.0.2.1"`} {
			s.Is("a browser", ask(asBrowser(home), body), http.StatusUnprocessableEntity, ask(asBrowser(home), body).Field == field)
		}
		s.Is("another trust", ask(apptest.As(apptest.APIKey), `,"trust":"friend"`), http.StatusUnprocessableEntity)
	})
}
