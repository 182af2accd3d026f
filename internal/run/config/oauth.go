package config

import (
	"cmp"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/run/config/document"
)

// oauthClient is a client that gets tokens for mail servers (RFC 6749 section 4.4).
type oauthClient struct {
	// At Microsoft 365: the tenant's ID or domain.
	Tenant string `yaml:"tenant,omitempty" check:"tenant"`
	// Elsewhere: the URL that gives tokens, `https`.
	TokenURL string `yaml:"token_url,omitempty" check:"secure_url"`
	// This service's ID there.
	ClientID string `yaml:"client_id" required:"yes"`
	// The path of a file with the client's secret.
	SecretFile string `yaml:"client_secret_file,omitempty"`
	// Instead: the environment variable `NAME` that holds it, not `SENDCODE_…`. `NAME_FILE` may hold the
	// path of a file with it.
	SecretEnv string `yaml:"client_secret_env,omitempty"`
	// By default that of Microsoft's mail servers, with `tenant`.
	Scope  string `yaml:"scope,omitempty"`
	Secret Secret `yaml:"-"`
}

// Check implements document.checker. It also reads the secret.
func (c *oauthClient) Check(p *document.Mapping) {
	if (c.Tenant == "") == (c.TokenURL == "") && p.Valid() {
		p.AddMistake("", "needs one of tenant and token_url")
	}
	d := settingsSourceOf(p)
	switch {
	case (c.SecretFile == "") == (c.SecretEnv == ""):
		p.AddMistake("", "needs one of client_secret_file and client_secret_env")
	case c.SecretEnv != "":
		source := SecretSource{SecretEnv: c.SecretEnv}
		if problem := source.read(d); problem != "" {
			p.AddMistake("client_secret_env", "%s", problem)
		}
		c.Secret = source.Secret
	default:
		s, problem := d.readSecretFile(c.SecretFile, p.LocationOf("client_secret_file"))
		problem = cmp.Or(problem, problemWithValue(s.value))
		if problem != "" {
			p.AddMistake("client_secret_file", "%s", problem)
		}
		c.Secret = newSecret(s.value)
	}
}

// client returns the client with its secret.
func (c oauthClient) client() oauth.Client {
	if c.Tenant != "" {
		c.TokenURL, c.Scope = oauth.MicrosoftTokenURL(c.Tenant), cmp.Or(c.Scope, oauth.MicrosoftScope)
	}
	return oauth.Client{TokenURL: c.TokenURL, ID: c.ClientID, Secret: c.Secret.Reveal(), Scope: c.Scope}
}

// TokenSources returns the sources of tokens for mail servers, which have made no request yet. Close them.
func (c Config) TokenSources() oauth.Sources {
	all := oauth.Sources{}
	for name, settings := range c.OAuth {
		all[name] = oauth.New(settings.client())
	}
	return all
}
