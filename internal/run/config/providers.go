package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"sendcode/internal/deliver/feedback"
	"sendcode/internal/run/config/document"
)

// SecretSource has the name of the variable that has a secret. Instead, a second variable, with
// _FILE appended to the name, may name a file with the secret.
type SecretSource struct {
	// The `NAME` of the environment variable with the secret. The name must not begin with
	// `SENDCODE_`. Instead of the variable, `NAME_FILE` may have the path of a file with the
	// secret.
	SecretEnv string `yaml:"secret_env,omitempty"`
	Secret    Secret `yaml:"-"`
}

var envNamePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// Check implements document.checker. It also reads the secret.
func (s *SecretSource) Check(p *document.Mapping) {
	if p.Given["secret_env"] == nil {
		return
	}
	if problem := s.read(settingsSourceOf(p)); problem != "" {
		p.AddMistake("secret_env", "%s", problem)
	}
}

// read reads the secret. It returns the problem with the variable or the value. If there is no
// problem, it returns "".
func (s *SecretSource) read(d *settingsSource) string {
	switch {
	case !envNamePattern.MatchString(s.SecretEnv):
		return "must be the name of a variable, such as TWILIO_TOKEN, and not the secret itself"
	case strings.HasPrefix(s.SecretEnv, envPrefix):
		return "variables that begin with " + envPrefix + " have a meaning of their own; take another name"
	}
	value, problem := d.readVariable(s.SecretEnv, true)
	problem = cmp.Or(problem, problemIf(value.value == "", "is empty"), problemWithValue(value.value))
	if problem != "" {
		return value.where + ": " + problem
	}
	s.Secret = newSecret(value.value)
	return ""
}

// eventProvider is a mail provider that reports the outcome of mails. The field Source does not
// include the secret. SourceWithSecret returns the Source with the secret.
type eventProvider struct {
	feedback.Source `yaml:",inline"`
	SecretSource    `yaml:",inline"`
}

// SourceWithSecret returns the source with its secret.
func (e eventProvider) SourceWithSecret() feedback.Source {
	e.Auth.Secrets = [][]byte{[]byte(e.Secret.Reveal())}
	if e.Auth.Scheme == feedback.SchemeStandardWebhooks {
		e.Auth.Secrets = [][]byte{DecodeWebhookSecret(e.Secret)}
	}
	return e.Source
}

// BounceSource returns the source of bounce mails. It is the first provider with the scheme dsn. If
// there is no such provider, ok is false.
func (c Config) BounceSource() (source eventProvider, ok bool) {
	i := slices.IndexFunc(c.Providers, func(p eventProvider) bool { return p.Auth.Scheme == feedback.SchemeDSN })
	if i < 0 {
		return eventProvider{}, false
	}
	return c.Providers[i], true
}

// minProviderSecretLength is the least length of a provider's secret, in bytes.
const minProviderSecretLength = 16

// Check implements document.checker. It checks that the settings that the scheme needs are given,
// and that the secret is long enough.
func (e *eventProvider) Check(p *document.Mapping) {
	a := &e.Auth
	dsn := a.Scheme == feedback.SchemeDSN
	for _, missing := range []struct {
		it   string
		when bool
	}{
		{"secret_env", e.SecretEnv == "" && a.Scheme != feedback.SchemeSNS},
		{"topic", e.Auth.Topic == "" && a.Scheme == feedback.SchemeSNS},
		{"type", p.Given["type"] == nil && !dsn},
		{"message", p.Given["message"] == nil && !dsn},
		{"outcomes", p.Given["outcomes"] == nil && !dsn},
		{"header", (a.Scheme == feedback.SchemeHMAC || a.Scheme == feedback.SchemeSecretHeader) && a.Header == ""},
	} {
		if missing.when {
			p.AddMistake("", "%s is missing", missing.it)
		}
	}
	for key := range p.Given {
		if dsn && !slices.Contains([]string{"name", "scheme", "secret_env"}, key) {
			p.AddMistake(key, "has no meaning with the scheme dsn")
		}
	}
	if a.Scheme == feedback.SchemeStandardWebhooks && a.Header == "" {
		a.Header = "webhook-"
	}
	switch secret := e.Secret.Reveal(); {
	case secret == "":
	case a.Scheme == feedback.SchemeStandardWebhooks && len(DecodeWebhookSecret(e.Secret)) < minProviderSecretLength:
		p.AddMistake("", "the secret must be whsec_ and base64 of at least %d bytes", minProviderSecretLength)
	case len(secret) < minProviderSecretLength:
		p.AddMistake("", "the secret must have at least %d characters", minProviderSecretLength)
	}
}
