package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
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
		c := must(t, file, "SENDCODE_OIDC_CLIENT_SECRET=hidden")
		if !reflect.DeepEqual(c.Admin.OIDC, want) || c.OIDCSecret.Reveal() != "hidden" {
			t.Errorf("%+v", c.Admin.OIDC)
		}
		if again := must(t, c.YAML()); !reflect.DeepEqual(again.Admin, c.Admin) || strings.Contains(c.YAML(), "hidden") {
			t.Errorf("%s", c.YAML())
		}
		if !c.AdminEnabled() || slices.ContainsFunc(c.missingSecrets(), func(s storedSecret) bool { return s.key == keyAdminPassword }) {
			t.Error("a password is made beside the provider")
		}
	}
	c := must(t, "admin: {}", "SENDCODE_OIDC_CLIENT_SECRET=x")
	if c.Admin.OIDC.IsSet() || !strings.Contains(strings.Join(c.Warnings, "\n"), "of no use without admin.oidc") {
		t.Errorf("%v", c.Warnings)
	}
}

func TestMistakesOfOIDC(t *testing.T) {
	replaced := func(from, to string) string { return strings.Replace(oidcYAML(), from, to, 1) }
	refused(t, map[string]string{
		replaced("issuer: https://id.example/realms/main\n    ", ""): "issuer is missing",
		oidcYAML("roles: {claim: groups, values: {a: root}}"):        "roles.values.a: a role is reader, operator or owner",
		oidcYAML(`roles: {claim: groups, values: {"": owner}}`):      "a value that is empty gives no role",
		"oidc_client_secret: hidden":                                 "is a secret and does not belong in this file; give SENDCODE_OIDC_CLIENT_SECRET",
	})
	local := strings.NewReplacer("https://id.example", "http://127.0.0.1:5556", "https://console.example", "http://localhost:8080").Replace(oidcYAML())
	must(t, local)
}

func TestAdminTokens(t *testing.T) {
	one, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	c := must(t, "admin:\n  tokens:\n    - {id: charts, sha256: \""+one+"\"}\n    - {id: desk, sha256: \""+other+"\", role: operator, expires: 2020-01-31}\n")
	got := c.Admin.Tokens
	if len(got) != 2 || got[0].Role != "reader" || !got[0].Expires.IsZero() || got[1].Role != "operator" || got[1].Expires.Format("2006-01-02") != "2020-02-01" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(strings.Join(c.Warnings, " "), "The admin token desk has expired.") {
		t.Errorf("%v", c.Warnings)
	}
	if again := must(t, c.YAML()); !reflect.DeepEqual(again.Admin, c.Admin) {
		t.Errorf("printed and read again: %+v", again.Admin)
	}
	of := func(tokens string) string { return "admin: {tokens: [" + tokens + "]}" }
	refused(t, map[string]string{
		of("{id: a}"): "sha256 is missing",
		of("{id: a, sha256: \"" + one + "\"}, {id: b, sha256: \"" + one + "\"}"):   "another token has the same hash",
		of("{id: a, sha256: \"" + one + "\"}, {id: a, sha256: \"" + other + "\"}"): "another token has the same id",
	})
}

func TestAdminTokenRoleOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		yaml, env, is string
	}{{"", "", "reader"}, {"admin: {token_role: owner}", "", "owner"}, {"admin: {token_role: owner}", "operator", "operator"}} {
		if got := must(t, c.yaml, "SENDCODE_ADMIN_TOKEN_ROLE="+c.env); got.Admin.TokenRole != c.is {
			t.Errorf("%+v: %q", c, got.Admin.TokenRole)
		}
	}
	if _, err := loadYAML("", "SENDCODE_ADMIN_TOKEN_ROLE=root"); err == nil || !strings.Contains(err.Error(), "SENDCODE_ADMIN_TOKEN_ROLE") {
		t.Error(err)
	}
}
