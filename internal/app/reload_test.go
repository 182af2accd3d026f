package app

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
)

// watching has the replicas read their file again.
func (s *stack) watching() *stack { s.watches = true; return s }

// rules writes a file that holds these and nothing else.
func (s *stack) rules(yaml string) { s.Helper(); s.write("policies:\n  default:\n" + yaml) }

func (s *stack) write(content string) {
	s.Helper()
	if err := os.WriteFile(s.env["SENDCODE_CONFIG"], []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// reloads counts how often replica i has read its configuration again with an outcome.
func (s *stack) reloads(i int, outcome string) string {
	s.Helper()
	a := s.do(i, http.MethodGet, "/metrics", "")
	found := regexp.MustCompile(`(?m)^sendcode_config_reloads_total\{outcome="` + outcome + `"\} (\d+)$`).FindSubmatch(a.raw)
	if found == nil {
		s.Fatalf("no metric for %s", outcome)
	}
	return string(found[1])
}

// hangup has replica i read its configuration, and waits for the outcome.
func (s *stack) hangup(i int, outcome string) {
	s.Helper()
	before := s.reloads(i, outcome)
	s.replicas[i].hup <- syscall.SIGHUP
	s.await("the configuration to be "+outcome, func() bool { return s.reloads(i, outcome) != before })
}

const (
	fiveAnHour = "    - {name: hourly, scope: recipient, limit: 5, window: 1h}\n"
	twoAnHour  = "    - {name: hourly, scope: recipient, limit: 2, window: 1h}\n"
)

// A lowered limit counts what was sent, in whichever gate; a raised one frees at once. The file alone says so.
func TestTheFileChanges(t *testing.T) {
	for name, c := range map[string]struct {
		open     func(*testing.T) *stack
		replicas int
	}{"embedded": {embedded, 1}, "on real parts": {onRealParts, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.open(t).policy(fiveAnHour).watching().start(c.replicas)
			for i := range 3 {
				if a := s.ask(i%len(s.replicas), ana); a.status != http.StatusAccepted {
					t.Fatalf("%d %s", a.status, a.raw)
				}
			}
			s.rules(twoAnHour)
			for i := range s.replicas {
				s.await("the file to be seen", func() bool { return s.reloads(i, "applied") == "1" })
				a := s.ask(i, ana)
				if a.status != http.StatusTooManyRequests || a.BlockedBy != "hourly" || a.RetryAfter < 3500 || a.Quota.Rules[0].Limit != 2 {
					t.Errorf("%d %s", a.status, a.raw)
				}
			}
			s.rules(fiveAnHour)
			for i := range s.replicas {
				s.await("the file to be seen", func() bool { return s.reloads(i, "applied") == "2" })
				if a := s.ask(i, ana); a.status != http.StatusAccepted {
					t.Errorf("%d %s", a.status, a.raw)
				}
			}
			if n := s.reloads(0, "rejected"); n != "0" {
				t.Errorf("%s rejected", n)
			}
		})
	}
}

// Files that are replaced are seen as well: by another of the same name, or behind links that turn, as Kubernetes does it.
func TestTheFileIsReplaced(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour).watching()
	dir := t.TempDir()
	version := func(name, rules string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name, "sendcode.yaml"), []byte("policies:\n  default:\n"+rules), 0o600))
	}
	turn := func(name string) {
		t.Helper()
		must(t, os.Symlink(name, filepath.Join(dir, "..next")))
		must(t, os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
	}
	version("one", fiveAnHour)
	version("two", twoAnHour)
	turn("one")
	s.env["SENDCODE_CONFIG"] = filepath.Join(dir, "sendcode.yaml")
	must(t, os.Symlink(filepath.Join("..data", "sendcode.yaml"), s.env["SENDCODE_CONFIG"]))
	s.start(1)
	turn("two")
	s.await("the turned link to be seen", func() bool { return s.reloads(0, "applied") == "1" })
	must(t, os.WriteFile(filepath.Join(dir, "new"), []byte("policies:\n  default:\n"+fiveAnHour), 0o600))
	must(t, os.Rename(filepath.Join(dir, "new"), s.env["SENDCODE_CONFIG"]))
	s.await("the new file to be seen", func() bool { return s.reloads(0, "applied") == "2" })
	if a := s.ask(0, ana); a.status != http.StatusAccepted || a.Quota.Rules[0].Limit != 5 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file with mistakes changes nothing, not even what is right in it, and every mistake is logged.
func TestAFaultyFileChangesNothing(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour).watching().start(1)
	s.write("policies:\n  default:\n" + twoAnHour + "  bad:\n    - {name: x, scope: recipient, limit: 0, window: 1h}\npurposes:\n  login: {ttl: 1h}\n")
	s.hangup(0, "rejected")
	for _, want := range []string{"policies.bad[0].limit", "purposes.login.ttl", "0 is not within"} {
		if !strings.Contains(s.printed.String(), want) {
			t.Errorf("nothing about %s", want)
		}
	}
	if a := s.ask(0, ana); a.status != http.StatusAccepted || a.Quota.Rules[0].Limit != 5 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	s.write("apps:\n  - {name: default, title: Shop24.com}\n") // a mail would not carry it
	s.hangup(0, "rejected")
	must(t, os.Remove(s.env["SENDCODE_CONFIG"]))
	s.hangup(0, "rejected")
	must(t, syscall.Mkfifo(s.env["SENDCODE_CONFIG"], 0o600)) // reading it would wait for ever
	s.hangup(0, "rejected")
	must(t, os.Remove(s.env["SENDCODE_CONFIG"]))
	if a := s.ask(0, "bea@example.com"); a.status != http.StatusAccepted || a.Quota.Rules[0].Limit != 5 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	s.rules(twoAnHour)
	s.await("the mended file", func() bool { return s.reloads(0, "applied") == "1" })
	s.hangup(0, "unchanged")
}

// What needs a restart is named and left as it is; what does not, changes beside it.
func TestWhatNeedsARestartIsNamed(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour)
	secret := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(secret, []byte(token), 0o600))
	delete(s.env, "SENDCODE_ADMIN_TOKEN")
	s.env["SENDCODE_ADMIN_TOKEN_FILE"] = secret
	s.watching().start(1)
	must(t, os.WriteFile(secret, []byte("another-admin-token-of-forty-characters"), 0o600))
	s.write("data_dir: /nowhere\naddr: 127.0.0.1:1\nredis_url: redis://127.0.0.1:1\ntrusted_proxies: [192.0.2.0/24]\npage: {app: \"\"}\ntemplates: /nowhere\n" +
		"log_level: warn\npolicies:\n  default:\n" + twoAnHour)
	s.hangup(0, "applied")
	var named []string
	for _, m := range regexp.MustCompile(`"a changed setting needs a restart","setting":"(\w+)"`).FindAllStringSubmatch(s.printed.String(), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	want := []string{"SENDCODE_ADMIN_TOKEN", "SENDCODE_LOG_LEVEL", "SENDCODE_REDIS_URL", "page", "templates", "trusted_proxies"}
	if !slices.Equal(slices.Compact(named), want) {
		t.Errorf("named %v", named)
	}
	if strings.Contains(s.printed.String(), "another-admin-token") {
		t.Error("a secret was logged")
	}
	if a := s.ask(0, ana); a.status != http.StatusAccepted || a.Quota.Rules[0].Limit != 2 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := s.do(0, http.MethodGet, "/v1/admin/sends", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); a.status != http.StatusOK {
		t.Errorf("the token: %d", a.status)
	}
}

// Keys, titles and purposes come and go; the generated key of the app default stays.
func TestAppsAndPurposesChange(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour).watching()
	delete(s.env, "SENDCODE_API_KEY")
	s.start(1)
	cfg := s.config()
	_, err := cfg.FillSecrets(cfg.DataDir) // reads the key that the replica has generated
	must(t, err)
	s.key = cfg.APIKey.Reveal()
	const shop = "sk_of_the_shop_0123456789abcdef"
	ask := func(key, purpose string) answer {
		return s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"purpose":%q,"locale":"en"}`, ana, purpose),
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) })
	}
	if a := ask(shop, ""); a.status != http.StatusUnauthorized {
		t.Fatalf("%d", a.status)
	}
	with := fmt.Sprintf("policies:\n  default:\n%spurposes:\n  gift: {code: {length: 8}, notify: glance, ttl: 60s}\napps:\n"+
		"  - {name: shop, title: The Shop, keys: [{id: k1, kind: secret, sha256: %x}]}\n", twoAnHour, sha256.Sum256([]byte(shop)))
	s.write(with)
	s.hangup(0, "applied")
	a := ask(shop, "gift")
	if a.status != http.StatusAccepted || !regexp.MustCompile(`expires_at`).Match(a.raw) {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	mail := s.awaitMail(ana, 1)[0].text
	if !strings.Contains(mail, "The Shop") || !regexp.MustCompile(`(?m)^\s*\d{8}\s*$`).MatchString(strings.ReplaceAll(mail, "\r", "")) {
		t.Errorf("the mail is not by the new configuration: %d bytes", len(mail))
	}
	if a := ask(s.key, ""); a.status != http.StatusAccepted {
		t.Errorf("the generated key: %d %s", a.status, a.raw)
	}
	s.rules(twoAnHour)
	s.hangup(0, "applied")
	if a := ask(shop, ""); a.status != http.StatusUnauthorized {
		t.Errorf("a key that was taken out: %d", a.status)
	}
	if a := ask(s.key, "gift"); a.status != http.StatusUnprocessableEntity || a.Field != "purpose" {
		t.Errorf("a purpose that was taken out: %d %s", a.status, a.raw)
	}
}

// A browser's key and its origins come while the service runs, and the metric knows which keys there are and were used.
func TestOriginsChange(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour).watching().start(1)
	const public, origin = "pk_of_the_shop_0123456789abcdef", "https://shop.example"
	from := func(r *http.Request) {
		r.Header.Set("Origin", origin)
		r.Header.Set("Authorization", "Bearer "+public)
	}
	body := fmt.Sprintf(`{"channel":"email","to":%q}`, ana)
	if a := s.do(0, http.MethodPost, "/v1/verifications", body, from); a.status != http.StatusUnauthorized || a.header.Get("Access-Control-Allow-Origin")+a.header.Get("Vary") != "" {
		t.Errorf("before: %d %v", a.status, a.header)
	}
	if a := s.ask(0, "bea@example.com"); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.raw)
	}
	s.write(fmt.Sprintf("policies:\n  default:\n%sapps:\n  - {name: shop, origins: [%q], keys: [{id: k1, kind: public, sha256: %x}]}\n",
		fiveAnHour, origin, sha256.Sum256([]byte(public))))
	s.hangup(0, "applied")
	if a := s.do(0, http.MethodPost, "/v1/verifications", body, from); a.status != http.StatusAccepted || a.header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("after: %d %s %v", a.status, a.raw, a.header)
	}
	metrics := string(s.do(0, http.MethodGet, "/metrics", "").raw)
	for _, key := range []string{`app="default",key="api_key"`, `app="shop",key="k1"`} {
		if !regexp.MustCompile(`sendcode_api_key_last_used_timestamp_seconds\{` + key + `\} [1-9]`).MatchString(metrics) {
			t.Errorf("%s was not used", key)
		}
	}
	s.rules(fiveAnHour)
	s.hangup(0, "applied")
	if a := s.do(0, http.MethodPost, "/v1/verifications", body, from); a.status != http.StatusUnauthorized || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("taken out: %d %v", a.status, a.header)
	}
	if strings.Contains(string(s.do(0, http.MethodGet, "/metrics", "").raw), `app="shop",key="k1"`) {
		t.Error("the metric knows a key that is gone")
	}
}

// The page tells new names and what the next code looks like at once.
func TestThePageChanges(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour).watching().start(1)
	page := func() string { return string(s.do(0, http.MethodGet, "/", "").raw) }
	if !strings.Contains(page(), "6-digit") {
		t.Fatal("the page does not tell the digits")
	}
	s.write("apps:\n  - {name: default, title: Corner Store}\npurposes:\n  default: {code: {length: 8}}\n")
	s.hangup(0, "applied")
	if p := page(); !strings.Contains(p, "Corner Store") || strings.Contains(p, "6-digit") || !strings.Contains(p, "8-digit") {
		t.Error("the page is not by the new configuration")
	}
}
