//go:build nightly

package operators

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// runbook returns the commands of operations.md that make a backup and restore it.
func runbook(t *testing.T) (backup, restore string) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	apptest.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n### Backup and restore\n")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, 2)
	if len(blocks) != 2 {
		t.Fatalf("the runbook has %d commands", len(blocks))
	}
	return blocks[0][1], blocks[1][1]
}

// Of five sends an hour, two left before the dump, one waited, and one is lost by the restore.
func TestRestore(t *testing.T) {
	t.Parallel()
	backup, restore := runbook(t)
	for name, c := range map[string]struct {
		flush bool
		more  int // sends that are admitted afterwards
		hold  bool
	}{
		"Redis kept": {more: 1}, "Redis empty": {flush: true, more: 2}, "held": {flush: true, more: 1, hold: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t).Policy("    - {name: hour, scope: recipient, limit: 5, window: 1h}\n").Start(1)
			owner, _, _ := strings.Cut(s.Env["SENDCODE_DATABASE_URL"], "&") // without the parameters of the tests
			dir := t.TempDir()
			run := func(script string) { t.Helper(); s.Postgres.Script(t, dir, script, "OWNER_URL="+owner) }
			db, err := pgx.Connect(s.Context(), owner)
			apptest.Must(t, err)
			defer db.Close(s.Context())
			outbox := func(want string) { // rows under way, and which wait for their next attempt
				t.Helper()
				s.Await("the outbox "+want, func() (is bool) {
					err := db.QueryRow(s.Context(),
						`SELECT count(*) || ' ' || count(*) FILTER (WHERE queued) = $1 FROM outbox`, want).Scan(&is)
					return err == nil && is
				})
			}
			first := s.Ask(0, apptest.Ana)
			s.Admits(1, 1, apptest.Ana)
			code := s.CodeIn(s.AwaitMail(apptest.Ana, 2)[0])
			outbox("0 0")
			s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "450 4.7.1 greylisted"})
			s.Admits(1, 1, apptest.Ana)
			outbox("1 1")
			run(backup)
			s.MailRules()
			s.AwaitMail(apptest.Ana, 3)
			s.Admits(1, 1, apptest.Ana)
			s.AwaitMail(apptest.Ana, 4)
			s.Stop(0)
			if c.flush {
				s.Flush()
			}
			run(restore)
			s.Replicas = nil
			if c.hold {
				held(s, first.ID, code)
			} else {
				s.Start(1)
			}
			s.Admits(c.more, c.more+2, apptest.Ana)
			if c.hold {
				c.more++ // the first after the hold
			}
			if got := len(s.AwaitMail(apptest.Ana, 5+c.more)); got != 5+c.more { // the one that waited came twice
				t.Errorf("%d mails, want %d", got, 5+c.more)
			}
		})
	}
}

// held starts the service with a hold, and returns when it is over.
func held(s *apptest.Stack, id, code string) {
	s.Helper()
	start := func(hold time.Duration) time.Time {
		s.Helper()
		cfg := s.Config()
		cfg.HoldUntil = time.Now().Add(hold).Truncate(time.Second)
		a, err := s.New(cfg)
		apptest.Must(s.T, err)
		s.Serve(a)
		return cfg.HoldUntil
	}
	until := start(time.Hour)
	no := s.Ask(0, apptest.Ana)
	s.Is("a held send", no, http.StatusServiceUnavailable, strings.Contains(string(no.Raw), `"may_have_counted":false`),
		no.Problem() == "unavailable",
		retryAfter(no) > 0, !until.After(time.Now().Add(retryAfter(no))))
	s.AwaitReady(0, http.StatusOK, "degraded: held: No code is sent before "+until.UTC().Format(time.RFC3339)+".")
	s.Is("a look", s.Post("/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, apptest.Ana)), http.StatusOK)
	s.AwaitMail(apptest.Ana, 5) // the one that waited
	s.Approves(0, id, code)
	if !s.Logged(`"msg":"sends held: `) || s.Logged(`"msg":"request failed"`) {
		s.Errorf("no line of the hold, or errors: %s", s.Printed)
	}
	s.Stop(0)
	s.Replicas = nil
	until = start(5 * time.Second)
	a := s.Ask(0, apptest.Ana)
	if a.StatusCode == http.StatusServiceUnavailable {
		apptest.Sleep(retryAfter(a)) // long enough
		a = s.Ask(0, apptest.Ana)
	}
	s.Is("a send after the hold", a, http.StatusAccepted, !time.Now().Before(until))
	s.AwaitReady(0, http.StatusOK, "ok")
}

func retryAfter(a apptest.Answer) time.Duration {
	seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}
