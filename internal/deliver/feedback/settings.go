package feedback

import (
	"slices"

	"sendcode/internal/base/document"
	"sendcode/internal/deliver/sns"
	"sendcode/internal/deliver/standardwebhooks"
)

// Provider is a mail provider that reports the outcome of mails. Source lacks the secret; see
// SourceWithSecret.
type Provider struct {
	Source                `yaml:",inline"`
	document.SecretSource `yaml:",inline"`
}

func (p Provider) SourceWithSecret() Source {
	secret := p.Secret.Reveal()
	p.Auth.Secrets = [][]byte{[]byte(secret)}
	if p.Auth.Scheme == SchemeStandardWebhooks {
		p.Auth.Secrets = [][]byte{standardwebhooks.DecodeSecret(secret)}
	}
	return p.Source
}

// BounceSource returns the first provider with the scheme dsn, or false.
func BounceSource(all []Provider) (source Provider, ok bool) {
	i := slices.IndexFunc(all, func(p Provider) bool { return p.Auth.Scheme == SchemeDSN })
	if i < 0 {
		return Provider{}, false
	}
	return all[i], true
}

const minSecretLength = 16 // bytes

// Check checks that the scheme's settings are given, and that the secret is long enough.
func (p *Provider) Check(at *document.Mapping) {
	a := &p.Auth
	dsn := a.Scheme == SchemeDSN
	if a.Topic != "" && !sns.IsTopic(a.Topic) {
		at.AddMistake("topic", "must be the ARN of a standard topic, such as arn:aws:sns:eu-west-1:123456789012:ses-events")
	}
	for _, missing := range []struct {
		key  string
		when bool
	}{
		{"secret_env", p.SecretEnv == "" && a.Scheme != SchemeSNS},
		{"topic", p.Auth.Topic == "" && a.Scheme == SchemeSNS},
		{"type", at.Given["type"] == nil && !dsn},
		{"message", at.Given["message"] == nil && !dsn},
		{"outcomes", at.Given["outcomes"] == nil && !dsn},
		{"header", (a.Scheme == SchemeHMAC || a.Scheme == SchemeSecretHeader) && a.Header == ""},
	} {
		if missing.when {
			at.AddMistake("", "%s is missing", missing.key)
		}
	}
	for key := range at.Given {
		if dsn && !slices.Contains([]string{"name", "scheme", "secret_env"}, key) {
			at.AddMistake(key, "cannot be used with the scheme dsn")
		}
	}
	if a.Scheme == SchemeStandardWebhooks && a.Header == "" {
		a.Header = "webhook-"
	}
	switch secret := p.Secret.Reveal(); {
	case secret == "":
	case a.Scheme == SchemeStandardWebhooks && len(standardwebhooks.DecodeSecret(secret)) < minSecretLength:
		at.AddMistake("", "the secret must be whsec_ and base64 of at least %d bytes", minSecretLength)
	case len(secret) < minSecretLength:
		at.AddMistake("", "the secret must have at least %d characters", minSecretLength)
	}
}
