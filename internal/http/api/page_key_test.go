package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/api"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
)

// Two apps have pages. The shop's page sends only mails; the page of the app news uses all
// channels.
var (
	pageOfShop = api.PageKey("shop")
	pageOfNews = api.PageKey("news")
	pageKeys   = api.Keys{
		keyOf("shop", secret), keyOf("shop", public),
		api.NewPageKey("shop", verification.PageOffer{Channels: []recipient.Channel{recipient.Email}, Purposes: []string{"default"}}),
		api.NewPageKey("news", verification.PageOffer{Purposes: []string{"default"}}),
	}
	fromPage = []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://codes.example"}
)

// problem is an answer's status and, if the answer is a problem, its slug and the field and reason
// that it names.
type problem struct {
	status              int
	slug, field, reason string
}

func problemOf(w *httptest.ResponseRecorder) problem {
	var p struct{ Type, Field, Reason string }
	_ = json.Unmarshal(w.Body.Bytes(), &p)
	return problem{w.Code, p.Type[strings.LastIndex(p.Type, "/")+1:], p.Field, p.Reason}
}

func invalidField(field, reason string) problem { return problem{422, "invalid-field", field, reason} }

// Only our own page may use the page's key, even if a proxy adds headers. Over plain http, the GET
// of a page looks like a program's.
func TestWhereThePagesKeyWorks(t *testing.T) {
	verificationtest.InBubble(t, func(r *verificationtest.Rig) {
		const evil = "https://evil.example"
		sent := 0
		for proxy, trusted := range map[string][]netip.Prefix{"untrusted": nil, "trusted": {netip.MustParsePrefix("192.0.2.0/24")}} {
			e := server.New(server.Config{Logger: slog.New(slog.DiscardHandler), TrustedProxies: trusted})
			r.Svc.NewAPI(api.Services{Codes: r.Svc.Service}, pageKeys).Register(e)
			browser := client{r.T, e, "192.0.2.1", pageOfShop}
			for name, c := range map[string]struct {
				header    string // names and values, separated by blanks
				post, get int
			}{
				"the page":                       {"Sec-Fetch-Site same-origin Origin https://codes.example", 202, 200},
				"the page, behind another host":  {"Sec-Fetch-Site same-origin Origin https://public.example", 202, 200},
				"the page, over plain http":      {"Origin http://codes.example", 202, 200},
				"the page, in an older browser":  {"Origin https://codes.example", 202, 200},
				"a program":                      {"User-Agent curl/8.14.1", 403, 200},
				"a person's own request":         {"Sec-Fetch-Site none", 403, 403},
				"another site":                   {"Sec-Fetch-Site cross-site Origin " + evil, 403, 403},
				"a site beside ours":             {"Sec-Fetch-Site same-site Origin https://www.codes.example", 403, 403},
				"another site that says ours":    {"Sec-Fetch-Site cross-site Origin https://codes.example", 403, 403},
				"another site, in an older one":  {"Origin " + evil, 403, 403},
				"a site of the app's origins":    {"Origin " + shop, 403, 403},
				"a sandbox":                      {"Origin null", 403, 403},
				"another port":                   {"Origin https://codes.example:8443", 403, 403},
				"another scheme":                 {"Origin ftp://codes.example", 403, 403},
				"a host that begins alike":       {"Origin https://codes.example.evil.example", 403, 403},
				"a host that ends alike":         {"Origin https://evil-codes.example", 403, 403},
				"a host that a proxy would name": {"Origin " + evil + " X-Forwarded-Host evil.example X-Forwarded-Proto https", 403, 403},
				"a client that a proxy would name": {
					"Origin " + evil + " X-Forwarded-For 203.0.113.9 Forwarded host=evil.example;proto=https", 403, 403,
				},
			} {
				header := append(strings.Fields(c.header), "Idempotency-Key", strings.Repeat("5f0c9a4b", 4)) // one verification is enough
				body := `{"channel":"email","to":"` + bob + `"}`
				post := browser.do(http.MethodPost, "https://codes.example/v1/verifications", body, header...)
				get := browser.do(http.MethodGet, "https://codes.example/v1/channels", "", header...)
				for of, got := range map[string][2]any{"POST": {post, c.post}, "GET": {get, c.get}} {
					w, want := got[0].(*httptest.ResponseRecorder), got[1].(int)
					servertest.Same(r.T, proxy+", "+name+": "+of, w.Code, want)
					if slug := problemOf(w).slug; (slug == "forbidden") != (want == 403) || strings.Contains(fmt.Sprint(w.Header()), "evil") {
						t.Errorf("%s, %s: %q %v", proxy, name, slug, w.Header())
					}
				}
				if c.post == 202 {
					sent = 1
				}
			}
			for _, query := range []string{"?key=", "?access_token=", "?public_key="} {
				noKey := client{r.T, e, "192.0.2.1", ""}
				w := noKey.do(http.MethodGet, "https://codes.example/v1/channels"+query+pageOfShop, "", fromPage...)
				servertest.Same(r.T, "in the query", problemOf(w), problem{status: 401, slug: "unauthorized"})
			}
		}
		r.Sleep(time.Second)
		r.WantMails(sent)
	})
}

// With the page's key, a stranger can use only the page's channels and purposes, and only
// verifications that browsers of the app opened with them.
func TestWhatThePagesKeyMayDo(t *testing.T) {
	germany := func(s *verificationtest.Settings) { s.Numbers.Countries = []string{"DE"} }
	verificationtest.InBubbleWith(t, germany, func(r *verificationtest.Rig) {
		e := r.Svc.Routes(pageKeys, api.Services{})
		as := func(key string) client { return client{r.T, e, "192.0.2.1", key} }
		page := as(pageOfShop)
		n := 0
		send := func(by client, what string) string {
			t.Helper()
			n++
			to := fmt.Sprintf(`"email","to":"p%d@example.com"`, n)
			if what == "sms" {
				to = fmt.Sprintf(`"sms","to":%q`, verificationtest.NthNumber(n))
				what = `,"purpose":"default"`
			}
			headers := fromPage
			if by.key == public || by.key == secret {
				headers = nil
			}
			w := by.do(http.MethodPost, "/v1/verifications", `{"channel":`+to+what+`}`, headers...)
			if w.Code != http.StatusAccepted {
				r.Fatalf("%s: %d %s", what, w.Code, w.Body)
			}
			return read(r.T, w).ID
		}
		for name, c := range map[string]struct {
			id     string
			status int
		}{
			"its own":            {send(page, ""), 200},
			"a widget's":         {send(as(public), ""), 200},
			"of another channel": {send(as(public), "sms"), 404},
			"of another purpose": {send(as(public), `,"purpose":"login"`), 404},
			"of a back end":      {send(as(secret), ""), 404},
			"of another app":     {send(as(pageOfNews), ""), 404},
			"that is not there":  {"01890a5d-ac96-774b-bcce-b302099a8057", 404},
			"that can be none":   {"x", 404},
		} {
			at := "/v1/verifications/" + c.id
			for act, w := range map[string]*httptest.ResponseRecorder{
				"resend": page.do(http.MethodPost, "/v1/verifications", `{"verification_id":"`+c.id+`"}`, fromPage...),
				"look":   page.do(http.MethodGet, at, "", fromPage...),
				"check":  page.do(http.MethodPost, at+"/check", `{"code":"000000"}`, fromPage...),
				"cancel": page.do(http.MethodPost, at+"/cancel", "", fromPage...),
			} {
				want := map[int]problem{404: {status: 404, slug: "not-found"}, 200: {status: 200}}[c.status]
				if act == "resend" && c.status == 200 {
					want = problem{status: 429, slug: "quota-exceeded"} // the rule minute admits one send
				}
				servertest.Same(r.T, act+" "+name, problemOf(w), want)
			}
		}
		mine := send(page, "")
		for body, want := range map[string]problem{
			`"channel":"sms","to":"+4915123456789"`:                              invalidField("channel", "not_allowed"),
			`"channel":"email","to":"q@example.com","purpose":"login"`:           invalidField("purpose", "unknown"),
			`"channel":"email","to":"q@example.com","purpose":"none"`:            invalidField("purpose", "unknown"),
			`"channel":"email","to":"q@example.com","client_ip":"192.0.2.9"`:     invalidField("client_ip", "not_allowed"),
			`"channel":"email","to":"q@example.com","code":"123456"`:             invalidField("code", "not_allowed"),
			`"channel":"email","to":"q@example.com","code":"123456","ttl":60`:    invalidField("code", "not_allowed"),
			`"channel":"email","to":"q@example.com","ttl":60`:                    invalidField("ttl", "not_allowed"),
			`"channel":"email","to":"q@example.com","session":"s"`:               invalidField("session", "not_allowed"),
			`"channel":"email","to":"q@example.com","trust":"known"`:             invalidField("trust", "not_allowed"),
			`"channel":"email","to":"q@example.com","reference":"order 7"`:       invalidField("reference", "not_allowed"),
			`"verification_id":"` + mine + `","reference":"order 7"`:             invalidField("reference", "not_allowed"),
			`"verification_id":"` + mine + `","channel":"sms"`:                   invalidField("channel", "mismatch"),
			`"verification_id":"` + mine + `","purpose":"login"`:                 invalidField("purpose", "mismatch"),
			`"verification_id":"` + mine + `","to":"q@example.com"`:              invalidField("to", "mismatch"),
			`"channel":"email","to":"q@example.com","app":"news"`:                {400, "unknown-field", "app", ""},
			`"channel":"email","to":"q@example.com","purpose":"default","x":"y"`: {400, "unknown-field", "x", ""},
		} {
			w := page.do(http.MethodPost, "/v1/verifications", "{"+body+"}", fromPage...)
			servertest.Same(r.T, body, problemOf(w), want)
		}
		w := page.do(http.MethodPost, "/v1/verifications", `{"channel":"email","to":"q@example.com"}`,
			append(fromPage, "Prefer", "wait=5")...)
		servertest.Same(r.T, "waits", problemOf(w), invalidField("prefer", "not_allowed"))

		// the page's own channels and purposes
		for query, want := range map[string]problem{
			"": {status: 200}, "?purpose=default": {status: 200}, "?purpose=login": invalidField("purpose", "unknown"),
		} {
			w := page.do(http.MethodGet, "/v1/channels"+query, "", fromPage...)
			var body struct {
				Channels []struct{ Channel json.RawMessage }
			}
			_ = json.Unmarshal(w.Body.Bytes(), &body)
			servertest.Same(r.T, "channels"+query, problemOf(w), want)
			channels := ""
			for _, c := range body.Channels {
				channels += string(c.Channel)
			}
			servertest.Same(r.T, "channels told"+query, channels, map[int]string{200: `"email"`}[want.status])
		}

		// all other routes are only for secret keys
		offered := strings.Fields("POST/v1/verifications GET/v1/verifications/:id POST/v1/verifications/:id/check " +
			"POST/v1/verifications/:id/cancel GET/v1/channels")
		for _, route := range e.Routes() {
			name := strings.Replace(route.Method, "HEAD", "GET", 1) + route.Path
			if strings.HasPrefix(route.Path, "/v1/") && !slices.Contains(offered, name) {
				w := page.do(route.Method, strings.ReplaceAll(route.Path, ":id", mine), "{}", fromPage...)
				servertest.Same(r.T, route.Method+" "+route.Path, problemOf(w), problem{status: 403, slug: "forbidden"})
			}
		}
		w = as(api.PageKey("gym")).do(http.MethodGet, "/v1/channels", "", fromPage...)
		servertest.Same(r.T, "an app without a page", problemOf(w), problem{status: 401, slug: "unauthorized"})

		// No message contains the origin that a stranger gave.
		w = as(pageOfNews).do(http.MethodPost, "/v1/verifications", `{"channel":"sms","to":"+4915123456700"}`,
			"Sec-Fetch-Site", "same-origin", "Origin", "https://evil.example")
		servertest.Same(r.T, "by text message", w.Code, http.StatusAccepted)
		r.Sleep(time.Second)
		for _, m := range r.Carrier.Accepted() {
			if strings.Contains(m.Text, "evil") {
				t.Errorf("%q", m.Text)
			}
		}
	})
}
