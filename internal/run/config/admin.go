package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/loopback"
)

// adminSettings are the console's settings in the file.
type adminSettings struct {
	// Whether accounts with a password need a second factor: `optional` or `required`.
	SecondFactor string `yaml:"second_factor" default:"optional" oneof:"optional required"`
	// Further bearer tokens. `openssl rand -hex 32` makes a token. `printf %s TOKEN | sha256sum`
	// prints the token's hash.
	Tokens []adminToken `yaml:"tokens,omitempty" unique:"id"`
	// A provider of OpenID Connect.
	OIDC oidcSettings `yaml:"oidc,omitempty"`
}

// adminToken is a bearer token of the admin API in the settings' file. The file has only the
// token's hash.
type adminToken struct {
	// Unique.
	ID string `yaml:"id" required:"yes" check:"name"`
	// The SHA-256 of the whole token, in hex.
	SHA256 [32]byte `yaml:"sha256" required:"yes" check:"token_hash"`
	// `reader`, `operator` or `owner`.
	Role string `yaml:"role" default:"reader" oneof:"reader operator owner"`
	// The last day on which it works, or a time.
	Expires time.Time `yaml:"expires,omitempty"`
}

// SecondFactorRequired is the value of Admin.SecondFactor with which every account with a password
// needs a second factor.
const SecondFactorRequired = "required"

// oidcSettings describe the OpenID Connect provider for logins to the console. The client secret is
// in Config.OIDCSecret.
type oidcSettings struct {
	// The provider's issuer URL, exactly as the provider writes it.
	Issuer string `yaml:"issuer" required:"yes" check:"secure_url"`
	// The ID of this service at the provider.
	ClientID string `yaml:"client_id" required:"yes"`
	// The URL to which the provider returns, which ends in `/admin/oidc/callback`. Register exactly
	// this URL.
	RedirectURL string `yaml:"redirect_url" required:"yes" check:"redirect_url"`
	// The scopes to ask for. The default is `openid` and what `claim` needs.
	Scopes []string `yaml:"scopes"`
	// The claim that names a person. The default is `email`.
	Claim string `yaml:"claim"`
	// The claim that gives roles to people without an account. Its value is a text or a list.
	// `realm_access.roles` is the claim `roles` in the object `realm_access`. If the ID token lacks
	// the claim, the service reads the claim from the userinfo endpoint.
	RoleClaim string `yaml:"role_claim,omitempty"`
	// The role for each value of `role_claim`. If a person has several values, the highest role
	// counts.
	Roles map[string]string `yaml:"roles,omitempty" keys:"oidc_value" oneof:"reader operator owner"`
}

// IsSet reports whether there is a provider.
func (o oidcSettings) IsSet() bool { return o.Issuer != "" }

// oidcCallbackPath is the console's path to which the provider sends its answer.
const oidcCallbackPath = "/admin/oidc/callback"

// scopeOfClaim maps a claim to the scope that requests it (OpenID Connect Core 1.0, section 5.4).
// It is used if the file names no scopes.
var scopeOfClaim = map[string]string{"email": "email", "preferred_username": "profile"}

// Check implements document.checker: no two tokens have the same hash.
func (a *adminSettings) Check(p *document.Mapping) {
	for i, t := range a.Tokens {
		at, others := p.Children["tokens"][i], a.Tokens[:i]
		if slices.ContainsFunc(others, func(other adminToken) bool {
			return other.SHA256 == t.SHA256 &&
				t.SHA256 != [32]byte{}
		}) {
			at.AddMistake("sha256", "another token has the same hash")
		}
	}
}

// Check implements document.checker. If roles are given, role_claim must be given, too. Check also
// sets the default scopes and the default claim.
func (o *oidcSettings) Check(p *document.Mapping) {
	if p.Given["role_claim"] == nil && p.Given["roles"] != nil {
		p.AddMistake("", "role_claim is missing; roles needs it")
	}
	if o.Claim == "" {
		o.Claim = "email"
	}
	o.Scopes = strings.Fields(strings.Join(o.Scopes, " "))
	if len(o.Scopes) == 0 {
		o.Scopes = strings.Fields(scopeOfClaim[o.Claim])
	}
	if !slices.Contains(o.Scopes, "openid") {
		o.Scopes = append([]string{"openid"}, o.Scopes...)
	}
}

// checkSecureURL returns a problem unless text is an https URL, or an http URL of this machine,
// without a user and a query.
func checkSecureURL(text string) string {
	p, problem := parseURL(text)
	u, err := url.Parse(text)
	switch {
	case problem != "":
		return problem
	case err != nil || u.Hostname() == "" || p.userinfo != "" || p.query != "":
		return "must be a URL such as https://id.example, without a user and a query"
	case p.scheme != "https" && !(p.scheme == "http" && loopback.IsHost(u.Hostname())):
		return "must be https: an attacker on the network path could log in"
	}
	return ""
}

// checkConsoleCallback returns a problem unless checkSecureURL accepts the URL and its path is
// oidcCallbackPath.
func checkConsoleCallback(text string) string {
	if problem := checkSecureURL(text); problem != "" {
		return problem
	}
	u, err := url.Parse(text)
	return problemIf(err != nil || u.Path != oidcCallbackPath,
		"must end in "+oidcCallbackPath+", as in https://console.example"+oidcCallbackPath)
}
