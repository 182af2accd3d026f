package config

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"sendcode/internal/events"
)

// SecretSource says where a secret stands: never in the file.
type SecretSource struct {
	// The variable that holds the secret; its name does not begin with `SENDCODE_`.
	SecretEnv string `yaml:"secret_env,omitempty"`
	// Or the file that holds it.
	SecretFile string `yaml:"secret_file,omitempty"`
	Secret     Secret `yaml:"-"`
}

func (s *SecretSource) check(p *place) {
	switch {
	case s.SecretEnv != "" && s.SecretFile != "":
		p.complain("secret_file", "stands beside secret_env; keep one")
	case p.given["secret_env"] != nil && !envPattern.MatchString(s.SecretEnv):
		p.complain("secret_env", "must be the name of a variable, such as TWILIO_TOKEN, and not the secret itself")
	case strings.HasPrefix(s.SecretEnv, prefix):
		p.complain("secret_env", "variables that begin with %s have a meaning of their own; take another name", prefix)
	case s.SecretEnv != "":
		s.keep(p, "secret_env", p.getenv(s.SecretEnv), "the variable "+s.SecretEnv)
	case s.SecretFile != "":
		content, err := p.readFile(s.SecretFile)
		if err != nil {
			p.complain("secret_file", "%s cannot be read: %s", plain(s.SecretFile), cause(err))
			return
		}
		s.keep(p, "secret_file", strings.TrimRight(string(content), "\r\n"), "the file "+plain(s.SecretFile))
	}
}

func (s *SecretSource) keep(p *place, key, value, from string) {
	switch {
	case strings.TrimSpace(value) == "":
		p.complain(key, "%s is empty", from)
	case len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, isControl):
		p.complain(key, "%s holds no secret: it is too long, or has control characters", from)
	default:
		s.Secret = NewSecret(value)
	}
}

// Provider is a mail provider that tells what became of mails.
type Provider struct {
	// Stands in the address and in metrics.
	Name string `yaml:"name" required:"yes" check:"name"`
	// How a request is known: `standard_webhooks` ([its signature](https://www.standardwebhooks.com) over ID, time and body),
	// `hmac` (HMAC-SHA256 of the body, in a header), `hmac_fields` (of members of the body; each signature counts once), `header`
	// (the secret itself in a header), `basic` (the secret as a password). The last two show nothing about the body: use them over
	// TLS alone.
	Scheme events.Scheme `yaml:"scheme" required:"yes" oneof:"standard_webhooks hmac hmac_fields header basic"`
	// At least 16 characters. To change it, add an entry of another name and then take this one out.
	SecretSource `yaml:",inline"`
	// `hmac` and `header`: the header. With `standard_webhooks`, what its headers begin with: `webhook-` unless told, `svix-` at
	// some.
	Header string `yaml:"header,omitempty" check:"header"`
	// `hmac` and `header`: what stands there before it, such as `sha256=`.
	Prefix string `yaml:"prefix,omitempty"`
	// `hmac` and `hmac_fields`: `hex` or `base64`.
	Encoding string `yaml:"encoding,omitempty"`
	// `basic`: the user.
	User string `yaml:"user,omitempty"`
	// `hmac_fields`: what is signed, one after the other.
	Signed []events.Path `yaml:"signed,omitempty" single:"yes" style:"flow"`
	// `hmac_fields`: where the signature stands.
	Signature events.Path `yaml:"signature,omitempty"`
	// `hmac_fields`: which of `signed` is the time.
	SignedTime events.Path `yaml:"signed_time,omitempty"`
	// A header `X-…` that each mail carries with its send's ID, for providers that replace Message-ID.
	MessageHeader string `yaml:"message_header,omitempty" check:"mail_header"`
	// Where the events stand, a list or one; without it the body.
	List events.Path `yaml:"list,omitempty"`
	// The paths to an event's type are joined by points, those that lead nowhere are left out.
	Type []events.Path `yaml:"type,omitempty" required:"yes" single:"yes" style:"flow"`
	// What a type means: `delivered`, `bounced`, `bounced_for_good`, `complained`, `opted_out`, `ignored`; `Bounce` means every
	// type that begins with it and is not named.
	Outcomes map[string]events.Outcome `yaml:"outcomes" required:"yes" style:"flow" check:"outcome"`
	// Where our Message-ID stands, or what `message_header` said.
	Message []events.Path `yaml:"message,omitempty" required:"yes" single:"yes" style:"flow"`
	// Whom it was sent to, which is compared. Of several paths the first counts.
	Recipient []events.Path `yaml:"recipient,omitempty" single:"yes" style:"flow"`
	// When, as RFC 3339 or in seconds.
	Time []events.Path `yaml:"time,omitempty" single:"yes" style:"flow"`
	// Codes or a word.
	Detail []events.Path `yaml:"detail,omitempty" single:"yes" style:"flow"`
}

// Complete is the source with its secret.
func (p Provider) Complete() events.Source {
	secret := []byte(p.Secret.Reveal())
	if p.Scheme == events.StandardWebhooks {
		secret = standardKey(p.Secret.Reveal())
	}
	return events.Source{
		Name: p.Name, Header: p.MessageHeader,
		Auth: events.Auth{
			Scheme: p.Scheme, Secrets: [][]byte{secret}, Header: p.Header, Prefix: p.Prefix, Base64: p.Encoding == "base64", User: p.User,
			Fields: p.Signed, Signature: p.Signature, Time: p.SignedTime,
		},
		Shape: events.Shape{
			List: p.List, Type: p.Type, Outcomes: p.Outcomes, Message: p.Message, To: p.Recipient, Time: p.Time, Detail: p.Detail,
		},
	}
}

// standardKey decodes a key as Standard Webhooks writes it; nil where it is none.
func standardKey(text string) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, webhookPrefix))
	if err != nil {
		return nil
	}
	return key
}

// minProviderSecret is the least length of what a provider is known by, in bytes.
const minProviderSecret = 16

// check looks at what must go together.
func (v *Provider) check(p *place) {
	if v.Encoding != "" && v.Encoding != "base64" && v.Encoding != "hex" {
		p.complain("", "encoding must be hex or base64")
	}
	if v.Encoding == "hex" {
		v.Encoding = ""
	}
	for _, missing := range []struct {
		it   string
		when bool
	}{
		{"secret_env or secret_file", v.SecretEnv == "" && v.SecretFile == ""},
		{"header", (v.Scheme == events.HMAC || v.Scheme == events.Header) && v.Header == ""}, {"user", v.Scheme == events.Basic && v.User == ""},
		{"signed", v.Scheme == events.HMACFields && len(v.Signed) == 0}, {"signature", v.Scheme == events.HMACFields && len(v.Signature) == 0},
	} {
		if missing.when {
			p.complain("", "%s is missing", missing.it)
		}
	}
	signed := func(f events.Path) bool { return reflect.DeepEqual(f, v.SignedTime) }
	if v.Scheme == events.HMACFields && !slices.ContainsFunc(v.Signed, signed) {
		p.complain("", "signed_time must be one of signed, or what is signed could be used again for ever")
	}
	if v.Scheme == events.StandardWebhooks && v.Header == "" {
		v.Header = "webhook-"
	}
	switch secret := v.Secret.Reveal(); {
	case secret == "":
	case v.Scheme == events.StandardWebhooks && len(standardKey(secret)) < minProviderSecret:
		p.complain("", "the secret must be whsec_ and base64 of at least %d bytes", minProviderSecret)
	case len(secret) < minProviderSecret:
		p.complain("", "the secret must have at least %d characters", minProviderSecret)
	}
}
