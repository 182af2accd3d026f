package config

import (
	"reflect"
	"strings"
	"testing"

	"sendcode/internal/config/address"
)

const goodOIDC = `
    issuer: https://id.example/realms/main
    client_id: console
    redirect_url: https://console.example/admin/oidc/callback
`

func oidcYAML(more ...string) string {
	return "admin:\n  oidc:" + goodOIDC + "    " + strings.Join(more, "\n    ") + "\n"
}

func TestOIDC(t *testing.T) {
	first := OIDC{
		Title: "id.example", Issuer: "https://id.example/realms/main", ClientID: "console", RedirectURL: "https://console.example/admin/oidc/callback",
		Scopes: []string{"openid", "email"}, Claim: "email",
	}
	second := first
	second.Title, second.Claim, second.Scopes = "Example ID", "preferred_username", []string{"openid", "groups", "profile"}
	second.Roles = OIDCRoles{Claim: "groups", Values: map[string]string{"on-call": "operator", "https://x/owners": "owner"}}
	for file, want := range map[string]OIDC{
		oidcYAML(): first,
		oidcYAML("title: Example ID", "claim: preferred_username", "scopes: [groups profile]", `roles: {claim: groups, values: {on-call: operator, "https://x/owners": owner}}`): second,
	} {
		c, err := loadYAML(file, "SENDCODE_OIDC_CLIENT_SECRET=hidden")
		if err != nil || !reflect.DeepEqual(c.Admin.OIDC, want) || c.OIDCSecret.Reveal() != "hidden" {
			t.Errorf("%+v, %v", c.Admin.OIDC, err)
		}
		again, err := loadYAML(c.YAML(), "SENDCODE_OIDC_CLIENT_SECRET=hidden")
		if err != nil || !reflect.DeepEqual(again.Admin, c.Admin) || strings.Contains(c.YAML(), "hidden") || !strings.Contains(c.YAML(), "SENDCODE_OIDC_CLIENT_SECRET: set") {
			t.Errorf("%v\n%s", err, c.YAML())
		}
		if len(c.missingSecrets()) == 0 || !c.AdminEnabled() {
			t.Error("not enabled")
		}
		for _, key := range c.missingSecrets() {
			if key == keyAdminPassword {
				t.Error("a password is made beside the provider")
			}
		}
	}
	if c, err := loadYAML("admin: {}"); err != nil || c.Admin.OIDC.IsSet() {
		t.Error(err)
	}
	c, err := Load([]string{"SENDCODE_OIDC_CLIENT_SECRET=x"}, files{}.read)
	if err != nil || !strings.Contains(strings.Join(c.Warnings, "\n"), "of no use without admin.oidc") {
		t.Errorf("%v %v", c.Warnings, err)
	}
}

func TestMistakesOfOIDC(t *testing.T) {
	replaced := func(from, to string) string { return strings.Replace(oidcYAML(), from, to, 1) }
	for name, c := range map[string]struct{ file, want string }{
		"no issuer":       {replaced("issuer: https://id.example/realms/main\n    ", ""), "issuer is missing"},
		"no client":       {replaced("client_id: console\n    ", ""), "client_id is missing"},
		"no way back":     {replaced("redirect_url: https://console.example/admin/oidc/callback", ""), "redirect_url is missing"},
		"http":            {replaced("https://id", "http://id"), "issuer: must be https"},
		"back by http":    {replaced("https://console", "http://console"), "redirect_url: must be https"},
		"back elsewhere":  {replaced("/callback", "/start"), "redirect_url: must end in /admin/oidc/callback"},
		"a password":      {replaced("https://id", "https://u:p@id"), "issuer: must be a URL such as"},
		"no URL":          {replaced("https://id.example/realms/main", "id.example"), "issuer: " + address.Unreadable},
		"a fragment":      {replaced("realms/main", "realms#main"), "issuer: " + address.Unreadable},
		"empty client":    {replaced("client_id: console", `client_id: ""`), "client_id: is empty"},
		"second factor":   {"admin: {second_factor: maybe}", "second_factor: is optional or required"},
		"token role":      {"admin: {token_role: root}", "token_role: a role is reader, operator or owner"},
		"role":            {oidcYAML("roles: {claim: groups, values: {a: root}}"), "roles.values.a: a role is reader, operator or owner"},
		"role of nothing": {oidcYAML(`roles: {claim: groups, values: {"": owner}}`), "a value that is empty gives no role"},
		"no claim":        {oidcYAML("roles: {values: {a: owner}}"), "roles: claim is missing"},
		"the secret":      {oidcYAML("client_secret: hidden"), "there is no such key"},
		"in the file":     {"oidc_client_secret: hidden", "is a secret and does not belong in this file; give SENDCODE_OIDC_CLIENT_SECRET"},
	} {
		_, err := loadYAML(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n  - ") > 1 {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: shows it: %v", name, err)
		}
	}
	local := strings.NewReplacer("https://id.example", "http://127.0.0.1:5556", "https://console.example", "http://localhost:8080").Replace(oidcYAML())
	if _, err := loadYAML(local); err != nil {
		t.Errorf("on this machine: %v", err)
	}
}

func TestAdminTokens(t *testing.T) {
	one, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	c, err := loadYAML("admin:\n  tokens:\n    - {id: charts, sha256: \"" + one + "\"}\n    - {id: desk, sha256: \"" + other + "\", role: operator, expires: 2020-01-31}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := c.Admin.Tokens
	if len(got) != 2 || got[0].Role != "reader" || !got[0].Expires.IsZero() || got[1].Role != "operator" || got[1].Expires.Format("2006-01-02") != "2020-02-01" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(strings.Join(c.Warnings, " "), "The admin token desk has expired.") {
		t.Errorf("%v", c.Warnings)
	}
	again, err := loadYAML(c.YAML())
	if err != nil || !reflect.DeepEqual(again.Admin, c.Admin) {
		t.Errorf("printed and read again: %v, %+v", err, again.Admin)
	}
	for what, token := range map[string]string{
		"sha256 is missing": "{id: a}", "id is missing": "{sha256: \"" + one + "\"}", "not the token": "{id: a, sha256: a-token-of-ours}",
		"a role is":                       "{id: a, sha256: \"" + one + "\", role: root}",
		"not the hash of a token":         "{id: a, sha256: \"" + strings.Repeat("0", 64) + "\"}",
		"another token has the same hash": "{id: a, sha256: \"" + one + "\"}, {id: b, sha256: \"" + one + "\"}",
		"another token has the same id":   "{id: a, sha256: \"" + one + "\"}, {id: a, sha256: \"" + other + "\"}",
	} {
		_, err := loadYAML("admin: {tokens: [" + token + "]}")
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "a-token-of-ours") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAdminTokenRoleOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		yaml, env, is string
	}{{"", "", "reader"}, {"admin: {token_role: owner}", "", "owner"}, {"admin: {token_role: owner}", "operator", "operator"}} {
		got, err := loadYAML(c.yaml, "SENDCODE_ADMIN_TOKEN_ROLE="+c.env)
		if err != nil || got.Admin.TokenRole != c.is {
			t.Errorf("%+v: %q, %v", c, got.Admin.TokenRole, err)
		}
	}
	if _, err := loadYAML("", "SENDCODE_ADMIN_TOKEN_ROLE=root"); err == nil || !strings.Contains(err.Error(), "SENDCODE_ADMIN_TOKEN_ROLE") {
		t.Error(err)
	}
}
