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

// Callers make the codes of these sends. The sends succeed, fail, are canceled, expire, or are
// under way when the process is killed. No sink shows a code in the clear. Once a send has ended,
// no row has its code, not even encrypted.
func TestNoSinkShowsACallersCode(t *testing.T) {
	t.Parallel()
	hook := apptest.NewReceiver(t)
	s := apptest.OnOwnPostgres(t).WithWebhook(hook, "policies:\n  default:\n"+apptest.Roomy)
	logStatements(s)
	db, err := pgx.Connect(s.Context(), s.Env["SENDCODE_DATABASE_URL"])
	apptest.Must(t, err)
	defer db.Close(s.Context())
	sealed := func() (codes []string) {
		t.Helper()
		rows, err := db.Query(s.Context(), `SELECT encode(sealed, 'hex') FROM outbox WHERE sealed IS NOT NULL`)
		apptest.Must(t, err)
		codes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		apptest.Must(t, err)
		return codes
	}
	exec := func(statement string, args ...any) (rows int64) {
		t.Helper()
		done, err := db.Exec(s.Context(), statement, args...)
		apptest.Must(t, err)
		return done.RowsAffected()
	}
	const later = "451 4.7.1 come back later"
	crash := make(chan struct{})
	s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, To: "failed@example.com", Reply: "550 5.1.1 unknown"},
		smtptest.Rule{Stage: smtptest.Rcpt, To: "canceled@example.com", Reply: later},
		smtptest.Rule{Stage: smtptest.Rcpt, To: "expired@example.com", Reply: later},
		smtptest.Rule{Stage: smtptest.Rcpt, To: "killed@example.com", Times: 1, Until: crash})
	s.Env["SENDCODE_LOG_LEVEL"] = "debug"
	first := s.Spawn()
	codes, ids := map[string]string{}, map[string]string{}
	for n, what := range []string{"sent", "failed", "canceled", "expired", "killed"} {
		codes[what] = fmt.Sprintf("ZuluCanary%d%d", n, n)
		body := fmt.Sprintf(`{"channel":"email","to":"%s@example.com","locale":"en","code":%q,"ttl":3600}`, what, codes[what])
		for range 2 { // the second request repeats the first one
			a, err := s.At(first.Base, http.MethodPost, "/v1/verifications", body, apptest.WithKey("key-of-the-request-"+what))
			apptest.Must(t, err)
			s.Is(what, a, http.StatusAccepted)
			ids[what] = a.ID
			_, _ = s.Answered.Write(a.Raw)
		}
	}
	s.AwaitMail("sent@example.com", 1)
	s.Await("three codes, two of them of deferred sends, which are not tried again", func() bool {
		return exec(`UPDATE outbox SET due_at = now() + interval '1 hour' WHERE queued`) == 2 && len(sealed()) == 3
	})
	inFlight := sealed()
	metrics, err := s.At(first.Base, http.MethodGet, "/metrics", "")
	apptest.Must(t, err)
	during := s.Dump()
	first.Kill()
	close(crash)
	exec(`UPDATE outbox SET due_at = now() WHERE NOT queued`) // the lease of the send has expired
	s.Start(1)
	if mail := s.AwaitMail("killed@example.com", 1)[0]; !strings.Contains(mail.Text, "\n"+codes["killed"]+"\r\n") {
		t.Errorf("taken over: %s", mail.Text)
	}
	s.Is("cancel", s.Post("/v1/verifications/"+ids["canceled"]+"/cancel", ""), http.StatusOK)
	exec(`UPDATE verifications SET expires_at = now() WHERE id = $1`, ids["expired"])
	s.Await("all sends to end", func() bool {
		exec(`UPDATE outbox SET due_at = now() WHERE queued`) // the next attempts are due now
		return len(sealed()) == 0
	})
	for what, status := range map[string]string{
		"sent": "sent", "failed": "failed", "canceled": "failed",
		"expired": "failed", "killed": "sent",
	} {
		if got := s.Verification(ids[what]); string(got.Send.Status) != status {
			t.Errorf("%s: %s", what, got.Raw)
		}
		got := s.Check(0, ids[what], codes[what])
		s.Is("a check", got, http.StatusConflict, got.Problem() == "caller-checks")
	}
	for _, id := range ids {
		s.Get("/v1/admin/sends/"+s.Verification(id).Send.ID, apptest.As(apptest.Token))
	}
	s.Get("/v1/admin/sends", apptest.As(apptest.Token))
	s.Get("/v1/admin/sends.csv", apptest.As(apptest.Token))
	var told strings.Builder
	for _, e := range s.AwaitEvents(hook, 5) {
		told.Write(e.Raw)
	}
	s.Stop(0)
	after := s.Dump()
	showNone(t, map[string]string{
		"log lines": s.Printed.String(), "answers": s.Answered.String(), "metrics": string(metrics.Raw),
		"webhooks":       told.String(),
		"rows in flight": during, "rows afterwards": after, "limiter": keysAndValues(s),
		"SQL arguments": s.Postgres.Log(),
	}, codes)
	for _, code := range inFlight {
		if !strings.Contains(during, code) || strings.Contains(after, code) {
			t.Error("an encrypted code is not in the dump while its send is in flight, or is there afterwards")
		}
	}
}
