package vendors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/humancheck/vendors"
	"sendcode/quota"
)

// Only the vendor may see these values.
const (
	secret = "s3cret-canary"
	ip     = "203.0.113.77"
)

// kinds has the site keys by vendor.
var kinds = map[string]string{"turnstile": "0xAAA", "hcaptcha": "h-site", "recaptcha": "6Lsite", "http": ""}

// fake is a vendor's server. A token that begins with good passes once. While mode is set, the
// server answers badly.
type fake struct {
	t         testing.TB
	kind      string
	mode      string
	wrong     bool // the server has another secret
	mu        sync.Mutex
	used      map[string]bool
	asked     int
	elsewhere int
	ips       []string
}

// newVendor returns a client, its server, connected without a port, and the changes of health that
// the client reported.
func newVendor(t testing.TB, kind string, change ...func(*vendors.Config)) (*vendors.Verifier, *fake, *[]delivery.Health) {
	t.Helper()
	f, changes := &fake{t: t, kind: kind, used: map[string]bool{}}, new([]delivery.Health)
	c := vendors.Config{
		By: kind, SiteKey: kinds[kind], Secret: secret, Hostnames: []string{"other.example", "Shop.example"},
		URL: "http://127.0.0.1/verify", AsksPerHour: 100_000,
	}
	for _, f := range change {
		f(&c)
	}
	v, err := vendors.New(c, "shop", vendors.NewBounds(memory{quota.NewMemory(time.Now)}),
		func(h delivery.Health) { *changes = append(*changes, h) })
	servertest.OK(t, err)
	v.DialWith(f.dial)
	t.Cleanup(func() { <-time.After(providerhttp.IdleTimeout) }) // no connection outlasts the bubble
	return v, f, changes
}

type memory struct{ *quota.Memory }

func (m memory) TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return m.Take(ctx, r)
}

func ask(v *vendors.Verifier, token, network string) humancheck.Result {
	result, _ := v.Check(context.Background(), humancheck.VendorQuery{Token: token, App: "shop", Network: network, ClientIP: ip})
	return result
}

// parse returns the token of a request, and whether the request has the server's secret. It fails
// if the request differs in another way from what the vendor documents.
func (f *fake) parse(r *http.Request, body string) (token string, allowed bool, err error) {
	form, _ := url.ParseQuery(body)
	own, key, site := secret, form.Get("secret"), form.Get("sitekey")
	token = form.Get("response")
	switch f.kind {
	case "hcaptcha":
		if site != kinds[f.kind] {
			return "", false, fmt.Errorf("the site key is %q", site)
		}
	case "http":
		var asked map[string]string
		err = json.Unmarshal([]byte(body), &asked)
		token, own, key = asked["token"], "Bearer "+secret, r.Header.Get("Authorization")
		if asked["action"] != "sendcode" || asked["app"] != "shop" && token != "sendcode-probe" {
			return "", false, fmt.Errorf("asked %v, %w", asked, err)
		}
		form.Set("remoteip", asked["ip"])
	}
	if r.URL.Path != "/verify" || r.Method != http.MethodPost {
		err = errors.New(r.Method + " " + r.URL.Path)
	}
	f.ips = append(f.ips, form.Get("remoteip"))
	return token, key == own && !f.wrong, err
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	if r.URL.Path == "/elsewhere" {
		f.elsewhere++
	}
	f.asked++
	token, allowed, err := f.parse(r, string(raw))
	mode, what := f.mode, f.judge(token, allowed)
	f.mu.Unlock()
	if err != nil {
		f.t.Errorf("%s: a request that no vendor takes: %v", f.kind, err)
	}
	status, body := f.response(what)
	switch mode {
	case "slow":
		select {
		case <-time.After(time.Hour):
		case <-r.Context().Done():
		}
	case "broken":
		w.Header().Set("Content-Length", "1000")
	case "huge":
		body += strings.Repeat(" ", 70_000)
	case "html":
		body = "<html>" + secret
	case "empty":
		body = "{}"
	case "redirect":
		w.Header().Set("Location", "/elsewhere")
		status = http.StatusTemporaryRedirect
	case "404":
		status, body = http.StatusNotFound, "not here"
	case "429", "503":
		_, _ = fmt.Sscan(mode, &status)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// judge returns secret if the request had another secret, passed or used for a token that begins
// with good, and otherwise the token's text before its first underscore; see response.
func (f *fake) judge(token string, allowed bool) string {
	what, _, _ := strings.Cut(token, "_")
	switch {
	case !allowed:
		return "secret"
	case what == "good" && f.used[token]:
		return "used"
	case what == "good":
		f.used[token] = true
		return "passed"
	}
	return what
}

// response returns the vendor's answer as its documentation describes it. Unknown tokens count as
// garbage.
func (f *fake) response(what string) (status int, body string) {
	pick := func(codes map[string]string, otherwise string) string {
		if code, known := codes[what]; known {
			return code
		}
		return otherwise
	}
	host, action, score := "shop.example", "sendcode", ""
	passes := true
	switch what {
	case "passed":
	case "elsewhere":
		host = "evil.example"
	case "login":
		action = "login"
	case "robot":
		score = `,"score":0.9`
	case "nohost":
		host = ""
	case "nottold":
		host = "not-provided"
	default:
		passes = false
	}
	switch f.kind {
	case "turnstile", "recaptcha", "hcaptcha":
		extra := map[string]string{"turnstile": fmt.Sprintf(`,"action":%q`, action), "recaptcha": score}[f.kind]
		if passes {
			return 200, fmt.Sprintf(`{"success":true,"challenge_ts":"2026-11-27T19:00:00Z","hostname":%q%s}`, host, extra)
		}
		codes := map[string]string{
			"secret": "invalid-input-secret", "used": "timeout-or-duplicate", "old": "timeout-or-duplicate", "malformed": "bad-request",
			"internal": "internal-error",
		}
		if f.kind == "hcaptcha" {
			codes["used"], codes["old"] = "already-seen-response", "expired-input-response"
			codes["othersite"], codes["10000000-aaaa-bbbb-cccc-000000000001"] = "sitekey-secret-mismatch", "not-using-dummy-passcode"
		}
		return 200, fmt.Sprintf(`{"success":false,"error-codes":[%q]}`, pick(codes, "invalid-input-response"))
	}
	return max(map[string]int{"secret": 401, "malformed": 400}[what], 200), fmt.Sprintf(`{"passed":%v}`, passes)
}

// dial returns the client's end of a net.Pipe at whose other end the server answers.
func (f *fake) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mode == "refused" {
		return nil, errors.New("refused by " + ip)
	}
	client, server := net.Pipe()
	go func() { _ = http.Serve(servertest.OneConn(server), f) }()
	return client, nil
}

func (f *fake) set(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
}

func (f *fake) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}
