package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/base/document"

	"pgregory.net/rapid"

	"sendcode/internal/kit/golden"
)

// full.yaml has every setting in its printed form. If no URL has a password, the printed file has
// the same meaning as the loaded one.
func TestPrintedConfigurationLoads(t *testing.T) {
	full := must(t, read(t, "testdata/full.yaml"))
	golden.File(t, "testdata/full.yaml", full.YAML())
	for _, first := range []Config{full, must(t, "")} {
		second := readBack(t, first)
		second.builtIn = first.builtIn // the printed file contains the policy, so it is no longer built in
		second.fileText, second.fileSettings = first.fileText, first.fileSettings
		wantEqual(t, "read again", second, first)
		wantEqual(t, "for a restart", first.RestartChanges(second), nil)
	}
	if c := must(t, "", "SENDCODE_API_KEY="+goodKey); !strings.Contains(c.YAML(), "keys: [], webhook") {
		t.Errorf("the key of a variable is printed as one of the file: %s", c.YAML())
	}
}

// The hash changes with the settings and with the index key. It does not change with other secrets,
// nor with addr, admin_addr and data_dir, which each replica has for itself.
func TestHashOfSettings(t *testing.T) {
	const file = "policies: {b: [{name: x, scope: ip, limit: 1, window: 1h}], a: [{name: x, scope: ip, limit: 2, window: 1h}]}\n"
	index, other := "SENDCODE_INDEX_KEY="+NewIndexKey(), "SENDCODE_INDEX_KEY="+NewIndexKey()
	want := must(t, file, index).Hash()
	if len(want) != 12 {
		t.Errorf("the hash is %q", want)
	}
	for what, x := range map[string]struct {
		config Config
		same   bool
	}{
		"read again":    {must(t, file, index), true},
		"an address":    {must(t, file+"addr: 127.0.0.1:9\nadmin_addr: 127.0.0.1:8\n", index), true},
		"a directory":   {must(t, file+"data_dir: /x\n", index), true},
		"a secret":      {must(t, file, index, "SENDCODE_METRICS_TOKEN=a-token-of-twenty-odd-characters"), true},
		"a rule":        {must(t, strings.Replace(file, "limit: 2", "limit: 3", 1), index), false},
		"retention":     {must(t, file+"retention: 900h\n", index), false},
		"Redis":         {must(t, file, index, "SENDCODE_REDIS_URL=redis://h"), false},
		"the index key": {must(t, file, other), false},
	} {
		if got := x.config.Hash(); (got == want) != x.same {
			t.Errorf("%s: %s, and it was %s", what, got, want)
		}
	}
	pace := func(mails string) string {
		return must(t, file, index, "SENDCODE_SMTP_URL=smtp://127.0.0.1?per_minute="+mails).Hash()
	}
	if pace("30") == pace("31") {
		t.Error("two paces of a mail server have one hash")
	}
}

// prints formats a value in every way of the standard library. Only a Secret is also printed with
// %p, which calls no method.
func prints(v any, more ...string) string {
	var b strings.Builder
	for _, verb := range append(more, "%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T") {
		fmt.Fprintf(&b, verb, v)
		fmt.Fprintf(&b, verb, []any{v, &v})
	}
	if text, err := json.Marshal(map[string]any{"v": v}); err == nil {
		b.Write(text)
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("config", "v", v, "group", []any{v})
	}
	return b.String()
}

// containsSecret reports whether text contains the secret, in the clear or as %x and %d print it.
func containsSecret(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", secret)) ||
		strings.Contains(text, strings.Trim(fmt.Sprint([]byte(secret)), "[]"))
}

func TestSecretNeverPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[A-Za-z0-9+/=:$,]{6,60}`).Draw(t, "value")
		s := document.NewSecret(value)
		if s.Reveal() != value || !s.IsSet() {
			t.Fatal("the value is lost")
		}
		type private struct{ s Secret }
		for _, v := range []any{s, &s, private{s}, &private{s}, []Secret{s}, map[string]Secret{"a": s}} {
			if containsSecret(prints(v, "%p"), value) {
				t.Fatalf("%T shows the value", v)
			}
		}
	})
	if s := document.NewSecret(""); s.IsSet() || s != (Secret{}) || fmt.Sprint(s) != "" {
		t.Error("an empty secret passes for one that is set")
	}
}

func TestConfigurationNeverPrintsSecrets(t *testing.T) {
	secret := rapid.StringMatching(`[A-Za-z0-9_-]{24,40}`)
	password := rapid.StringMatching(`[A-Za-z0-9!$&'()*+;=._~-]{6,20}(%2[0-9CF]){0,2}[A-Za-z0-9]{2,4}`).
		// `sendcode config` prints *** instead of a password
		Filter(func(p string) bool { return !strings.Contains(p, "***") })
	user, verbs := rapid.StringMatching(`[a-z]{0,8}`), ""
	rapid.Check(t, func(t *rapid.T) {
		ring, index, hook := NewRingKey(), NewIndexKey(), NewWebhookSecret()
		// Random values: a secret of one repeated character would be refused.
		key, token, admin := "sk_"+secret.Draw(t, "key"), secret.Draw(t, "token"), "P4"+secret.Draw(t, "admin")
		database, redis, smtp, smtp2 := password.Draw(t, "db"), password.Draw(t, "redis"), password.Draw(t, "smtp"),
			password.Draw(t, "smtp2")
		u := user.Draw(t, "user")
		c, err := Load([]string{
			"SENDCODE_WEBHOOK_SECRETS=default:" + hook, "SENDCODE_SECRET_KEYS=" + ring, "SENDCODE_INDEX_KEY=" + index,
			"SENDCODE_API_KEY=" + key, "SENDCODE_ADMIN_TOKEN=" + token,
			"SENDCODE_ADMIN_PASSWORD=" + admin,
			"SENDCODE_DATABASE_URL=postgres://" + u + ":" + database + "@h1,h2:5432/d?sslmode=disable&password=" + url.QueryEscape(redis),
			"SENDCODE_REDIS_URL=redis+sentinel://" + u + ":" + redis + "@h1:26379,h2/master/0?sentinel_password=" +
				url.QueryEscape(database),
			"SENDCODE_SMTP_URL=smtp://" + smtp + ":" + smtp + "@h," + "smtps://u" + u + ":" + smtp2 + "@h",
		}, files{}.read)
		if err != nil {
			t.Fatal(err)
		}
		_, onlyRing, _ := strings.Cut(ring, ":")
		shown := c.YAML() + strings.Join(c.Warnings, "")
		if verbs == "" { // once is enough: each way of printing ends in YAML
			verbs = prints(c) + prints(&c)
			shown += verbs
		}
		for name, s := range map[string]string{
			"ring": onlyRing, "hook": hook[6:], "index": index, "key": key,
			"token": token, "password": admin,
			"database": database, "redis": redis, "smtp": smtp, "smtp2": smtp2,
		} {
			if containsSecret(shown, s) {
				t.Fatalf("%s is shown", name)
			}
		}
		if !strings.Contains(c.YAML(), "SECRET_KEYS: set, 1 key\n") || !strings.Contains(c.YAML(), "@h1,h2:5432/d?sslmode=disable") ||
			!strings.Contains(c.YAML(), "@h,smtps://") {
			t.Fatalf("too much is hidden:\n%s", c.YAML())
		}
	})
}

// No part of a URL that can't be parsed appears in the mistake, because any part of it may belong
// to the password.
func TestMistakesNeverShowPasswords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.StringMatching(`hidden[0-9]{4}|[/?#@%:,\[\]&= *]`), 2, 7).Draw(t, "password")
		password := strings.Join(pieces, "")
		for _, v := range []string{
			"SENDCODE_DATABASE_URL=postgres://u:" + password + "@h:5432/d",
			"SENDCODE_REDIS_URL=redis://u:" + password + "@h:6379/0",
			"SENDCODE_REDIS_URL=redis+sentinel://u:" + password + "@h/m/0",
			"SENDCODE_SMTP_URL=smtp://u:" + password + "@h",
			"SENDCODE_SMTP_URL=smtps://u:" + password + "@h,smtp://x:" + password + "@h:25",
			"SENDCODE_API_KEY=" + password,
			"SENDCODE_SECRET_KEYS=a:" + password, "SENDCODE_INDEX_KEY=" + password, "SENDCODE_ADMIN_TOKEN=" + password,
			"SENDCODE_ADMIN_PASSWORD_HASH=" + password,
		} {
			c, err := Load([]string{v}, files{}.read)
			shown := fmt.Sprint(err)
			if err == nil {
				shown = strings.Join(c.Warnings, "") + c.YAML()
			}
			if strings.Contains(shown, "hidden") {
				t.Fatalf("%s: %s", v, shown)
			}
		}
	})
}
