package config

import (
	"slices"

	"sendcode/internal/deliver/feedback"
	"sendcode/internal/run/config/document"
)

// eventProvider is a mail provider that reports the outcome of mails. The field Source does not
// include the secret. SourceWithSecret returns the Source with the secret.
type eventProvider struct {
	feedback.Source       `yaml:",inline"`
	document.SecretSource `yaml:",inline"`
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
