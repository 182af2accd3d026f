package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// Canaries are texts that no sink may show, by their kind. None can come up by chance.
const (
	canaryPerson  = "Canary.Recipient.Zulu@example.com"
	canaryBounced = "canary.bounced.zulu@example.com"
	canaryKey     = "sk_canarywrongkeyzuluABCDEFGHIJ1"
	canaryToken   = "canary-wrong-admin-token-zulu-0123456789"
	canaryOnce    = "canary-idempotency-key-zulu-0123456789"
	canarySession = "canary-session-of-zulu"
	canaryCode    = "ZXWVTSRQ"
)

// logStatements makes Postgres log each statement and its arguments.
func logStatements(s *apptest.Stack) {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.Postgres.AdminURL())
	apptest.Must(s.T, err)
	defer conn.Close(s.Context())
	for _, sql := range []string{
		"ALTER SYSTEM SET log_statement = 'all'",
		"ALTER SYSTEM SET log_parameter_max_length = -1", "SELECT pg_reload_conf()",
	} {
		_, err := conn.Exec(s.Context(), sql)
		apptest.Must(s.T, err)
	}
}

// A recipient, a code, keys, tokens and similar texts go through everything that the service does.
// No sink shows them: the log at the level debug, answers and errors, metrics, webhooks, rows, the
// audit log, the limiter's keys, and the arguments of SQL.
func TestNoSinkShowsACanary(t *testing.T) {
	t.Parallel()
	hook := apptest.NewReceiver(t)
	s := apptest.OnOwnPostgres(t).WithWebhook(hook,
		"purposes: {default: {code: {length: 8, alphabet: unambiguous}}}\npolicies:\n  default:\n"+apptest.Roomy)
	logStatements(s)
	s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, To: canaryBounced, Reply: "550 5.1.1 <" + canaryBounced +
		"> canary.bounced.zulu is unknown here, see https://example.com/canary.bounced.zulu?to=" + canaryBounced})
	s.Env["SENDCODE_LOG_LEVEL"] = "debug"
	s.Start(2)
	ask := func(to, more string, change ...func(*http.Request)) apptest.Answer {
		return s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"%s}`, to, more), change...)
	}
	sent := ask(canaryPerson, `,"session":"`+canarySession+`"`, apptest.WithKey(canaryOnce))
	s.Is("a send", sent, http.StatusAccepted)
	code := s.CodeIn(s.AwaitMail(canaryPerson, 1)[0])
	if len(code) != 8 {
		t.Fatalf("the code has %d characters", len(code))
	}
	statuses := map[string]int{}
	try := func(what string, a apptest.Answer) { statuses[what] = a.StatusCode }
	try("replay", ask(canaryPerson, `,"session":"`+canarySession+`"`, apptest.WithKey(canaryOnce)))
	try("bounce", ask(canaryBounced, "", apptest.Patiently))
	try("wrong key", ask(canaryPerson, "", apptest.As(canaryKey)))
	try("wrong address", ask(canaryPerson+", "+canaryPerson, ""))
	try("unknown field", ask(canaryPerson, `,"adress":"`+canaryPerson+`"`))
	try("cut off", s.Post("/v1/verifications", `{"to":"`+canaryPerson))
	try("another type", s.Post("/v1/verifications", `{"to":["`+canaryPerson+`"]}`))
	try("in the path", s.Get("/v1/"+canaryPerson+"?code="+canaryCode))
	try("another purpose", ask(canaryPerson, `,"purpose":"`+canarySession+`"`))
	try("wrong code", s.Check(0, sent.ID, canaryCode))
	try("code with more", s.Check(0, sent.ID, code+"1"))
	try("named", s.Do(1, http.MethodPost, "/v1/verifications/check",
		fmt.Sprintf(`{"channel":"email","to":%q,"session":%q,"code":%q}`, canaryPerson, canarySession, code)))
	try("used again", s.Check(1, sent.ID, code))
	try("quota", s.Post("/v1/quota", `{"channel":"email","to":"`+canaryPerson+`"}`))
	try("wrong token", s.Get("/v1/admin/sends", apptest.As(canaryToken)))
	person := `{"channel":"email","to":"` + canaryPerson + `","reason":"ticket 7"}`
	try("search", s.ByAdmin(0, "/v1/admin/search", `{"channel":"email","to":"`+canaryPerson+`"}`))
	try("suppress", s.ByAdmin(0, "/v1/admin/suppressions", person))
	try("suppressed", ask(canaryPerson, "", apptest.Patiently))
	try("lift", s.ByAdmin(0, "/v1/admin/suppressions/lift", person))
	try("reset", s.ByAdmin(0, "/v1/admin/quota/reset", person))
	try("reason", s.ByAdmin(0, "/v1/admin/quota/reset", strings.Replace(person, "ticket 7", "asked by "+canaryPerson, 1)))
	try("list", s.Get("/v1/admin/sends", apptest.As(apptest.Token)))
	try("export", s.Get("/v1/admin/sends.csv", apptest.As(apptest.Token)))
	try("acts", s.Get("/v1/admin/acts", apptest.As(apptest.Token)))
	for what, want := range map[string]int{
		"replay": 202, "bounce": 502, "wrong key": 401, "wrong address": 422,
		"unknown field": 400, "named": 200, "wrong token": 401, "search": 200, "suppress": 201, "suppressed": 502,
		"reset": 204, "list": 200, "export": 200, "acts": 200,
	} {
		if statuses[what] != want {
			t.Errorf("%s: %d, want %d", what, statuses[what], want)
		}
	}
	metrics := string(s.Get("/metrics").Raw)
	var hooks strings.Builder
	for _, e := range s.AwaitEvents(hook, 3) { // events for sent, failed and approved
		hooks.Write(e.Raw)
	}
	s.Stop(0) // the stop writes everything that the process has not written yet
	s.Stop(1)
	if !s.Logged(`"reply_text":"… is unknown here, see https://example.com/…?…"`) {
		t.Error("the log does not say why the mail server refused")
	}
	sinks := map[string]string{
		"log lines": s.Printed.String(), "answers": s.Answered.String(), "metrics": metrics, "webhooks": hooks.String(),
		"rows": s.Dump(), "limiter": keysAndValues(s), "SQL arguments": s.Postgres.Log(),
	}
	if !strings.Contains(sinks["SQL arguments"], "$1 = ") && !strings.Contains(sinks["SQL arguments"], "arameters: ") {
		t.Error("the database wrote no arguments")
	}
	showNone(t, sinks, map[string]string{
		"recipient": "canary.recipient", "bounced": "canary.bounced", "wrong key": canaryKey,
		"wrong token": canaryToken, "idempotency key": canaryOnce,
		"session": canarySession, "code": code, "wrong code": canaryCode, "API key": apptest.APIKey,
		"admin token": apptest.Token, "password": "a password & more",
	})
}

// showNone fails the test if a sink is empty or shows a canary, as text in any case or in the form
// in which the database writes bytes. The map's keys are the names of the sinks and of the
// canaries.
func showNone(t *testing.T, sinks, canaries map[string]string) {
	t.Helper()
	for sink, content := range sinks {
		low := strings.ToLower(content)
		for what, canary := range canaries {
			for _, trace := range []string{strings.ToLower(canary), fmt.Sprintf("%x", canary), fmt.Sprintf("%x", strings.ToLower(canary))} {
				if content == "" || strings.Contains(low, trace) {
					t.Errorf("%s, of %d bytes: empty, or they show the %s", sink, len(content), what)
				}
			}
		}
	}
}

func keysAndValues(s *apptest.Stack) string {
	s.Helper()
	var all strings.Builder
	c := s.RedisClient()
	for keys := c.Scan(s.Context(), 0, "*", 1000).Iterator(); keys.Next(s.Context()); {
		members := c.ZRange(s.Context(), keys.Val(), 0, -1).Val()
		fmt.Fprintln(&all, keys.Val(), c.Dump(s.Context(), keys.Val()).Val(), strings.Join(members, "\n"))
	}
	return all.String()
}
