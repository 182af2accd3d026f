package config

import (
	"reflect"
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
	second.RoleClaim, second.Roles = "groups", map[string]string{"on-call": "operator", "https://x/owners": "owner"}
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
		"no URL":          {replaced("https://id.example/realms/main", "id.example"), "issuer: " + unreadable},
		"a fragment":      {replaced("realms/main", "realms#main"), "issuer: " + unreadable},
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
