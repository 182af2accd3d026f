package app_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"sendcode/internal/run/app/apptest"
)

// expectLimit requests a code, and checks the limit of the first rule in the answer.
func expectLimit(s *apptest.Stack, to string, limit int) {
	s.Helper()
	a := s.Ask(0, to)
	s.Is("a send", a, http.StatusAccepted, a.Quota.Rules[0].Limit == limit)
}

// A file with mistakes changes no setting, not even the valid ones. Every mistake is logged.
func TestReloadOfAFaultyFileChangesNothing(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(apptest.FiveAnHour).Watching().Start(1)
	const successful = "sendcode_config_last_reload_successful"
	hash := func() string {
		return regexp.MustCompile(`sendcode_settings_info\{hash="([0-9a-f]{12})"\} 1`).FindString(string(s.Get("/metrics").Raw))
	}
	s.Counts(successful, "1")
	first := hash()
	s.Write("policies:\n  default:\n" + apptest.TwoAnHour +
		"  bad:\n    - {name: x, scope: recipient, limit: 0, window: 1h}\npurposes:\n  login: {ttl: 1h}\n")
	s.Hangup(0, "rejected")
	for _, want := range []string{"policies.bad[0].limit", "purposes.login.ttl", "0 is not between"} {
		if !s.Logged(want) {
			t.Errorf("nothing about %s", want)
		}
	}
	expectLimit(s, apptest.Ana, 5)
	s.Counts(successful, "0")
	if again := hash(); again != first || first == "" {
		t.Errorf("the hash of the settings in force is %q after a rejected file, and was %q", again, first)
	}
	s.Write("apps:\n  - {name: default, title: Shop24.com}\n") // a mail program would turn this title into a link
	s.Hangup(0, "rejected")
	s.Write("apps:\n  - {name: default, sms_origin: shop.example, title: " + strings.Repeat("Sehr langer Name ", 3) + "}\n")
	s.Hangup(0, "rejected")
	// If the watch reads the file first, the rejection is that of the previous file.
	s.Await("words about a text message that is too long", func() bool { return s.Logged("sms/default/zh-Hans/text.txt takes 2 segments") })
	apptest.Must(t, os.Remove(s.Env["SENDCODE_CONFIG"]))
	s.Hangup(0, "rejected")
	apptest.Must(t, syscall.Mkfifo(s.Env["SENDCODE_CONFIG"], 0o600)) // reading a pipe would block for ever
	s.Hangup(0, "rejected")
	apptest.Must(t, os.Remove(s.Env["SENDCODE_CONFIG"]))
	expectLimit(s, "bea@example.com", 5)
	s.Policy(apptest.TwoAnHour)
	s.Await("the mended file", func() bool { return s.Reloads(0, "applied") == "1" })
	s.Counts(successful, "1")
	if mended := hash(); mended == first || mended == "" {
		t.Errorf("the hash of the settings in force is %q, and was %q before the rule was changed", mended, first)
	}
	s.Hangup(0, "unchanged")
}

// Keys, titles, templates, purposes and pauses change while the service runs: in answers, in mails
// and on the page. The generated key of the app default ends when an app has a key of its own.
func TestReloadChangesAppsAndPurposes(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(apptest.FiveAnHour).Watching()
	delete(s.Env, "SENDCODE_API_KEY")
	s.Start(1)
	cfg := s.Config()
	_, err := cfg.LoadOrCreateSecrets(cfg.DataDir) // reads the key that the replica has generated
	apptest.Must(t, err)
	s.Key = cfg.APIKey.Reveal()
	const shop = "sk_of_the_shop_0123456789abcdef"
	const own = "sk_of_the_default_0123456789abcdef"
	ownKey := fmt.Sprintf("keys: [{id: own, kind: secret, sha256: %x}]", sha256.Sum256([]byte(own)))
	ask := func(key, purpose string) apptest.Answer {
		body := fmt.Sprintf(`{"channel":"email","to":%q,"purpose":%q,"locale":"en"}`, apptest.Ana, purpose)
		return s.Post("/v1/verifications", body, apptest.As(key), apptest.Patiently)
	}
	shows := func(digits, title string) {
		t.Helper()
		if page := string(s.Get("/").Raw); !strings.Contains(page, digits) || !strings.Contains(page, title) {
			t.Errorf("the page does not say %s and %s", digits, title)
		}
	}
	shows("6-digit", "sendcode")
	s.Is("the generated key", ask(s.Key, ""), http.StatusAccepted)
	s.Is("the generated key through a proxy", s.Post("/v1/verifications", `{"channel":"email","to":"bea@example.com"}`,
		func(r *http.Request) { r.Header.Set("X-Forwarded-For", "203.0.113.9") }), http.StatusForbidden)
	s.Is("the answer", ask(shop, ""), http.StatusUnauthorized)
	templates := t.TempDir()
	subject := filepath.Join(templates, "mail", "gift", "en", "subject.txt")
	apptest.Must(t, os.MkdirAll(filepath.Dir(subject), 0o700))
	apptest.Must(t, os.WriteFile(subject, []byte("A gift of {{.App}}"), 0o600))
	s.Policy(apptest.FiveAnHour).Add(
		fmt.Sprintf(`purposes: {default: {code: {length: 8}}, gift: {code: {length: 7}, notify: glance, ttl: 60s}}
apps: [{name: default, title: Corner Store, %s}, {name: shop, title: The Shop, templates: %q, keys: [{id: k1, kind: secret, sha256: %x}]}]
`, ownKey, templates, sha256.Sum256([]byte(shop))))
	s.Hangup(0, "applied")
	shows("8-digit", "Corner Store")
	apptest.Must(t, os.WriteFile(subject, []byte("{{.Colour}}"), 0o600)) // the template can't be rendered, so nothing changes
	s.Add("retention: 800h\n")
	s.Hangup(0, "rejected")
	if !s.Logged("mail/gift/en/subject.txt") {
		t.Error("the log does not name the template")
	}
	s.Is("a send", ask(shop, "gift"), http.StatusAccepted)
	mail := s.AwaitMail(apptest.Ana, 2)[0] // the newest mail
	if m := s.Replicas[0].Mailbox().Messages()[0]; m.Subject != "A gift of The Shop" || len(s.CodeIn(mail)) != 7 {
		t.Errorf("the mail is not by the new configuration: %q", m.Subject)
	}
	for _, c := range [][2]string{{"A present of", "applied"}, {"A parcel of", "unchanged"}} { // a mended template is used, also alone
		apptest.Must(t, os.WriteFile(subject, []byte(c[0]+" {{.App}}"), 0o600))
		s.Hangup(0, c[1])
	}
	s.Is("a send", s.Post("/v1/verifications", `{"channel":"email","to":"bea@example.com","purpose":"gift","locale":"en"}`,
		apptest.As(shop), apptest.Patiently), http.StatusAccepted)
	if m := s.Replicas[0].Mailbox().Messages()[0]; m.Subject != "A parcel of The Shop" {
		t.Errorf("the mail is not by the mended template: %q", m.Subject)
	}
	s.Is("the generated key beside others", ask(s.Key, ""), http.StatusUnauthorized)
	s.Key = own
	s.Policy(apptest.FiveAnHour).Add("apps: [{name: default, " + ownKey + "}]\n" +
		"redis_url: redis://127.0.0.1:1\nstop: [{channel: email, reason: the server moves}]\n")
	s.Hangup(0, "applied")
	if !s.Logged(`"changed setting needs a restart","setting":"SENDCODE_REDIS_URL"`) {
		t.Error("what needs a restart is not named")
	}
	s.Is("a key that was taken out", ask(shop, ""), http.StatusUnauthorized)
	gift, paused := ask(s.Key, "gift"), ask(s.Key, "")
	s.Is("a purpose that was taken out", gift, http.StatusUnprocessableEntity, gift.Field == "purpose")
	s.Is("paused", paused, http.StatusBadGateway, paused.Send.Reason == "paused", paused.Quota.Allowed)
	s.Policy(apptest.FiveAnHour).Add("apps: [{name: default, " + ownKey + "}]\n")
	s.Hangup(0, "applied")
	sent := ask(s.Key, "")
	s.Is("not paused any more", sent, http.StatusAccepted, sent.Send.Status == "sent", len(s.Mails()) == 4)
	for _, next := range []string{apptest.TwoAnHour, apptest.FiveAnHour} { // the new policy counts the rows at once
		s.Policy(next).Add("apps: [{name: default, " + ownKey + "}]\n")
		s.Hangup(0, "applied")
		s.Is(next, ask(s.Key, ""), map[string]int{
			apptest.TwoAnHour:  http.StatusTooManyRequests,
			apptest.FiveAnHour: http.StatusAccepted,
		}[next])
	}
}

// A webhook's URL and secret change while the service runs.
func TestReloadMovesAWebhook(t *testing.T) {
	t.Parallel()
	hook, moved := apptest.NewReceiver(t), apptest.NewReceiver(t)
	moved.Secret = apptest.HookSecrets[1]
	s := apptest.Embedded(t).WithWebhook(hook, "").Watching()
	delete(s.Env, "SENDCODE_WEBHOOK_SECRETS")
	secrets := filepath.Join(t.TempDir(), "secrets")
	s.Env["SENDCODE_WEBHOOK_SECRETS_FILE"] = secrets
	apptest.Must(t, os.WriteFile(secrets, []byte("default:"+apptest.HookSecrets[0]+"\n"), 0o600))
	s.Start(1)
	s.Ask(0, apptest.Ana)
	s.AwaitEvents(hook, 1)
	apptest.Must(t, os.WriteFile(secrets, []byte("default:"+apptest.HookSecrets[1]), 0o600))
	s.WriteWebhook(moved.URL, "")
	s.Hangup(0, "applied")
	s.Ask(0, "cleo@example.com")
	s.AwaitEvents(moved, 1)
}
