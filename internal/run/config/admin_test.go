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
	wantEqual(t, "provider", c.Admin.OIDC, oidcSettings{
		Issuer: "https://id.example/realms/main", ClientID: "console", Claim: "email",
		RedirectURL: "https://console.example/admin/oidc/callback", Scopes: []string{"openid", "email"},
	})
	if !c.AdminLoginEnabled() || slices.ContainsFunc(c.missingSecrets(), func(s storedSecret) bool { return s.key == "admin_password" }) {
		t.Error("a password is made beside the provider")
	}
	must(t, strings.NewReplacer("https://id.example", "http://127.0.0.1:5556", "https://console.example",
		"http://localhost:8080").Replace(oidcYAML))
}
