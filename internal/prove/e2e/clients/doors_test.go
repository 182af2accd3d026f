package clients

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// The service runs on Redis, Postgres and a mail server. People use each of its entrances except
// the API, which TestMainJob uses: a person gets a code on the page and in the widget of another
// site, and an auth server sends its own code. The app's back end gets an event for each of these
// sends. Then an administrator finds the person. The app's secret key does not work in the page of
// the site.
func TestPageWidgetAndHooksOnRealParts(t *testing.T) {
	t.Parallel()
	const hookSecret = "a secret of the auth server's hook"
	receiver := apptest.NewReceiver(t)
	s := apptest.OnRealParts(t)
	site, body := embedding(t)
	s.Env["SENDCODE_WEBHOOK_SECRETS"] = "default:" + apptest.HookSecrets[0]
	s.Env["AUTH_SECRETS"] = "v1,whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret))
	s.Write(fmt.Sprintf(`webhook_networks: [127.0.0.0/8]
%shooks: [{name: auth, server: supabase-email, secret_env: AUTH_SECRETS}]
`, appOf(site, fmt.Sprintf("webhook: {url: %q}", receiver.URL+"/hooks")))).Start(2)
	base := s.Replicas[0].Base
	*body = widgetOf(base)

	browser := browsertest.Chromium(t)
	getsIn(browsertest.NewPage(t, browser.Open(t, browsertest.Look{}), base+"/", inWidget), s, apptest.Ana)
	const bea = "bea@example.com"
	widget := browsertest.NewPage(t, browser.Open(t, browsertest.Look{}), site.URL, inWidget)
	browsertest.Value[any](widget, `addEventListener("approved", (e) => { window.proof = e.detail.proof })`)
	getsIn(widget, s, bea)
	redeemed := s.Post("/v1/proofs/redeem", fmt.Sprintf(`{"proof":%q}`, browsertest.Value[string](widget, "window.proof")))
	s.Is("the widget's proof", redeemed, http.StatusOK, redeemed.To == bea)

	stolen := fmt.Sprintf(`fetch(%q, {method: "POST", headers: {Authorization: "Bearer " + %q, "Content-Type": "application/json"},
		body: %q}).then((answer) => answer.status, () => 0)`, base+"/v1/verifications", apptest.APIKey,
		`{"channel":"email","to":"dan@example.com"}`)
	servertest.Same(t, "a secret key in the site's page", browsertest.Value[int](widget, stolen), http.StatusForbidden)

	const cleo = "cleo@example.com"
	signup, err := os.ReadFile("../../../http/authhooks/testdata/signup.json")
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
	for _, e := range s.AwaitEvents(receiver, 5) {
		told[e.Type]++
	}
	if told["send.sent"] != 3 || told["verification.approved"] != 2 {
		t.Errorf("the back end was told %v", told)
	}

	findsPerson(browsertest.NewPage(t, browser.Open(t, browsertest.Look{}), base+"/admin", ""), s, bea, "b•••@example.com")
}
