package config

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"sendcode/internal/config/document"
	"sendcode/internal/reports"
)

// SecretSource names the variable that holds a secret, or, with _FILE behind its name, the path of
// a file that does.
type SecretSource struct {
	// The variable `NAME` that holds the secret, not `SENDCODE_…`; or `NAME_FILE` holds the path of
	// a file with it.
	SecretEnv string `yaml:"secret_env,omitempty"`
	Secret    Secret `yaml:"-"`
}

var envPattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// Check implements document.checker. It also reads the secret from its source.
func (s *SecretSource) Check(p *document.Mapping) {
	environ := sourceOf(p).environ
	value, path := environ[s.SecretEnv], environ[s.SecretEnv+"_FILE"]
	switch {
	case p.Given["secret_env"] != nil && !envPattern.MatchString(s.SecretEnv):
		p.AddMistake("secret_env", "must be the name of a variable, such as TWILIO_TOKEN, and not the secret itself")
	case strings.HasPrefix(s.SecretEnv, prefix):
		p.AddMistake("secret_env", "variables that begin with %s have a meaning of their own; take another name",
			prefix)
	case s.SecretEnv == "":
	case value != "" && path != "":
		p.AddMistake("secret_env", "%s is given twice, also as %[1]s_FILE; keep one", s.SecretEnv)
	case path != "":
		content, err := sourceOf(p).readFile(path)
		if err != nil {
			p.AddMistake("secret_env", "%s, which %s_FILE names, cannot be read: %s", document.Printable(path),
				s.SecretEnv, reasonWithoutPath(err))
			return
		}
		s.setSecret(p, strings.TrimRight(string(content), "\r\n"), "the file "+document.Printable(path))
	default:
		s.setSecret(p, value, "the variable "+s.SecretEnv)
	}
}

func (s *SecretSource) setSecret(p *document.Mapping, value, from string) {
	const key = "secret_env"
	switch {
	case strings.TrimSpace(value) == "":
		p.AddMistake(key, "%s is empty", from)
	case len(value) > document.MaxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, document.IsControl):
		p.AddMistake(key, "%s holds no secret: it is too long, or has control characters", from)
	default:
		s.Secret = newSecret(value)
	}
}

// eventProvider is a mail provider that reports what became of mails. Its Source holds no secret;
// SourceWithSecret adds it.
type eventProvider struct {
	reports.Source `yaml:",inline"`
	SecretSource   `yaml:",inline"`
}

// SourceWithSecret returns the source with its secret.
func (p eventProvider) SourceWithSecret() reports.Source {
	p.Auth.Secrets = [][]byte{[]byte(p.Secret.Reveal())}
	if p.Auth.Scheme == reports.StandardWebhooks {
		p.Auth.Secrets = [][]byte{DecodeWebhookSecret(p.Secret)}
	}
	return p.Source
}

// minProviderSecret is the least length of a provider's secret, in bytes.
const minProviderSecret = 16

// Check implements document.checker: what its scheme needs is given, and the secret is long enough.
func (v *eventProvider) Check(p *document.Mapping) {
	a := &v.Auth
	for _, missing := range []struct {
		it   string
		when bool
	}{
		{"secret_env", v.SecretEnv == "" && a.Scheme != reports.SNS},
		{"topic", v.Auth.Topic == "" && a.Scheme == reports.SNS},
		{"header", (a.Scheme == reports.HMAC || a.Scheme == reports.Header) && a.Header == ""},
	} {
		if missing.when {
			p.AddMistake("", "%s is missing", missing.it)
		}
	}
	if a.Scheme == reports.StandardWebhooks && a.Header == "" {
		a.Header = "webhook-"
	}
	switch secret := v.Secret.Reveal(); {
	case secret == "":
	case a.Scheme == reports.StandardWebhooks && len(DecodeWebhookSecret(v.Secret)) < minProviderSecret:
		p.AddMistake("", "the secret must be whsec_ and base64 of at least %d bytes", minProviderSecret)
	case len(secret) < minProviderSecret:
		p.AddMistake("", "the secret must have at least %d characters", minProviderSecret)
	}
}
