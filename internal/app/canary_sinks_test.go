package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/delivery/smtptest"
)

// Canaries: what a sink must not show, by what it is. None comes up by chance.
const (
	canaryPerson  = "Canary.Recipient.Zulu@example.com"
	canaryBounced = "canary.bounced.zulu@example.com"
	canaryKey     = "sk_canarywrongkeyzuluABCDEFGHIJ1"
	canaryToken   = "canary-wrong-admin-token-zulu-0123456789"
	canaryOnce    = "canary-idempotency-key-zulu-0123456789"
	canarySession = "canary-session-of-zulu"
	canaryCode    = "ZXWVTSRQ"
)

// traced has the database write each statement with its arguments into its log.
func (s *stack) traced() *stack {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.postgres.AdminURL())
	must(s.T, err)
	defer conn.Close(s.Context())
	for _, sql := range []string{"ALTER SYSTEM SET log_statement = 'all'", "ALTER SYSTEM SET log_parameter_max_length = -1", "SELECT pg_reload_conf()"} {
		_, err := conn.Exec(s.Context(), sql)
		must(s.T, err)
	}
	return s
}

// A recipient, a code, keys, tokens and the like go through everything that the service does, and no sink shows them: not its log at
// the level debug, answers and errors, metrics, webhooks, rows, acts, the limiter's keys, nor the arguments of its SQL.
func TestNoSinkShowsACanary(t *testing.T) {
	hook := newReceiver(t)
	s := onRealParts(t).hooked(hook, "purposes: {default: {code: {length: 8, alphabet: unambiguous}}}\npolicies:\n  default:\n"+roomy).traced()
	s.smtp.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: canaryBounced, Reply: "550 5.1.1 <" + canaryBounced + "> is unknown here"},
	}})
	s.env["SENDCODE_LOG_LEVEL"] = "debug"
	s.start(2)
	ask := func(to, more string, change ...func(*http.Request)) answer {
		return s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"%s}`, to, more), change...)
	}
	sent := ask(canaryPerson, `,"session":"`+canarySession+`"`, withKey(canaryOnce))
	if sent.status != http.StatusAccepted {
		t.Fatalf("%d %s", sent.status, sent.raw)
	}
	code := s.codeIn(s.awaitMail(canaryPerson, 1)[0])
	if len(code) != 8 {
		t.Fatalf("the code has %d characters", len(code))
	}
	statuses := map[string]int{}
	try := func(what string, a answer) { statuses[what] = a.status }
	try("replay", ask(canaryPerson, `,"session":"`+canarySession+`"`, withKey(canaryOnce)))
	try("bounce", ask(canaryBounced, "", patiently))
	try("wrong key", ask(canaryPerson, "", bearer(canaryKey)))
	try("wrong address", ask("<"+canaryPerson+">,", ""))
	try("unknown field", ask(canaryPerson, `,"adress":"`+canaryPerson+`"`))
	try("cut off", s.do(0, http.MethodPost, "/v1/verifications", `{"to":"`+canaryPerson))
	try("another type", s.do(0, http.MethodPost, "/v1/verifications", `{"to":["`+canaryPerson+`"]}`))
	try("in the path", s.do(0, http.MethodGet, "/v1/"+canaryPerson+"?code="+canaryCode, ""))
	try("another purpose", ask(canaryPerson, `,"purpose":"`+canarySession+`"`))
	try("wrong code", s.check(0, sent.ID, canaryCode))
	try("code with more", s.check(0, sent.ID, code+"1"))
	try("named", s.do(1, http.MethodPost, "/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"session":%q,"code":%q}`, canaryPerson, canarySession, code)))
	try("used again", s.check(1, sent.ID, code))
	try("quota", s.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+canaryPerson+`"}`))
	try("wrong token", s.do(0, http.MethodGet, "/v1/admin/sends", "", bearer(canaryToken)))
	person := `{"channel":"email","to":"` + canaryPerson + `","reason":"ticket 7"}`
	try("search", s.byAdmin(0, "/v1/admin/search", `{"channel":"email","to":"`+canaryPerson+`"}`))
	try("suppress", s.byAdmin(0, "/v1/admin/suppressions", person))
	try("suppressed", ask(canaryPerson, "", patiently))
	try("lift", s.byAdmin(0, "/v1/admin/suppressions/lift", person))
	try("reset", s.byAdmin(0, "/v1/admin/quota/reset", person))
	try("reason", s.byAdmin(0, "/v1/admin/quota/reset", strings.Replace(person, "ticket 7", "asked by "+canaryPerson, 1)))
	try("list", s.do(0, http.MethodGet, "/v1/admin/sends", "", bearer(token)))
	try("export", s.do(0, http.MethodGet, "/v1/admin/sends.csv", "", bearer(token)))
	try("acts", s.do(0, http.MethodGet, "/v1/admin/acts", "", bearer(token)))
	for what, want := range map[string]int{"replay": 202, "bounce": 502, "wrong key": 401, "wrong address": 422, "unknown field": 400, "named": 200, "wrong token": 401, "search": 200, "suppress": 201, "suppressed": 502, "reset": 204, "list": 200, "export": 200, "acts": 200} {
		if statuses[what] != want {
			t.Errorf("%s: %d, want %d", what, statuses[what], want)
		}
	}
	metrics := string(s.do(0, http.MethodGet, "/metrics", "").raw)
	var hooks strings.Builder
	for _, e := range s.awaitTold(hook, 3) { // sent, failed, approved
		hooks.Write(e.raw)
	}
	s.stop(0) // what gathers in the process is written, and what ends says so
	s.stop(1)
	sinks := map[string]string{
		"log lines": s.printed.String(), "answers": s.answered.String(), "metrics": metrics, "webhooks": hooks.String(),
		"rows": s.postgres.Dump(t), "limiter": s.dumpRedis(), "SQL arguments": s.postgres.Log(),
	}
	if !strings.Contains(sinks["SQL arguments"], "$1 = ") && !strings.Contains(sinks["SQL arguments"], "arameters: ") {
		t.Error("the database wrote no arguments")
	}
	for what, canary := range map[string]string{
		"recipient": "canary.recipient", "bounced": "canary.bounced", "wrong key": canaryKey, "wrong token": canaryToken, "idempotency key": canaryOnce,
		"session": canarySession, "code": code, "wrong code": canaryCode, "API key": apiKey, "admin token": token, "password": "a password & more",
	} {
		for sink, content := range sinks {
			s.hides(sink, what, content, canary)
		}
	}
}

// hides wants a sink without a canary, in whatever case, and without its bytes as the database writes them.
func (s *stack) hides(sink, what, content, canary string) {
	s.Helper()
	low := strings.ToLower(content)
	switch {
	case content == "":
		s.Errorf("%s: nothing to search", sink)
	case strings.Contains(low, strings.ToLower(canary)), strings.Contains(low, fmt.Sprintf("%x", canary)), strings.Contains(low, fmt.Sprintf("%x", strings.ToLower(canary))):
		s.Errorf("%s: shows the %s", sink, what)
	}
}
