package clients

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// The service on Redis, Postgres and a mail server, used by each door but the API, which TestMainJob
// uses: a person gets a code at the page and at the widget of another site, an auth server has a code
// of its own sent, and the app's back end is told each of these sends. Then an administrator finds
// the person.
func TestDoors(t *testing.T) {
	t.Parallel()
	const hookSecret = "a secret of the auth server's hook"
	receiver := apptest.NewReceiver(t)
	s := apptest.OnRealParts(t)
	var body string
	site := pagetest.NewSite("", func() (policy, head, all string) { return "default-src * data:", "", body })
	t.Cleanup(site.Close)
	s.Env["SENDCODE_WEBHOOK_SECRETS"] = "default:" + apptest.HookSecrets[0]
	s.Env["AUTH_SECRETS"] = "v1,whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret))
	s.Write(fmt.Sprintf(`webhook_networks: [127.0.0.0/8]
apps: [{name: default, webhook: {url: "%s/hooks"}, origins: ["%s"], keys: [{id: web, kind: public, sha256: %x}]}]
hooks: [{name: auth, server: supabase-email, secret_env: AUTH_SECRETS}]
`, receiver.URL, site.Origin(), sha256.Sum256([]byte(apptest.PublicKey)))).Start(2)
	base := s.Replicas[0].Base
	body = fmt.Sprintf(`<script type="module" src="%s/widget.js"></script><send-code public-key="%s"></send-code>`, base, apptest.PublicKey)

	browser, end := pagetest.Browser(context.Background(), servertest.HeadlessShell(t))
	t.Cleanup(end)
	apptest.Must(t, chromedp.Do(browser))
	newWindow(t, browser, base+"/", "document").getsIn(s, apptest.Ana)
	const bea = "bea@example.com"
	widget := newWindow(t, browser, site.URL, "document.querySelector('send-code').shadowRoot")
	widget.eval(`addEventListener("approved", (e) => { window.proof = e.detail.proof }), ""`)
	widget.getsIn(s, bea)
	redeemed := s.Post("/v1/proofs/redeem", fmt.Sprintf(`{"proof":%q}`, widget.eval("window.proof")))
	s.Is("the widget's proof", redeemed, http.StatusOK, redeemed.To == bea)

	const cleo = "cleo@example.com"
	signup, err := os.ReadFile("../../../http/hooks/testdata/signup.json")
	apptest.Must(t, err)
	request := strings.ReplaceAll(string(signup), "ana@example.com", cleo)
	sign := func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Header.Set("Webhook-Id", "1")
		r.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
		r.Header.Set("Webhook-Signature", standardwebhooks.Sign([][]byte{[]byte(hookSecret)}, "1", time.Now(), []byte(request)))
	}
	sent := s.Post("/v1/hooks/auth", request, sign)
	s.Is("the hook", sent, http.StatusOK, string(sent.Raw) == "{}\n")
	servertest.Same(t, "the auth server's code", s.CodeIn(s.AwaitMail(cleo, 1)[0]), "305805")

	told := map[string]int{}
	for _, e := range s.AwaitTold(receiver, 5) {
		told[e.Type]++
	}
	if told["send.sent"] != 3 || told["verification.approved"] != 2 {
		t.Errorf("the back end was told %v", told)
	}

	admin := newWindow(t, browser, base+"/admin", "document")
	admin.leads("/admin", "#password", s.Env["SENDCODE_ADMIN_PASSWORD"]+kb.Enter)
	admin.leads("/admin?recipient=", "#q", bea+kb.Enter)
	if text := admin.eval("document.body.innerText"); !strings.Contains(text, "b•••@example.com") || strings.Contains(text, bea) {
		t.Errorf("the console says %s", text)
	}
}

// window is a tab of a browser with cookies of its own.
type window struct {
	*testing.T
	ctx  context.Context
	root string // expression for what holds the card: the document, or a widget's shadow tree
}

func newWindow(t *testing.T, browser context.Context, address, root string) *window {
	t.Helper()
	ctx, end := pagetest.Tab(browser)
	t.Cleanup(end)
	w := &window{t, ctx, root}
	w.do(pagetest.Look{Width: 800, Height: 700, Lang: "en"}.Apply(), chromedp.Navigate(address))
	return w
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	apptest.Must(w.T, chromedp.Do(w.ctx, steps...))
}

func (w *window) eval(script string) string {
	w.Helper()
	said, err := pagetest.Eval(w.ctx, script)
	apptest.Must(w.T, err)
	return said
}

// types waits for a field and types into it.
func (w *window) types(field, keys string) {
	w.Helper()
	servertest.Await(w, field, func() bool {
		shown, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](fmt.Sprintf(
			`(e => { e?.focus(); return !!e?.checkVisibility() })(%s?.querySelector(%q))`, w.root, field)))
		return err == nil && shown // an error: the page is just being left
	})
	w.do(chromedp.KeyEvent(keys))
}

// leads types into a field and waits for the page that comes of it, whose path and query begin with
// to.
func (w *window) leads(to, field, keys string) {
	w.Helper()
	w.types(field, "")
	apptest.Must(w.T, pagetest.DoAndWaitForPath(w.ctx, to, chromedp.KeyEvent(keys)))
}

// getsIn asks for a code, reads it in the mail and enters it.
func (w *window) getsIn(s *apptest.Stack, to string) {
	w.Helper()
	w.types("#to", to+kb.Enter)
	w.types("#code", s.CodeIn(s.AwaitMail(to, 1)[0]))
	servertest.Await(w, "the card that says so", func() bool {
		approved, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](fmt.Sprintf(
			`%s.querySelector("#card")?.dataset.kind === "approved"`, w.root)))
		return err == nil && approved
	})
}
