package operators

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sendcode/internal/app/apptest"
)

// limited asks for a code, under a first rule with this limit.
func limited(s *apptest.Stack, to string, limit int) {
	s.Helper()
	a := s.Ask(0, to)
	s.Is("a send", a, http.StatusAccepted, a.Quota.Rules[0].Limit == limit)
}

// Files that are replaced are seen as well: by another of the same name, or behind links that turn, as Kubernetes does it.
func TestTheFileIsReplaced(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Watching()
	dir := t.TempDir()
	version := func(name, rules string) {
		t.Helper()
		apptest.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		apptest.Must(t, os.WriteFile(filepath.Join(dir, name, "sendcode.yaml"), []byte("policies:\n  default:\n"+rules), 0o600))
	}
	turn := func(name string) {
		t.Helper()
		apptest.Must(t, os.Symlink(name, filepath.Join(dir, "..next")))
		apptest.Must(t, os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
	}
	version("one", apptest.FiveAnHour)
	version("two", apptest.TwoAnHour)
	turn("one")
	s.Env["SENDCODE_CONFIG"] = filepath.Join(dir, "sendcode.yaml")
	apptest.Must(t, os.Symlink(filepath.Join("..data", "sendcode.yaml"), s.Env["SENDCODE_CONFIG"]))
	s.Start(1)
	turn("two")
	s.Await("the turned link to be seen", func() bool { return s.Reloads(0, "applied") == "1" })
	apptest.Must(t, os.WriteFile(filepath.Join(dir, "new"), []byte("policies:\n  default:\n"+apptest.FiveAnHour), 0o600))
	apptest.Must(t, os.Rename(filepath.Join(dir, "new"), s.Env["SENDCODE_CONFIG"]))
	s.Await("the new file to be seen", func() bool { return s.Reloads(0, "applied") == "2" })
	limited(s, apptest.Ana, 5)
}

// A file with mistakes changes nothing, not even what is right in it, and every mistake is logged.
func TestAFaultyFileChangesNothing(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(apptest.FiveAnHour).Watching().Start(1)
	s.Write("policies:\n  default:\n" + apptest.TwoAnHour + "  bad:\n    - {name: x, scope: recipient, limit: 0, window: 1h}\npurposes:\n  login: {ttl: 1h}\n")
	s.Hangup(0, "rejected")
	for _, want := range []string{"policies.bad[0].limit", "purposes.login.ttl", "0 is not within"} {
		if !s.Logged(want) {
			t.Errorf("nothing about %s", want)
		}
	}
	limited(s, apptest.Ana, 5)
	s.Write("apps:\n  - {name: default, title: Shop24.com}\n") // a mail would not carry it
	s.Hangup(0, "rejected")
	s.Write("sms: {origin: shop.example}\napps:\n  - {name: default, title: " + strings.Repeat("Sehr langer Name ", 3) + "}\n")
	s.Hangup(0, "rejected")
	if !s.Logged("sms/default/zh-Hans/text.txt takes 2 segments") {
		t.Error("nothing about a text message that is too long")
	}
	apptest.Must(t, os.Remove(s.Env["SENDCODE_CONFIG"]))
	s.Hangup(0, "rejected")
	apptest.Must(t, syscall.Mkfifo(s.Env["SENDCODE_CONFIG"], 0o600)) // reading it would wait for ever
	s.Hangup(0, "rejected")
	apptest.Must(t, os.Remove(s.Env["SENDCODE_CONFIG"]))
	limited(s, "bea@example.com", 5)
	s.Policy(apptest.TwoAnHour)
	s.Await("the mended file", func() bool { return s.Reloads(0, "applied") == "1" })
	s.Hangup(0, "unchanged")
}

// What needs a restart is named and left as it is; what does not, changes beside it.
func TestWhatNeedsARestartIsNamed(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(apptest.FiveAnHour)
	secret := filepath.Join(t.TempDir(), "token")
	apptest.Must(t, os.WriteFile(secret, []byte(apptest.Token), 0o600))
	delete(s.Env, "SENDCODE_ADMIN_TOKEN")
	s.Env["SENDCODE_ADMIN_TOKEN_FILE"] = secret
	s.Watching().Start(1)
	apptest.Must(t, os.WriteFile(secret, []byte("another-admin-token-of-forty-characters"), 0o600))
	s.Write("data_dir: /nowhere\naddr: 127.0.0.1:1\nredis_url: redis://127.0.0.1:1\ntrusted_proxies: [192.0.2.0/24]\npage: {app: \"\"}\ntemplates: /nowhere\n" +
		"log_level: warn\npolicies:\n  default:\n" + apptest.TwoAnHour)
	s.Hangup(0, "applied")
	var named []string
	for _, m := range regexp.MustCompile(`"a changed setting needs a restart","setting":"(\w+)"`).FindAllStringSubmatch(s.Printed.String(), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	want := []string{"SENDCODE_ADMIN_TOKEN", "SENDCODE_LOG_LEVEL", "SENDCODE_REDIS_URL", "page", "templates", "trusted_proxies"}
	if !slices.Equal(slices.Compact(named), want) {
		t.Errorf("named %v", named)
	}
	if s.Logged("another-admin-token") {
		t.Error("a secret was logged")
	}
	limited(s, apptest.Ana, 2)
	s.Is("the token", s.Get("/v1/admin/sends", apptest.AsAdmin), http.StatusOK)
}

// Keys, titles, templates, purposes and pauses come and go, in answers, in mails and on the page; the generated key of the app default stays.
func TestAppsAndPurposesChange(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(apptest.FiveAnHour).Watching()
	delete(s.Env, "SENDCODE_API_KEY")
	s.Start(1)
	cfg := s.Config()
	_, err := cfg.FillSecrets(cfg.DataDir) // reads the key that the replica has generated
	apptest.Must(t, err)
	s.Key = cfg.APIKey.Reveal()
	const shop = "sk_of_the_shop_0123456789abcdef"
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
	s.Is("the answer", ask(shop, ""), http.StatusUnauthorized)
	templates := t.TempDir()
	subject := filepath.Join(templates, "mail", "gift", "en", "subject.txt")
	apptest.Must(t, os.MkdirAll(filepath.Dir(subject), 0o700))
	apptest.Must(t, os.WriteFile(subject, []byte("A gift of {{.App}}"), 0o600))
	s.Policy(apptest.FiveAnHour).Add(fmt.Sprintf(`purposes: {default: {code: {length: 8}}, gift: {code: {length: 7}, notify: glance, ttl: 60s}}
apps: [{name: default, title: Corner Store}, {name: shop, title: The Shop, templates: %s, keys: [{id: k1, kind: secret, sha256: %x}]}]
`, templates, sha256.Sum256([]byte(shop))))
	s.Hangup(0, "applied")
	shows("8-digit", "Corner Store")
	apptest.Must(t, os.WriteFile(subject, []byte("{{.Colour}}"), 0o600)) // fails, and changes nothing
	s.Add("log_level: info\n")
	s.Hangup(0, "rejected")
	s.Is("a send", ask(shop, "gift"), http.StatusAccepted)
	mail := s.AwaitMail(apptest.Ana, 1)[0]
	if m := s.Replicas[0].Mailbox().Messages()[0]; m.Subject != "A gift of The Shop" || len(s.CodeIn(mail)) != 7 {
		t.Errorf("the mail is not by the new configuration: %q", m.Subject)
	}
	s.Is("the generated key", ask(s.Key, ""), http.StatusAccepted)
	s.Policy(apptest.FiveAnHour).Add("paused: [{channel: email, reason: the server moves}]\n")
	s.Hangup(0, "applied")
	s.Is("a key that was taken out", ask(shop, ""), http.StatusUnauthorized)
	if a := ask(s.Key, "gift"); a.StatusCode != http.StatusUnprocessableEntity || a.Field != "purpose" {
		t.Errorf("a purpose that was taken out: %d %s", a.StatusCode, a.Raw)
	}
	if a := ask(s.Key, ""); a.StatusCode != http.StatusBadGateway || a.Send.Reason != "paused" || !a.Quota.Allowed {
		t.Errorf("paused: %d %s", a.StatusCode, a.Raw)
	}
	s.Policy(apptest.FiveAnHour)
	s.Hangup(0, "applied")
	if a := ask(s.Key, ""); a.StatusCode != http.StatusAccepted || a.Send.Status != "sent" || len(s.Mails()) != 3 {
		t.Errorf("not paused any more: %d %s", a.StatusCode, a.Raw)
	}
}
