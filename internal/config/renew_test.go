package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"testing"
)

// Every setting that is not read again is named when it differs, and only then. A variable that is added needs a row.
func TestFixedNamesEverySettingThatDiffers(t *testing.T) {
	other := map[string]string{
		keyAddr: "127.0.0.1:81", keyAdminAddr: "127.0.0.1:82", "data_dir": "elsewhere", "database_url": "postgres://u:p@h/d",
		"database_role": "sendcode_app", "redis_url": "redis://:p@h", keySMTPURL: "smtps://u:p@h", "mail_from": "Shop <a@shop.example>", "dkim_selector": "s1", "log_level": "warn",
		keySecretKeys: "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=", keyIndexKey: "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE=",
		keyAdminPassword: "a password of ours", "admin_token": "a-token-of-twenty-characters-or-more", "metrics_token": "a-token-of-twenty-characters-or-more", "oidc_client_secret": "another", "admin_token_role": "owner",
		keyAdminPasswordHash: "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b4dWRWJTmaaJObG9O5UHxnTzrc",
	}
	for _, v := range variables {
		if v.key == keyConfig || v.key == keyAPIKey || v.key == keyWebhookSecrets || v.list {
			continue
		}
		c, err := Load(nil, files{}.read)
		if err != nil {
			t.Fatal(err)
		}
		next, err := Load([]string{envName(v.key) + "=" + other[v.key]}, files{}.read)
		if err != nil {
			t.Fatalf("%s: %v", v.key, err)
		}
		if got := c.Fixed(next); !slices.Equal(got, []string{envName(v.key)}) {
			t.Errorf("%s: %v", v.key, got)
		}
		if got := next.Fixed(next); got != nil {
			t.Errorf("%s with itself: %v", v.key, got)
		}
	}
	c, _ := loadYAML("addr: 127.0.0.1:80")
	for part, yaml := range map[string]string{
		"templates": "templates: x", "trusted_proxies": "trusted_proxies: [10.0.0.0/8]", "page": "page: {app: \"\"}",
		"folding": "folding: [{domain: a.example, dots: true}]", "sms": "sms: {segments: 2}",
		"admin": "admin: {second_factor: required, token_role: reader, oidc: {issuer: \"https://id.example\", client_id: c, redirect_url: \"https://x.example/admin/oidc/callback\"}}",
	} {
		next, err := loadYAML("addr: 127.0.0.1:80\n" + yaml)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Fixed(next); !slices.Equal(got, []string{part}) {
			t.Errorf("%s: %v", part, got)
		}
	}
}

// A password that changes inside a URL differs too, though the printed forms are alike.
func TestFixedSeesPasswordsOfURLs(t *testing.T) {
	load := func(password string) Config {
		c, err := Load([]string{fmt.Sprintf("SENDCODE_DATABASE_URL=postgres://u:%s@h/d", password)}, files{}.read)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if got := load("one").Fixed(load("two")); !slices.Equal(got, []string{"SENDCODE_DATABASE_URL"}) {
		t.Errorf("%v", got)
	}
}

func TestRenewed(t *testing.T) {
	c, err := loadYAML("addr: 127.0.0.1:80\nmail_from: Shop <a@shop.example>\napps: [{name: old}]")
	if err != nil {
		t.Fatal(err)
	}
	next, err := loadYAML(`
addr: 127.0.0.1:81
mail_from: Store <a@shop.example>
policies: {default: [{name: hour, scope: recipient, limit: 2, window: 1h}]}
purposes: {login: {ttl: 60s}}
apps: [{name: shop, title: Shop}]
test_recipients: [{channel: email, to: a@b.example, code: "123456", expires: 2099-01-31}]
block: [{domain: bad.example}]
`)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Renewed(next)
	if got.Addr != "127.0.0.1:80" || got.MailFrom != "Shop <a@shop.example>" {
		t.Errorf("what needs a restart changed: %s", got)
	}
	if got.Policies["default"].Rules[0].Limit != 2 || got.Purposes["login"].TTL != next.Purposes["login"].TTL || got.Apps[1].Title != "Shop" || len(got.Apps) != 2 {
		t.Errorf("what can change did not: %s", got)
	}
	if parts := c.Differs(got); !slices.Equal(parts, []string{"policies", "purposes", "apps", "test_recipients", "block"}) {
		t.Errorf("differs in %v", parts)
	}
	again, _ := loadYAML("policies: {zones: [{name: d, scope: recipient, limit: 1, per: day, time_zone: Asia/Shanghai}]}")
	same, _ := loadYAML("policies: {zones: [{name: d, scope: recipient, limit: 1, per: day, time_zone: Asia/Shanghai}]}")
	if parts := again.Differs(same); parts != nil {
		t.Errorf("the same differs in %v", parts)
	}
}

// The key of the app default: one that was generated stays, one that a file gives is followed, and neither beside keys
// that the configuration lists.
func TestRenewedKeys(t *testing.T) {
	hashes := func(c Config) (all [][32]byte) {
		for _, k := range c.Apps[0].Keys {
			all = append(all, k.SHA256)
		}
		return all
	}
	c, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.FillSecrets(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	generated := sha256.Sum256([]byte(c.APIKey.Reveal()))
	next, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	if got := hashes(c.Renewed(next)); !slices.Equal(got, [][32]byte{generated}) || len(c.Differs(c.Renewed(next))) != 0 {
		t.Errorf("the generated key: %d keys", len(got))
	}
	own := sha256.Sum256([]byte("sk_own"))
	listed, err := loadYAML(fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: secret, sha256: %x}]}]", own))
	if err != nil {
		t.Fatal(err)
	}
	if got := hashes(c.Renewed(listed)); !slices.Equal(got, [][32]byte{own}) {
		t.Errorf("beside a listed key: %d keys", len(got))
	}
	const key = "sk_0123456789abcdefghijABCDEFGHIJ"
	file := func(string) ([]byte, error) { return []byte(key), nil }
	given, err := Load([]string{"SENDCODE_API_KEY_FILE=f"}, file)
	if err != nil {
		t.Fatal(err)
	}
	renewed := c.Renewed(given)
	if got := hashes(renewed); !slices.Equal(got, [][32]byte{sha256.Sum256([]byte(key))}) || renewed.APIKey.Reveal() != key {
		t.Errorf("a key of a file: %d keys", len(got))
	}
}

func TestTheFileIsKnown(t *testing.T) {
	name := t.TempDir() + "/c.yaml"
	if err := os.WriteFile(name, []byte("log_level: warn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load([]string{"SENDCODE_CONFIG=" + name}, os.ReadFile); err != nil || c.File != name {
		t.Errorf("%q, %v", c.File, err)
	}
}
