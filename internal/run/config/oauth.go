package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/run/config/document"
)

// oauthClient is a client that gets tokens for mail servers: with credentials of its own (RFC 6749 section 4.4), with a
// refresh token, or from a service account, a command or a file.
type oauthClient struct {
	// At Microsoft 365: the tenant's ID or domain; `consumers` for a personal account.
	Tenant string `yaml:"tenant,omitempty" check:"tenant"`
	// Elsewhere: the URL that gives tokens, `https`.
	TokenURL string `yaml:"token_url,omitempty" check:"secure_url"`
	// This service's ID there.
	ClientID string `yaml:"client_id,omitempty"`
	// The path of a file with the client's secret.
	SecretFile string `yaml:"client_secret_file,omitempty"`
	// Instead: the environment variable `NAME` that holds it, not `SENDCODE_…`. `NAME_FILE` may hold the
	// path of a file with it.
	SecretEnv string `yaml:"client_secret_env,omitempty"`
	// Instead of a secret: the path of a PEM file with the client's certificate and its RSA key.
	CertificateFile string `yaml:"client_certificate_file,omitempty"`
	// For an account that a person has logged in: the path of a file with its refresh token. Later ones are
	// kept in the database. A secret is needed only if the server asks for it.
	RefreshTokenFile string `yaml:"refresh_token_file,omitempty"`
	// By default that of Microsoft's mail servers, with `tenant`, or Google's, with `service_account_file`.
	Scope string `yaml:"scope,omitempty"`
	// Instead of a tenant or URL, at Google: the path of the JSON file of a service account.
	ServiceAccountFile string `yaml:"service_account_file,omitempty"`
	// The mailbox that the service account logs in for.
	Subject string `yaml:"subject,omitempty"`
	// Instead: a program with its arguments, which prints a token, or JSON with `access_token` and `expires_in`,
	// within 10 s. No shell reads it, and it has `PATH` and `HOME` alone.
	Command []string `yaml:"command,omitempty"`
	// Instead: the path of a file with the same, which another program renews. It is read again at 80 % of
	// `expires_in`, by default 300 s.
	TokenFile string `yaml:"token_file,omitempty"`

	Secret       Secret `yaml:"-"`
	RefreshToken Secret `yaml:"-"`
	// Key is the text of the certificate's file, or of the service account's.
	Key Secret `yaml:"-"`
}

// credentials are the keys of which a client at a token server has one, or none with a refresh token.
var credentials = []string{"client_secret_file", "client_secret_env", "client_certificate_file"}

// oauthWays has the keys that go with each way to a token.
var oauthWays = map[string][]string{
	"tenant":               append(credentials, "client_id", "refresh_token_file", "scope"),
	"token_url":            append(credentials, "client_id", "refresh_token_file", "scope"),
	"service_account_file": {"subject", "scope"},
	"command":              {},
	"token_file":           {},
}

// Check implements document.checker. It also reads the secrets.
func (c *oauthClient) Check(p *document.Mapping) {
	if !p.Valid() {
		return
	}
	var way string
	ways, has := 0, 0
	for key := range p.Given {
		if oauthWays[key] != nil {
			way, ways = key, ways+1
		}
		if slices.Contains(credentials, key) {
			has++
		}
	}
	if ways != 1 {
		p.AddMistake("", "needs one of tenant, token_url, service_account_file, command and token_file")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.Given)) {
		if key != way && !slices.Contains(oauthWays[way], key) {
			p.AddMistake(key, "has no meaning with %s", way)
		}
	}
	atServer := way == "tenant" || way == "token_url"
	switch {
	case way == "service_account_file" && c.Subject == "":
		p.AddMistake("", "subject is missing: the mailbox")
	case way == "command" && (len(c.Command) == 0 || c.Command[0] == ""):
		p.AddMistake("command", "names no program")
	case atServer && c.ClientID == "":
		p.AddMistake("", "client_id is missing")
	case atServer && (has > 1 || has == 0 && c.RefreshTokenFile == ""):
		p.AddMistake("", "needs one of %s and %s", strings.Join(credentials[:2], ", "), credentials[2])
	}
	if p.Valid() {
		c.readSecrets(p)
	}
}

// systemdCredentials is where systemd shows a service its credentials, while that runs (systemd.exec(5), Credentials).
const systemdCredentials = "/run/credentials/"

// readSecrets reads the variable and the files.
func (c *oauthClient) readSecrets(p *document.Mapping) {
	d := settingsSourceOf(p)
	if c.SecretEnv != "" {
		source := SecretSource{SecretEnv: c.SecretEnv}
		if problem := source.read(d); problem != "" {
			p.AddMistake("client_secret_env", "%s", problem)
		}
		c.Secret = source.Secret
	}
	for _, f := range []struct {
		key, path string
		into      *Secret
		parse     func(text []byte) (*oauth.Key, error) // nil: one line
	}{
		{"client_secret_file", c.SecretFile, &c.Secret, nil},
		{"refresh_token_file", c.RefreshTokenFile, &c.RefreshToken, nil},
		{"client_certificate_file", c.CertificateFile, &c.Key, oauth.ParseCertificate},
		{"service_account_file", c.ServiceAccountFile, &c.Key, oauth.ParseAccount},
	} {
		if f.path == "" {
			continue
		}
		s, problem := d.readSecretFile(f.path, p.LocationOf(f.key))
		if problem != "" && strings.HasPrefix(f.path, systemdCredentials) {
			continue // commands run beside a service that is stopped; without the file systemd starts none
		}
		switch {
		case problem != "":
		case f.parse == nil:
			problem = problemWithValue(s.value)
		default:
			key, err := f.parse([]byte(s.value))
			if err != nil {
				problem = err.Error()
			} else if wrong := checkSecureURL(key.TokenURL); wrong != "" && key.TokenURL != "" {
				problem = "token_uri " + wrong
			}
		}
		if problem != "" {
			p.AddMistake(f.key, "%s", problem)
		}
		*f.into = newSecret(s.value)
	}
}

// client returns the client with its secrets. shared keeps its refresh tokens.
func (c oauthClient) client(shared oauth.Shared) oauth.Client {
	client := oauth.Client{
		TokenURL: c.TokenURL, ID: c.ClientID, Secret: c.Secret.Reveal(), Scope: c.Scope, Subject: c.Subject,
		RefreshToken: c.RefreshToken.Reveal(), Shared: shared, Command: c.Command, File: c.TokenFile,
	}
	if c.Tenant != "" {
		client.TokenURL = oauth.MicrosoftTokenURL(c.Tenant)
		client.Scope = cmp.Or(c.Scope, oauth.MicrosoftScope)
		if c.RefreshToken.IsSet() {
			client.Scope = cmp.Or(c.Scope, oauth.MicrosoftUserScope)
		}
	}
	if c.CertificateFile != "" {
		client.Certificate, _ = oauth.ParseCertificate([]byte(c.Key.Reveal())) // Check has parsed it
	}
	switch {
	case c.ServiceAccountFile != "" && !c.Key.IsSet():
		client.File = c.ServiceAccountFile // the error names it
	case c.ServiceAccountFile != "":
		client.Account, _ = oauth.ParseAccount([]byte(c.Key.Reveal()))
		client.TokenURL, client.Scope = client.Account.TokenURL, cmp.Or(c.Scope, oauth.GoogleScope)
	}
	return client
}

// TokenSources returns the sources of tokens for mail servers, which have made no request yet. Close them. shared
// returns what keeps the refresh tokens of a client.
func (c Config) TokenSources(shared func(client string) oauth.Shared) oauth.Sources {
	all := oauth.Sources{}
	for name, settings := range c.OAuth {
		all[name] = oauth.New(settings.client(shared(name)))
	}
	return all
}

// HasRefreshToken reports whether a client gets its tokens by a refresh token, which may serve only once.
func (c Config) HasRefreshToken(client string) bool { return c.OAuth[client].RefreshToken.IsSet() }
