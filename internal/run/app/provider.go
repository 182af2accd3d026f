package app

import (
	"net/url"
	"strings"
	"time"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/openid"
	"sendcode/internal/run/config"
)

// IdentityProvider returns the console's identity provider; nil if there is none.
func IdentityProvider(cfg config.Config) *auth.Provider {
	o := cfg.Admin.OIDC
	if !o.IsSet() {
		return nil
	}
	client := openid.New(openid.Settings{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: cfg.OIDCSecret.Reveal(), RedirectURL: o.RedirectURL,
		Scopes: o.Scopes, NameClaim: o.Claim, RoleClaim: o.RoleClaim,
	}, time.Now)
	roles := map[string]auth.Role{}
	for value, role := range o.Roles {
		roles[value] = auth.Role(role)
	}
	title := o.Issuer
	if u, err := url.Parse(o.Issuer); err == nil {
		title = u.Host
	}
	fingerprint := strings.Join([]string{o.Issuer, o.ClientID, o.Claim, o.RoleClaim}, "\x00")
	return &auth.Provider{Client: client, Title: title, Fingerprint: fingerprint, Roles: roles}
}
