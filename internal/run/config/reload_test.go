package config

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// A password that changes inside a URL needs a restart too, though the printed forms are alike.
func TestWithReloadable(t *testing.T) {
	c, next := must(t, ""), must(t, read(t, "testdata/full.yaml"))
	got := c.WithReloadable(next)
	is(t, "what changes", strings.Join(c.ReloadableChanges(got), " "), "policies limits purposes apps breaker stop "+
		"retention requests_per_minute failed_checks_per_hour disposable_domains webhook_networks")
	is(t, "what is left to change", got.ReloadableChanges(next), nil)
	is(t, "what changes at once alone", c.RestartChanges(got), nil)
	is(t, "what needs a restart", strings.Join(got.RestartChanges(next), " "),
		"SENDCODE_ADDR SENDCODE_ADMIN_ADDR SENDCODE_PUBLIC_URL SENDCODE_DRAIN SENDCODE_DATA_DIR "+
			"SENDCODE_DATABASE_URL SENDCODE_DATABASE_ROLE SENDCODE_REDIS_URL SENDCODE_SMTP_URL oauth SENDCODE_MAIL_FROM "+
			"SENDCODE_LOG_LEVEL templates trusted_proxies folding sms page admin")
	secrets := with(reachable[1:6], "SENDCODE_ADMIN_TOKEN=twenty-characters-ok", "SENDCODE_METRICS_TOKEN=twenty-characters-ok",
		"SENDCODE_OIDC_CLIENT_SECRET=x", "SENDCODE_WEBHOOK_SECRETS=default:"+hookOne)
	is(t, "secrets", strings.Join(c.RestartChanges(must(t, "", secrets...)), " "),
		"SENDCODE_SMTP_URL SENDCODE_SECRET_KEYS SENDCODE_INDEX_KEY "+
			"SENDCODE_ADMIN_PASSWORD_HASH SENDCODE_ADMIN_TOKEN SENDCODE_METRICS_TOKEN SENDCODE_OIDC_CLIENT_SECRET")
	withPassword := func(password string) Config {
		return must(t, "", "SENDCODE_DATABASE_URL=postgres://u:"+password+"@h/d")
	}
	is(t, "a password", withPassword("one").RestartChanges(withPassword("two")), []string{"SENDCODE_DATABASE_URL"})
	of := func(yaml string) Config {
		return must(t, "test_recipients: [{to: a@b.example, code: '123456', expires: "+yaml+"}]")
	}
	is(t, "what is not printed", of("2098-01-31").ReloadableChanges(of("2099-01-31")), []string{"test_recipients"})
}

// A reload is refused if it would leave the page without its app, or a hook without its app or
// purpose.
func TestKeptNames(t *testing.T) {
	const hook = "hooks: [{name: auth, server: supabase-email, secret_env: SUPABASE, app: auth, purposes: {signup: gift}}]\n"
	before := must(t, "page: {app: shop}\n"+hook+"apps: [{name: shop}, {name: auth}]\npurposes: {gift: {}}", "SUPABASE=v1,"+hookOne)
	for yaml, want := range map[string]string{
		"apps: [{name: shop}, {name: auth}]\npurposes: {gift: {}}": "<nil>", "apps: [{name: auth}]\npurposes: {gift: {}}": "page.app is shop until",
		"apps: [{name: shop}, {name: auth}]":         "the hook auth uses the app auth and its purposes until",
		"apps: [{name: shop}]\npurposes: {gift: {}}": "the hook auth uses",
	} {
		if err := before.WithReloadable(must(t, yaml)).CheckKeptNames(); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}

// The generated key of the app default stays until an app has a key, and then nothing of it is
// left.
func TestReloadedKeys(t *testing.T) {
	c := must(t, "")
	_, err := c.LoadOrCreateSecrets(t.TempDir())
	servertest.OK(t, err)
	for key, next := range map[string]Config{
		c.APIKey.Reveal(): must(t, ""), goodKey: must(t, "", "SENDCODE_API_KEY="+goodKey),
		"sk_own": must(t, fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf("sk_own"))),
	} {
		renewed := c.WithReloadable(next)
		if keys := renewed.Apps[0].Keys; len(keys) != 1 || keys[0].SHA256 != sumOf(key) {
			t.Errorf("%s: %+v", key, keys)
		}
		is(t, key+": public key for pages on this machine", renewed.LocalPublicKey != "", key == c.APIKey.Reveal())
		is(t, key+": changes", len(c.ReloadableChanges(renewed)) > 0, key != c.APIKey.Reveal())
	}
	public := must(t, fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: public, sha256: %x}]}]", sumOf("pk_own")))
	is(t, "keys beside one for browsers", len(c.WithReloadable(public).Apps[0].Keys), 2)
}
