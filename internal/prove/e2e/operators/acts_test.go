package operators

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
)

// After an action, the console's page says what has changed, and that is true, in each form of the
// service: on one file, on Postgres alone, and on Postgres and Redis.
func TestActsOfTheConsole(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *apptest.Stack{
		"file": apptest.Embedded, "Postgres and Redis": apptest.OnRealParts,
		"Postgres": func(t *testing.T) *apptest.Stack {
			t.Helper()
			s := apptest.OnRealParts(t)
			delete(s.Env, "SENDCODE_REDIS_URL")
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.Env["SENDCODE_ADMIN_PASSWORD"] = "a password for the tests"
			s.Policy("    - {name: two, scope: recipient, limit: 2, window: 1h}\n" + `sms:
  countries: [DE]
  carriers: [{name: rest, type: http, url: "` + apptest.NewCarrier(t).URL + `/", body: "to={to}&text={text}"}]
`).Start(1)
			c := &consoleOf{Stack: s}
			c.client.Jar, _ = cookiejar.New(nil)
			c.wantTexts("log in", c.post("/admin/login", "password", s.Env["SENDCODE_ADMIN_PASSWORD"]), "Log out")
			c.actsOnASend()
			c.actsOnASuppression()
			if s.Env["SENDCODE_DATABASE_URL"] != "" { // the tests of the console lift a pause on a file
				c.liftsAPause()
			}
			c.actsOnAnAccount()
			c.actsByTokens()
		})
	}
}

// consoleOf is a browser that an owner has logged in.
type consoleOf struct {
	*apptest.Stack
	client http.Client
}

// post sends a form with names and values, a reason and a confirmation, and returns the page to
// which it leads.
func (c *consoleOf) post(path string, pairs ...string) string {
	c.Helper()
	form := url.Values{"reason": {"ticket 7"}, "sure": {"yes"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.Replicas[0].Base+path, strings.NewReader(form.Encode()))
	apptest.Must(c.T, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return c.read(req)
}

func (c *consoleOf) get(path string) string {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.Replicas[0].Base+path, http.NoBody)
	apptest.Must(c.T, err)
	return c.read(req)
}

func (c *consoleOf) read(req *http.Request) string {
	c.Helper()
	resp, err := c.client.Do(req)
	apptest.Must(c.T, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	apptest.Must(c.T, err)
	return html.UnescapeString(strings.NewReplacer("<b>", "", "</b>", "").Replace(string(body)))
}

func (c *consoleOf) wantTexts(what, page string, texts ...string) {
	c.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			c.Fatalf("%s: %q is missing in %s", what, text, page)
		}
	}
}

func (c *consoleOf) actsOnASend() {
	c.Helper()
	first := c.Ask(0, apptest.Ana)
	c.Is("a send", first, http.StatusAccepted)
	c.AwaitState(first.ID, "sent")
	page := "/admin/sends/" + c.Verification(first.ID).Send.ID
	code := c.CodeIn(c.AwaitMail(apptest.Ana, 1)[0])
	if got := c.post(page + "/resend"); !strings.Contains(got, "Another message was asked for at") && !strings.Contains(got, "Sent again at") {
		c.Fatalf("send again: %s", got)
	}
	servertest.Same(c.T, "the code in the second mail", c.CodeIn(c.AwaitMail(apptest.Ana, 2)[1]), code)
	c.Await("the server's answer", func() bool { return strings.Contains(c.get(page+"?done=verification.resend"), "Sent again at") })
	c.Is("a third send", c.Ask(0, apptest.Ana), http.StatusTooManyRequests)
	c.wantTexts("reset", c.post(page+"/reset"), "The quota is reset: they can ask again now.")
	second := c.Ask(0, apptest.Ana)
	c.Is("a send after the reset", second, http.StatusAccepted)
	c.wantTexts("reveal", c.post(page+"/reveal"), apptest.Ana)
	c.AwaitState(second.ID, "sent")
	c.wantTexts("cancel", c.post("/admin/sends/"+c.Verification(second.ID).Send.ID+"/cancel"), "The code is canceled: it no longer works.")
	servertest.Same(c.T, "the canceled code", c.Verification(second.ID).State(), "canceled")
	c.wantTexts("export", c.post(page+"/export"), `"to":"`+apptest.AnaMasked, `"number":2`, `"canceled_at":"20`)
	c.wantTexts("erase", c.post(page+"/erase"), "The recipient is erased.")
	if got := c.get(page); strings.Contains(got, apptest.AnaMasked) {
		c.Errorf("the erased recipient is on %s", got)
	}
}

func (c *consoleOf) actsOnASuppression() {
	c.Helper()
	const page, ben = "/admin/suppressions", "ben@example.com"
	got := c.post(page, "channel", "email", "to", ben, "days", "2")
	c.wantTexts("suppress", got, "Suppressed: b•••@example.com gets no messages")
	c.Is("a suppressed one", c.Ask(0, ben, apptest.Patiently), http.StatusBadGateway)
	field := func(name string) string {
		c.Helper()
		m := regexp.MustCompile(`name="` + name + `" value="([0-9a-f]{32})"`).FindStringSubmatch(got)
		if m == nil {
			c.Fatalf("%s is missing in %s", name, got)
		}
		return m[1]
	}
	got = c.post(page+"/lift", "channel", "email", "address", field("address"), "recipient", field("recipient"))
	c.wantTexts("lift", got, "Lifted: b•••@example.com gets messages again.")
	again := c.Ask(0, ben, apptest.Patiently)
	c.Is("after the lift", again, http.StatusAccepted, again.Send.Status == "sent")
}

func (c *consoleOf) liftsAPause() {
	c.Helper()
	const body = `{"channel":"sms","to":"+4915123456789","trust":"known"}`
	first := c.Post("/v1/verifications", body, apptest.Patiently)
	c.Is("a text message", first, http.StatusAccepted)
	db, err := postgres.Open(c.Context(), c.Env["SENDCODE_DATABASE_URL"], "")
	apptest.Must(c.T, err)
	c.Cleanup(func() { _ = db.Close() })
	started, err := db.PausePrefixes(c.Context(), store.PrefixWatch{MinSends: 1, MinApprovedPercent: 100, TTL: time.Microsecond})
	apptest.Must(c.T, err)
	if len(started) != 1 {
		c.Fatalf("%+v", started)
	}
	paused := c.Post("/v1/verifications", body, apptest.Patiently)
	c.Is("a paused number", paused, http.StatusBadGateway, c.Verification(paused.ID).Send.Reason == "paused")
	c.wantTexts("lift a pause", c.post("/admin/prefixes/lift", "id", started[0].ID.String()), "Lifted: numbers that begin with +")
	c.Is("after the lift", c.Post("/v1/verifications", body, apptest.Patiently), http.StatusAccepted)
}

func (c *consoleOf) actsOnAnAccount() {
	c.Helper()
	change := func(do, says string, pairs ...string) string {
		c.Helper()
		page := c.post("/admin/accounts", append(pairs, "do", do, "name", "mei")...)
		c.wantTexts(do, page, says)
		return page
	}
	page := change("add", "mei can log in as reader, with the password below.", "role", "reader")
	password := regexp.MustCompile(`id="made">([A-Z2-7]{24})`).FindStringSubmatch(page)
	if password == nil {
		c.Fatal(page)
	}
	mei := &consoleOf{Stack: c.Stack}
	mei.client.Jar, _ = cookiejar.New(nil)
	c.wantTexts("log in as mei", mei.post("/admin/login", "username", "mei", "password", password[1]), "mei · reader")
	change("role", "mei is operator now.", "role", "operator")
	c.wantTexts("the new role", mei.get("/admin"), "mei · operator")
	change("close", "The account mei is closed: nobody can log in with it.")
	c.wantTexts("a closed account", mei.get("/admin"), `action="/admin/login"`)
	change("open", "The account mei is open: its person can log in again.")
}

// actsByTokens sends wrong tokens until the admin API refuses them with a 429. The right token
// still works, and the audit log has the acts by this token and by the forms.
func (c *consoleOf) actsByTokens() {
	c.Helper()
	var states []int
	for range 11 {
		states = append(states, c.Get("/v1/admin/acts", apptest.As("a-wrong-token-of-forty-characters-or-more")).StatusCode)
	}
	servertest.Same(c.T, "answers to wrong tokens", fmt.Sprint(states), "[401 401 401 401 401 401 401 401 401 401 429]")
	const cy = `{"channel":"email","to":"cy@example.com","reason":"asked"}`
	c.Is("suppress by token", c.ByAdmin(0, "/v1/admin/suppressions", cy), http.StatusCreated)
	c.Is("lift by token", c.ByAdmin(0, "/v1/admin/suppressions/lift", cy), http.StatusOK)
	acts := string(c.Get("/v1/admin/acts?limit=200", apptest.AsAdmin).Raw)
	for _, what := range []string{
		"verification.resend", "quota.reset", "recipient.reveal", "verification.cancel", "recipient.export", "recipient.erase",
		"suppression.add", "suppression.lift", "account.add", "account.role", "account.close", "account.open",
	} {
		if !strings.Contains(acts, `"`+what+`"`) {
			c.Errorf("%s is missing in the audit log: %s", what, acts)
		}
	}
}
