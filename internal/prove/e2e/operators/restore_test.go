//go:build nightly

package operators

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// runbook returns the commands in operations.md that make a backup and restore it.
func runbook(t *testing.T) (backup, restore string) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	apptest.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n### Backup and restore\n")
	blocks := servertest.Blocks(t, section, "sh")
	return blocks[0], blocks[1]
}

// A recipient may have five sends an hour. Before the dump, two mails arrived and one waited. The
// restore loses the send after the dump, and sends the waiting mail again.
func TestRestore(t *testing.T) {
	t.Parallel()
	backup, restore := runbook(t)
	for name, c := range map[string]struct {
		flush bool
		more  int // sends that are admitted afterwards
		hold  bool
	}{
		"Redis kept": {more: 1}, "Redis empty": {flush: true, more: 2}, "held": {flush: true, more: 2, hold: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t).Policy("    - {name: hour, scope: recipient, limit: 5, window: 1h}\n").Start(1)
			owner, _, _ := strings.Cut(s.Env["SENDCODE_DATABASE_URL"], "&") // without the parameters that the tests add
			dir := t.TempDir()
			run := func(script string) { t.Helper(); s.Postgres.Script(t, dir, script, "OWNER_URL="+owner) }
			db := connect(s, owner)
			outbox := func(want string) { // want: the number of rows, and of those that wait for their next attempt
				t.Helper()
				s.Await("the outbox "+want, func() (is bool) {
					const query = `SELECT count(*) || ' ' || count(*) FILTER (WHERE queued) = $1 FROM outbox`
					return db.QueryRow(s.Context(), query, want).Scan(&is) == nil && is
				})
			}
			s.WantAdmitted(2, 2, apptest.Ana)
			s.AwaitMail(apptest.Ana, 2)
			outbox("0 0")
			s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "450 4.7.1 greylisted"})
			s.WantAdmitted(1, 1, apptest.Ana)
			outbox("1 1")
			run(backup)
			s.MailRules()
			s.AwaitMail(apptest.Ana, 3)
			s.WantAdmitted(1, 1, apptest.Ana)
			s.AwaitMail(apptest.Ana, 4)
			s.Stop(0)
			if c.flush {
				s.Flush()
			}
			run(restore)
			s.Replicas = nil
			if c.hold { // only the waiting send leaves
				cfg := s.Config()
				cfg.HoldUntil = time.Now().Add(time.Hour).Truncate(time.Second)
				held, err := s.New(cfg)
				apptest.Must(t, err)
				s.Serve(held)
				no := s.Ask(0, apptest.Ana)
				s.Is("a held send", no, http.StatusServiceUnavailable, strings.Contains(string(no.Raw), `"may_have_counted":false`))
				until := cfg.HoldUntil.UTC().Format(time.RFC3339)
				s.AwaitReady(0, http.StatusOK, "degraded: held: No code is sent before "+until+".")
				s.AwaitMail(apptest.Ana, 5)
				s.Stop(0)
				s.Replicas = nil
			}
			s.Start(1)
			s.WantAdmitted(c.more, c.more+2, apptest.Ana)
			if got := len(s.AwaitMail(apptest.Ana, 5+c.more)); got != 5+c.more { // the waiting send's mail came twice
				t.Errorf("%d mails, want %d", got, 5+c.more)
			}
		})
	}
}
