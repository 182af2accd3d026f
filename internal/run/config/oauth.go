package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sendcode/internal/base/document"
	"sendcode/internal/deliver/delivery/oauth"
)

// oauthClient is a client that gets tokens for mail servers. It has credentials of its own (RFC
// 6749 section 4.4), or it gets tokens through a service account or from a command.
type oauthClient struct {
	// At Microsoft 365: the tenant's ID or domain.
	Tenant string `yaml:"tenant,omitempty" check:"tenant"`
	// Elsewhere: the URL that gives tokens, `https`.
	TokenURL string `yaml:"token_url,omitempty" check:"secure_url"`
	// The ID of this service there.
	ClientID string `yaml:"client_id,omitempty"`
	// The path of a file with the client's secret.
	SecretFile string `yaml:"client_secret_file,omitempty"`
	// In place of `client_secret_file`: the `NAME` of an environment variable with the client's
	// secret. The name must not begin with `SENDCODE_`. `NAME_FILE` may have the path of a file
	// with the secret.
	SecretEnv string `yaml:"client_secret_env,omitempty"`
	// By default that of Microsoft's mail servers, with `tenant`, or Google's, with
	// `service_account_file`.
	Scope string `yaml:"scope,omitempty"`
	// At Google, in place of a tenant or URL: the path of the JSON file of a service account.
	ServiceAccountFile string `yaml:"service_account_file,omitempty"`
	// The mailbox that the service account logs in for.
	Subject string `yaml:"subject,omitempty"`
	// In place of a tenant, a URL or a service account: a program with its arguments. The program
	// prints a token, or JSON with `access_token` and `expires_in`, within 10 s. It runs without a
	// shell, and only `PATH` and `HOME` are set.
	Command []string `yaml:"command,omitempty"`

	Secret Secret `yaml:"-"`
	// Key is the text of the service account's file.
	Key Secret `yaml:"-"`
}

// credentials are the configuration keys for a client's secret. A client of a token server has
// exactly one of these keys.
var credentials = []string{"client_secret_file", "client_secret_env"}

// oauthKinds has, for each way to get a token, the other keys that may be given.
var oauthKinds = map[string][]string{
	"tenant":               append(credentials, "client_id", "scope"),
	"token_url":            append(credentials, "client_id", "scope"),
	"service_account_file": {"subject", "scope"},
	"command":              {},
}

// Check implements document.checker. It also reads the secrets.
func (c *oauthClient) Check(p *document.Mapping) {
	if !p.Valid() {
		return
	}
	var kind string
	kinds, givenCredentials := 0, 0
	for key := range p.Given {
		if oauthKinds[key] != nil {
			kind, kinds = key, kinds+1
		}
		if slices.Contains(credentials, key) {
			givenCredentials++
		}
	}
	if kinds != 1 {
		p.AddMistake("", "needs one of tenant, token_url, service_account_file and command")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.Given)) {
		if key != kind && !slices.Contains(oauthKinds[kind], key) {
			p.AddMistake(key, "cannot be used with %s", kind)
		}
	}
	atServer := kind == "tenant" || kind == "token_url"
	switch {
	case kind == "service_account_file" && c.Subject == "":
		p.AddMistake("", "subject is missing: give the mailbox that the service account logs in for")
	case kind == "command" && (len(c.Command) == 0 || c.Command[0] == ""):
		p.AddMistake("command", "must name a program")
	case atServer && c.ClientID == "":
		p.AddMistake("", "client_id is missing")
	case atServer && givenCredentials != 1:
		p.AddMistake("", "needs one of %s", strings.Join(credentials, " and "))
	}
	if p.Valid() {
		c.readSecrets(p)
	}
}

// systemdCredentials is the directory with the credentials that systemd gives to a service. It
// exists only while the service runs (systemd.exec(5), Credentials).
const systemdCredentials = "/run/credentials/"

func (c *oauthClient) readSecrets(p *document.Mapping) {
	if c.SecretEnv != "" {
		secret, problem := settingsSourceOf(p).ReadSecret(c.SecretEnv)
		if problem != "" {
			p.AddMistake("client_secret_env", "%s", problem)
		}
		c.Secret = secret
	}
	if c.SecretFile != "" {
		c.Secret = c.readFile(p, "client_secret_file", c.SecretFile, problemWithValue)
	}
	if c.ServiceAccountFile != "" {
		c.Key = c.readFile(p, "service_account_file", c.ServiceAccountFile, func(text string) string {
			account, err := oauth.ParseAccount([]byte(text))
			if err != nil {
				return err.Error()
			} else if wrong := checkSecureURL(account.TokenURL); wrong != "" {
				return "token_uri " + wrong
			}
			return ""
		})
	}
}

// readFile reads the file that a configuration key names. problem checks the contents, and returns
// "" if they are valid.
func (c *oauthClient) readFile(p *document.Mapping, key, path string, problem func(text string) string) Secret {
	s, wrong := settingsSourceOf(p).readSecretFile(path, p.LocationOf(key))
	if wrong != "" && strings.HasPrefix(path, systemdCredentials) {
		return Secret{} // no mistake: a command may run while the service is stopped, and systemd starts no service without the file
	}
	if wrong == "" {
		wrong = problem(s.value)
	}
	if wrong != "" {
		p.AddMistake(key, "%s", wrong)
	}
	return document.NewSecret(s.value)
}

func (c oauthClient) client() oauth.Client {
	client := oauth.Client{
		TokenURL: c.TokenURL, ID: c.ClientID, Secret: c.Secret.Reveal(), Scope: c.Scope, Subject: c.Subject, Command: c.Command,
	}
	if c.Tenant != "" {
		client.TokenURL, client.Scope = oauth.MicrosoftTokenURL(c.Tenant), cmp.Or(c.Scope, oauth.MicrosoftScope)
	}
	switch {
	case c.ServiceAccountFile != "" && !c.Key.IsSet():
		client.Command = []string{"cat", c.ServiceAccountFile} // the command's error will say that the file is missing
	case c.ServiceAccountFile != "":
		client.Account, _ = oauth.ParseAccount([]byte(c.Key.Reveal())) // Check has parsed it
		client.TokenURL, client.Scope = client.Account.TokenURL, cmp.Or(c.Scope, oauth.GoogleScope)
	}
	return client
}

// TokenSources returns the sources of tokens for mail servers. They have made no request yet. The
// caller must close the sources.
func (c Config) TokenSources() oauth.Sources {
	all := oauth.Sources{}
	for name, settings := range c.OAuth {
		all[name] = oauth.New(settings.client())
	}
	return all
}
