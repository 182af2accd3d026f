package config

import (
	"fmt"
	"strings"
	"testing"
)

// otherValues are valid values of variables, none of them the default.
var otherValues = map[string]string{
	keyAddr: "127.0.0.1:81", keyAdminAddr: "127.0.0.1:82", "data_dir": "elsewhere", "database_url": "postgres://u:p@h/d",
	"database_role": "sendcode_app", "redis_url": "redis://:p@h", keySMTPURL: "smtps://u:p@h", "mail_from": "Shop <a@shop.example>", "dkim_selector": "s1", "log_level": "warn",
	keyAPIKey: goodKey, keySecretKeys: "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=", keyIndexKey: "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE=",
	keyAdminPassword: "a password of ours", "admin_token": "a-token-of-twenty-characters-or-more", "metrics_token": "a-token-of-twenty-characters-or-more", "oidc_client_secret": "another", "admin_token_role": "owner",
	keyAdminPasswordHash: "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b4dWRWJTmaaJObG9O5UHxnTzrc",
}

// Every setting that is not read again is named when it differs, and only then. A variable that is added needs a row.
func TestRestartChangesNameEverySetting(t *testing.T) {
	for _, v := range variables {
		if v.key == keyConfig || v.key == keyAPIKey || v.key == keyWebhookSecrets || v.kind() == "list" {
			continue
		}
		c, next := must(t, ""), must(t, "", envName(v.key)+"="+otherValues[v.key])
		want := envName(v.key)
		if v.key == "admin_token_role" {
			want = "admin" // which holds it in the file
		}
		is(t, v.key, c.RestartChanges(next), []string{want})
		is(t, v.key+" with itself", next.RestartChanges(next), nil)
	}
}

// A password that changes inside a URL differs too, though the printed forms are alike.
func TestRestartChangesSeePasswordsOfURLs(t *testing.T) {
	with := func(password string) Config {
		return must(t, "", "SENDCODE_DATABASE_URL=postgres://u:"+password+"@h/d")
	}
	is(t, "changes", with("one").RestartChanges(with("two")), []string{"SENDCODE_DATABASE_URL"})
}

func TestWithReloadable(t *testing.T) {
	c, next := must(t, ""), must(t, read(t, "testdata/full.yaml"))
	got := c.WithReloadable(next)
	is(t, "what changes", strings.Join(c.ReloadableChanges(got), " "), "policies limits purposes apps checks breaker spellings block paused "+
		"suppressions retention requests_per_minute webhooks disposable_domains")
	is(t, "what is left to change", got.ReloadableChanges(next), nil)
	is(t, "what changes at once alone", c.RestartChanges(got), nil)
	is(t, "what needs a restart", strings.Join(got.RestartChanges(next), " "), "SENDCODE_ADDR SENDCODE_ADMIN_ADDR SENDCODE_DATA_DIR "+
		"SENDCODE_DATABASE_URL SENDCODE_DATABASE_ROLE SENDCODE_REDIS_URL SENDCODE_SMTP_URL SENDCODE_MAIL_FROM SENDCODE_DKIM_SELECTOR "+
		"SENDCODE_LOG_LEVEL templates trusted_proxies folding sms page admin")
	of := func(yaml string) Config {
		return must(t, "test_recipients: [{channel: email, to: a@b.example, code: '123456', expires: "+yaml+"}]")
	}
	is(t, "what is not printed", of("2098-01-31").ReloadableChanges(of("2099-01-31")), []string{"test_recipients"})
}

// The key of the app default: one that was generated stays, one that a file gives is followed, and neither beside keys
// that the configuration lists.
func TestReloadedKeys(t *testing.T) {
	c := must(t, "")
	if _, err := c.FillSecrets(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for key, next := range map[string]Config{
		c.APIKey.Reveal(): must(t, ""), goodKey: must(t, "", "SENDCODE_API_KEY="+goodKey),
		"sk_own": must(t, fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf("sk_own"))),
	} {
		renewed := c.WithReloadable(next)
		if keys := renewed.Apps[0].Keys; len(keys) != 1 || keys[0].SHA256 != sumOf(key) {
			t.Errorf("%s: %+v", key, keys)
		}
		is(t, key+": changes", len(c.ReloadableChanges(renewed)) > 0, key != c.APIKey.Reveal())
	}
}
