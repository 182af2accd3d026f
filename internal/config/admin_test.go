package config

import (
	"slices"
	"strings"
	"testing"
)

const oidcYAML = `
admin:
  oidc:
    issuer: https://id.example/realms/main
    client_id: console
    redirect_url: https://console.example/admin/oidc/callback
`

func TestOIDC(t *testing.T) {
	c := must(t, oidcYAML)
	is(t, "provider", c.Admin.OIDC, oidcSettings{
		Issuer: "https://id.example/realms/main", ClientID: "console", Claim: "email",
		RedirectURL: "https://console.example/admin/oidc/callback", Scopes: []string{"openid", "email"},
	})
	if !c.AdminEnabled() || slices.ContainsFunc(c.missingSecrets(),
		func(s storedSecret) bool { return s.key == "admin_password" }) {
		t.Error("a password is made beside the provider")
	}
	must(t, strings.NewReplacer("https://id.example", "http://127.0.0.1:5556", "https://console.example",
		"http://localhost:8080").Replace(oidcYAML))
}

func TestMistakesOfAdmin(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	refused(t, map[string]string{
		strings.Replace(oidcYAML, "issuer: https://id.example/realms/main\n    ", "", 1): "issuer is missing",
		oidcYAML +
			"    role_claim: groups\n    roles: {a: root}": "roles.a: must be reader, operator or owner",
		oidcYAML +
			"    role_claim: groups\n    roles: {\"\": owner}": "a value that is empty gives no role",
		oidcYAML + "    roles: {a: owner}": "admin.oidc: role_claim is missing",
		"admin: {tokens: [{id: a}]}":       "sha256 is missing",
		"admin: {tokens: [{id: a, sha256: \"" + hash + "\"}, {id: b, sha256: \"" + hash +
			"\"}]}": "another token has the same hash",
	})
	refused(t, map[string]string{"": "SENDCODE_ADMIN_TOKEN_ROLE: must be reader"}, "SENDCODE_ADMIN_TOKEN_ROLE=root")
}
