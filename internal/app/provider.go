package app

import (
	"strings"
	"time"

	"sendcode/internal/admin"
	"sendcode/internal/config"
	"sendcode/internal/openid"
)

// provider is whom people may log in to the console by; nil: nobody.
func provider(cfg config.Config) *admin.Provider {
	o := cfg.Admin.OIDC
	if !o.IsSet() {
		return nil
	}
	asked := openid.New(openid.Settings{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: cfg.OIDCSecret.Reveal(), RedirectURL: o.RedirectURL,
		Scopes: o.Scopes, NameClaim: o.Claim, RoleClaim: o.Roles.Claim,
	}, time.Now)
	roles := map[string]admin.Role{}
	for value, role := range o.Roles.Values {
		roles[value] = admin.Role(role)
	}
	return &admin.Provider{Asked: asked, Title: o.Title, About: strings.Join([]string{o.Issuer, o.ClientID, o.Claim, o.Roles.Claim}, "\x00"), Roles: roles}
}
