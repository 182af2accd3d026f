package clients

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/routers"

	"sendcode/internal/http/api"
	"sendcode/internal/run/app/apptest"
)

// tenant is an app of the service that two apps share, with the data that the app has there.
type tenant struct {
	name, secret, public string
	pending              apptest.Answer // the answer to Ana's request, whose code has not been entered
	code, proof          string         // the code of Ana's verification, and the proof of Bea's
	own                  string         // the ID of Finn's code, which the app checks itself
	reference            string         // to an approval on the page
	secrets              []string       // texts that no answer to another app may contain
}

func tenantOf(name string) *tenant {
	long := strings.Repeat(name, 8)
	return &tenant{name: name, secret: "sk_" + long, public: "pk_" + long}
}

func (t *tenant) yaml(s *apptest.Stack, accent string) string {
	return fmt.Sprintf(`  - name: %[1]s
    title: The %[1]s
    mail_from: The %[1]s <codes@%[1]s.example>
    templates: %[2]s
    brand: {accent: "%[3]s", home: "https://%[1]s.example/home"}
    origins: ["https://%[1]s.example"]
    return_urls: ["https://%[1]s.example/signup"]
    keys: [{id: b, kind: secret, sha256: %[4]x}, {id: w, kind: public, sha256: %[5]x}]
`, t.name, t.templates(s), accent, sha256.Sum256([]byte(t.secret)), sha256.Sum256([]byte(t.public)))
}

// key returns an Idempotency-Key that another app may happen to use, too.
func (t *tenant) key() string { return `"the key of ` + t.name + ` and others"` }

func (t *tenant) backEnd(r *http.Request) { apptest.As(t.secret)(r) }

func (t *tenant) browser(r *http.Request) {
	apptest.As(t.public)(r)
	r.Header.Set("Origin", "https://"+t.name+".example")
}

// twoApps configures the apps shop and news, and returns them. Each recipient has one code an hour,
// and each user five events in thirty days.
func twoApps(s *apptest.Stack) (shop, news *tenant) {
	s.Helper()
	shop, news = tenantOf("shop"), tenantOf("news")
	s.Write("trusted_proxies: [127.0.0.1]\npolicies: {default: [{name: hour, scope: recipient, limit: 1, window: 1h}]}\n" +
		"limits: {month: [{name: month, key: user, limit: 5, window: 720h}]}\napps:\n" +
		shop.yaml(s, "#0b7a5c") + news.yaml(s, "#8a1fb0"))
	return shop, news
}

// templates makes a directory with the app's own subject.
func (t *tenant) templates(s *apptest.Stack) (dir string) {
	s.Helper()
	dir = s.TempDir()
	file := filepath.Join(dir, "mail", "default", "en", "subject.txt")
	apptest.Must(s.T, os.MkdirAll(filepath.Dir(file), 0o700))
	apptest.Must(s.T, os.WriteFile(file, []byte("subject of the "+t.name), 0o600))
	return dir
}

// settle gives an app everything that another app could want: a code that waits, an approval, a
// reference, limits, and used keys.
func (t *tenant) settle(s *apptest.Stack) {
	s.Helper()
	at := func(person string) string { return person + "." + t.name + "@example.com" }
	send := func(person string, change ...func(*http.Request)) apptest.Answer {
		sent := s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"reference":"order-of-%s"}`, at(person), t.name),
			append(change, t.backEnd)...)
		s.Is(person, sent, http.StatusAccepted)
		return sent
	}
	t.pending = send("ana")
	letter := s.AwaitMail(at("ana"), 1)[0]
	if t.code = s.CodeIn(letter); !strings.Contains(letter.Text, "subject of the "+t.name) ||
		s.MailServerGot("MAIL FROM:<codes@"+t.name+".example>") == 0 {
		s.Errorf("%s: its mail has another sender or another app's template", t.name)
	}
	send("cleo", apptest.WithKey(t.key()))
	bea := send("bea")
	code := fmt.Sprintf(`{"code":%q}`, s.CodeIn(s.AwaitMail(at("bea"), 1)[0]))
	t.proof = s.Post("/v1/verifications/"+bea.ID+"/check", code, t.backEnd).Proof
	for range 5 {
		s.Post("/v1/limits/month/record", `{"keys":{"user":"`+t.name+`"}}`, t.backEnd)
	}
	t.own = s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"code":"739154"}`, at("finn")), t.backEnd).ID
	t.reference = approved(s, t.name, "default", at("dora"), "https://"+t.name+".example/signup?state=1").Query().Get("reference")
	t.secrets = []string{
		t.pending.ID, t.pending.Send.ID, bea.ID, bea.Send.ID, t.code, t.proof, t.reference,
		"order-of-" + t.name, t.own, at("ana"), at("bea"), at("dora"), at("finn"),
	}
}

// onPage makes a request look as if it came from an app's page.
func onPage(app string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+api.PageKey(app))
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
}

// approved requests a code on an app's page, as a person does, and enters it. It returns where the
// page then leads.
func approved(s *apptest.Stack, app, purpose, to, returnURL string) (back *url.URL) {
	s.Helper()
	sent := s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"purpose":%q}`, to, purpose), onPage(app))
	code := fmt.Sprintf(`{"code":%q}`, s.CodeIn(s.AwaitMail(to, 1)[0]))
	form := url.Values{"return_url": {returnURL}, "proof": {s.Post("/v1/verifications/"+sent.ID+"/check", code, onPage(app)).Proof}}
	r, err := http.NewRequest(http.MethodPost, s.Replicas[0].Base+"/return?app="+app+"&purpose="+purpose, strings.NewReader(form.Encode()))
	apptest.Must(s.T, err)
	onPage(app)(r)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(r)
	apptest.Must(s.T, err)
	answer.Body.Close()
	back, err = answer.Location()
	apptest.Must(s.T, err)
	return back
}

// Each text message names the site on which its code is entered: the site of the widget, otherwise
// the site of the app's back end, otherwise the site of the page.
func TestTextsNameTheirSite(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	shop, news := tenantOf("shop"), tenantOf("news")
	s.Write("public_url: https://codes.example\napps:\n" + shop.yaml(s, "#0b7a5c") +
		strings.Replace(news.yaml(s, "#8a1fb0"), "origins:", "sms_origin: m.news.example\n    origins:", 1)).Start(1)
	for n, c := range []struct {
		by   func(*http.Request)
		site string
	}{{shop.browser, "shop.example"}, {news.browser, "news.example"}, {news.backEnd, "m.news.example"}, {shop.backEnd, "codes.example"}} {
		to := fmt.Sprintf("+4915123456%d00", n)
		s.Is(c.site, s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q}`, to), c.by), http.StatusAccepted)
		got := s.AwaitMail(to, 1)[0].Text
		if code := regexp.MustCompile(`\d{6}`).FindString(got); !strings.HasSuffix(got, "\n@"+c.site+" #"+code) {
			t.Errorf("for %s: %q", c.site, got)
		}
	}
	s.Post("/v1/verifications", `{"channel":"sms","to":"+4915123456999"}`, onPage("default"), with("Origin", "https://codes.example"))
	if got := s.AwaitMail("+4915123456999", 1)[0].Text; !strings.Contains(got, "\n@codes.example #") {
		t.Errorf("from the page: %q", got)
	}
}

// attempt is a request that names something which belongs to another app.
type attempt struct {
	path, body, key string // path is set if the operation's path has a parameter
	backEnd         int    // the status that the other app's secret key gets
	browser         int    // the status that its public key gets
	page            int    // the status that the key of its page gets; 0: the same as browser
	left            int    // at least this much is left of the first rule, because the owner's events don't count
}

// attempts returns attempts with every operation of the specification that apps call, by the
// operation's ID. No attempt may return data of owner.
func attempts(owner *tenant) map[string][]attempt {
	verification := "/v1/verifications/" + owner.pending.ID
	person := func(name string) string {
		return fmt.Sprintf(`"channel":"email","to":"%s.%s@example.com"`, name, owner.name)
	}
	month := `{"keys":{"user":"` + owner.name + `"}}`
	return map[string][]attempt{
		"send": {
			{body: `{"verification_id":"` + owner.pending.ID + `"}`, backEnd: 404, browser: 404},
			{body: `{` + person("cleo") + `}`, backEnd: 202, browser: 429}, // the browser comes second, so a rule refuses it
			// The other app's answer is not replayed, and the key is not refused.
			{body: `{` + person("eve") + `}`, key: owner.key(), backEnd: 202, browser: 429},
		},
		"get":        {{path: verification, backEnd: 404, browser: 404}},
		"check":      {{path: verification + "/check", body: `{"code":"` + owner.code + `"}`, backEnd: 404, browser: 404}},
		"cancel":     {{path: verification + "/cancel", backEnd: 404, browser: 404}},
		"checkNamed": {{body: `{` + person("ana") + `,"code":"` + owner.code + `"}`, backEnd: 404, browser: 403}},
		"report":     {{path: "/v1/verifications/" + owner.own + "/outcome", body: `{"outcome":"approved"}`, backEnd: 404, browser: 403}},
		"reportNamed": {{
			path: "/v1/verifications/outcome", body: `{` + person("finn") + `,"outcome":"approved"}`, backEnd: 404,
			browser: 403,
		}},
		"redeemProof": {
			{body: `{"proof":"` + owner.proof + `"}`, backEnd: 422, browser: 403},
			{body: `{"reference":"` + owner.reference + `"}`, backEnd: 422, browser: 403},
		},
		"quota":       {{body: `{` + person("ana") + `}`, backEnd: 200, browser: 403, left: 1}},
		"takeLimit":   {{path: "/v1/limits/month/take", body: month, backEnd: 200, browser: 403, left: 3}},
		"peekLimit":   {{path: "/v1/limits/month/peek", body: month, backEnd: 200, browser: 403, left: 3}},
		"recordLimit": {{path: "/v1/limits/month/record", body: month, backEnd: 200, browser: 403, left: 3}},

		// These answers are the same for each app, or 404.
		"proofKeys":             {{backEnd: 200, browser: 200}},
		"channels":              {{backEnd: 200, browser: 200}},
		"widget":                {{backEnd: 200, browser: 200}},
		"providerEvents":        {{path: "/v1/events/" + owner.name, body: `{}`, backEnd: 404, browser: 404}},
		"authHook":              {{path: "/v1/hooks/" + owner.name, body: `{}`, backEnd: 404, browser: 404}},
		"carrierReceipt":        {{path: "/v1/receipts/" + owner.name, body: `{}`, backEnd: 404, browser: 404}},
		"carrierReceiptByQuery": {{path: "/v1/receipts/" + owner.name, backEnd: 404, browser: 404}},
	}
}

// ofAdministrators returns an attempt with an operation that only administrators may use.
func ofAdministrators(owner *tenant, method, path string) attempt {
	id := owner.pending.Send.ID
	a := attempt{path: strings.ReplaceAll(path, "{id}", id), backEnd: 401, browser: 401, page: 401}
	if method == http.MethodPost {
		a.body = fmt.Sprintf(`{"channel":"email","to":"ana.%s@example.com","id":%q,"reason":"ours"}`, owner.name, id)
		a.browser = 403 // a browser's request comes from another site
	}
	return a
}

// Neither app reaches data of the other app by any route of the specification. A route without an
// attempt here fails the test. After the attempts, the data of the other app are unchanged.
func TestTwoAppsReachNothingOfEachOther(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	shop, news := twoApps(s)
	s.Start(1)
	shop.settle(s)
	news.settle(s)
	w := &walk{Stack: s, router: s.SpecRouter()}
	for owner, other := range map[*tenant]*tenant{shop: news, news: shop} {
		all := attempts(owner)
		for path, item := range s.OpenAPI().Paths.Map() {
			for method, operation := range item.Operations() {
				tried := all[operation.OperationID]
				if strings.HasPrefix(path, "/v1/admin/") {
					tried = []attempt{ofAdministrators(owner, method, path)}
				}
				if len(tried) == 0 {
					s.Errorf("%s %s (%s): no attempt with what belongs to another app", method, path, operation.OperationID)
				}
				for _, a := range tried {
					a.path = cmp.Or(a.path, path)
					w.try(owner, method, a, a.backEnd, other.backEnd)
					w.try(owner, method, a, a.browser, other.browser)
					w.try(owner, method, a, cmp.Or(a.page, a.browser), onPage(other.name))
				}
			}
		}
	}
	shop.wantUnchanged(s)
	news.wantUnchanged(s)
}

// walk tries the routes of the specification.
type walk struct {
	*apptest.Stack
	router routers.Router
	asked  int
}

// try makes an attempt with another app's key. The attempt comes from a separate network, because a
// network with wrong tokens is refused for a while.
func (w *walk) try(owner *tenant, method string, a attempt, status int, as func(*http.Request)) {
	w.Helper()
	w.asked++
	change := []func(*http.Request){as, func(r *http.Request) { r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.0.%d.1", w.asked)) }}
	if a.key != "" {
		change = append(change, apptest.WithKey(a.key))
	}
	got := w.Do(0, method, a.path, a.body, change...)
	what := method + " " + a.path + " of " + owner.name
	if got.StatusCode != status {
		w.Errorf("%s: %d, want %d: %s", what, got.StatusCode, status, got.Raw)
	}
	if rules := got.Quota.Rules; len(rules) > 0 && rules[0].Remaining < a.left || got.Header.Get("Idempotent-Replayed") != "" {
		w.Errorf("%s: what was done there counts for the other app: %s", what, got.Raw)
	}
	for _, secret := range owner.secrets {
		if strings.Contains(string(got.Raw), secret) || strings.Contains(fmt.Sprint(got.Header), secret) {
			w.Errorf("%s tells the other app %q: %s", what, secret, got.Raw)
		}
	}
	if err := apptest.CheckAnswer(w.router, method, a.path, got); err != nil {
		w.Errorf("%s: %v", what, err)
	}
}

// wantUnchanged checks that an app's data are unchanged.
func (t *tenant) wantUnchanged(s *apptest.Stack) {
	s.Helper()
	do := func(path, body string, change ...func(*http.Request)) apptest.Answer {
		s.Helper()
		return s.Post(path, body, append(change, t.backEnd)...)
	}
	check := "/v1/verifications/" + t.pending.ID + "/check"
	wrong := do(check, fmt.Sprintf(`{"code":%q}`, s.Wrong(t.code)))
	s.Is(t.name+": a first wrong code", wrong, http.StatusOK, wrong.AttemptsRemaining != nil && *wrong.AttemptsRemaining == 4)
	right := do(check, fmt.Sprintf(`{"code":%q}`, t.code))
	s.Is(t.name+": its code", right, http.StatusOK, right.Valid)
	report := do("/v1/verifications/"+t.own+"/outcome", `{"outcome":"failed"}`)
	s.Is(t.name+": the outcome of its own code", report, http.StatusOK, strings.Contains(string(report.Raw), `"outcome":"failed"`))
	spent := do("/v1/limits/month/peek", `{"keys":{"user":"`+t.name+`"}}`)
	s.Is(t.name+": its limit", spent, http.StatusOK, !spent.Quota.Allowed,
		len(spent.Quota.Rules) == 1 && spent.Quota.Rules[0].Remaining == 0)
	cleo := fmt.Sprintf(`{"channel":"email","to":"cleo.%s@example.com","reference":"order-of-%[1]s"}`, t.name)
	again := do("/v1/verifications", cleo, apptest.WithKey(t.key()))
	s.Is(t.name+": its Idempotency-Key", again, http.StatusAccepted, again.Header.Get("Idempotent-Replayed") == "true")
	for field, c := range map[string]struct{ value, person string }{"proof": {t.proof, "bea"}, "reference": {t.reference, "dora"}} {
		redeem := func(value string) apptest.Answer {
			return do("/v1/proofs/redeem", fmt.Sprintf(`{%q:%q}`, field, value))
		}
		what := t.name + ": its " + field
		forged := redeem(c.value[:len(c.value)-2])
		s.Is(what+", forged", forged, http.StatusUnprocessableEntity, forged.To == "")
		first := redeem(c.value)
		s.Is(what, first, http.StatusOK, first.To == c.person+"."+t.name+"@example.com")
		second := redeem(c.value)
		s.Is(what+", twice", second, http.StatusConflict, second.To == "")
	}
}
