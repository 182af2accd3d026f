// Package operators tests what operators do with the whole service, with the commands in the
// documents: move to Postgres, restart, restore a backup, rotate keys, encrypt the rows again, and
// deploy with nothing but variables.
package operators

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 5, 4)) }

// A service on a SQLite file continues in Postgres. The same recipients and networks are refused
// with the same wait, the limits of /v1/limits have as many places left, a send in flight arrives,
// and a code from before the move is approved. Accounts, suppressions and the audit log are there.
// The service no longer starts on the file.
func TestMove(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	database, file := s.Env["SENDCODE_DATABASE_URL"], map[string]string{}
	for _, name := range []string{"SENDCODE_DATABASE_URL", "SENDCODE_REDIS_URL"} {
		file[name] = s.Env[name]
		delete(s.Env, name)
	}
	s.Write(`policies:
  default:
    - {name: pause, scope: recipient, limit: 1, window: 600s}
    - {name: hour, scope: recipient, limit: 5, window: 1h}
    - {name: network, scope: network, limit: 1, window: 1h}
limits: {month: [{name: month, key: user, limit: 5, window: 720h}]}
`).Start(1)
	ofNetwork := func(to string) apptest.Answer {
		return s.Post("/v1/verifications", `{"channel":"email","to":"`+to+`","client_ip":"203.0.113.7"}`)
	}
	s.Is("a send of a network", ofNetwork("one@example.com"), http.StatusAccepted)
	blocked := ofNetwork("two@example.com")
	s.Is("a network's refusal", blocked, http.StatusTooManyRequests, blocked.Quota.BlockedBy == "network")
	user := `{"keys":{"user":"u"}}`
	taken := s.Post("/v1/limits/month/take", user)
	s.Is("a limit of its own", taken, http.StatusOK, taken.Quota.Rules[0].Remaining == 4)
	const stopped, late = "ben@example.com", "late@example.com"
	first := s.Ask(0, apptest.Ana)
	s.Is("a send", first, http.StatusAccepted)
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	before := s.Ask(0, apptest.Ana)
	s.Is("a refusal", before, http.StatusTooManyRequests, before.RetryAfter > 0)
	person := `{"channel":"email","to":"` + stopped + `","reason":"asked to be left alone"}`
	s.Is("suppress", s.ByAdmin(0, "/v1/admin/suppressions", person), http.StatusCreated)
	s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "450 4.7.1 greylisted"})
	waits := s.Ask(0, late)
	s.Is("a send that waits", waits, http.StatusAccepted)
	s.AwaitState(waits.ID, "queued")

	cfg := s.Config()
	var printed strings.Builder
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	moved := func(to string) error { return commands.MoveToPostgres(t.Context(), cfg, to, &printed) }
	refused("beside the service", moved(database), "stop the service")
	s.Stop(0)
	s.Replicas = nil
	apptest.Must(t, commands.ChangeAccount(t.Context(), cfg,
		commands.AdminCommand{Do: "add", Name: "mei", Role: "owner", Reason: "on call"}, &printed))
	refused("no URL", moved("db"), "--to must be")
	index := s.Env["SENDCODE_INDEX_KEY"]
	s.Env["SENDCODE_INDEX_KEY"] = config.NewIndexKey()
	refused("other keys", commands.MoveToPostgres(t.Context(), s.Config(), database, &printed), "set SENDCODE_INDEX_KEY to")
	s.Env["SENDCODE_INDEX_KEY"] = index
	apptest.Must(t, moved(database))
	_, err := s.New(cfg)
	refused("a start on the file", err, "set SENDCODE_DATABASE_URL")
	refused("a second time", moved(database), "an earlier move has marked the file")

	s.MailRules()
	s.Env["SENDCODE_DATABASE_URL"] = database
	s.Start(1)
	still := ofNetwork("two@example.com")
	s.Is("a network's refusal after the copy", still, http.StatusTooManyRequests, still.Quota.BlockedBy == "network",
		still.Quota.RetryAt.Sub(blocked.Quota.RetryAt).Abs().Seconds() <= 1)
	left := s.Post("/v1/limits/month/peek", user)
	s.Is("the limit of its own after the copy", left, http.StatusOK, left.Quota.Rules[0].Remaining == 4)
	s.Stop(0)
	s.Replicas = nil
	for name, value := range file {
		s.Env[name] = value
	}
	s.Start(1)
	again := s.Ask(0, apptest.Ana)
	s.Is("after the copy", again, http.StatusTooManyRequests)
	if got, want := again.Quota, before.Quota; got.RetryAt.Sub(want.RetryAt).Abs().Seconds() > 1 || got.BlockedBy != want.BlockedBy ||
		len(got.Rules) != len(want.Rules) || got.Rules[1].Remaining != want.Rules[1].Remaining {
		t.Errorf("%+v, before the copy %+v", got, want)
	}
	s.Approves(0, first.ID, code)
	s.Approves(0, waits.ID, s.CodeIn(s.AwaitMail(late, 1)[0]))
	s.Is("a suppressed one", s.Ask(0, stopped, apptest.Patiently), http.StatusBadGateway)
	acts := string(s.Get("/v1/admin/acts", apptest.AsAdmin).Raw)
	printed.Reset()
	apptest.Must(t, commands.ChangeAccount(t.Context(), s.Config(), commands.AdminCommand{Do: "list"}, &printed))
	if !strings.Contains(acts, "on call") || !strings.Contains(acts, "asked to be left alone") ||
		!strings.Contains(printed.String(), "mei\towner\topen") {
		t.Errorf("acts: %s\naccounts: %s", acts, printed.String())
	}
}
