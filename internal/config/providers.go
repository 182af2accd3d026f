package config

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/events"
)

// Provider is a mail provider that tells what became of mails. Its Source holds no secret; Complete adds it.
type Provider struct {
	events.Source
	Secret     Secret
	SecretEnv  string // the variable that Secret was read from; or
	SecretFile string
}

// Complete is the source with its secret.
func (p Provider) Complete() events.Source {
	s := p.Source
	s.Auth.Secrets = [][]byte{[]byte(p.Secret.Reveal())}
	if s.Auth.Scheme == events.StandardWebhooks {
		s.Auth.Secrets = [][]byte{standardKey(p.Secret.Reveal())}
	}
	return s
}

// standardKey decodes a key as Standard Webhooks writes it; nil where it is none.
func standardKey(text string) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil {
		return nil
	}
	return key
}

// minProviderSecret is the least length of what a provider is known by, in bytes.
const minProviderSecret = 16

// headerPattern is a field name (RFC 9110 section 5.1) of the usual letters.
var headerPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// mailHeader is what may be added to mails: nothing that means something already.
var mailHeader = regexp.MustCompile(`^X-[A-Za-z0-9-]{1,62}$`)

func (s *sections) providerEvents(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		p := Provider{Source: events.Source{Auth: events.Auth{Header: ""}}}
		encoding := "hex"
		shape := &p.Shape
		kept := secretPlace{&p.Secret, &p.SecretEnv, &p.SecretFile}
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"name":        func(v *yaml.Node, path string) { s.providerName(&p, v, path) },
			"scheme":      func(v *yaml.Node, path string) { s.scheme(&p.Auth, v, path) },
			"secret_env":  func(v *yaml.Node, path string) { s.secretEnv(kept, v, path) },
			"secret_file": func(v *yaml.Node, path string) { s.secretFile(kept, v, path) },
			"header": func(v *yaml.Node, path string) {
				s.matching(&p.Auth.Header, headerPattern, "is no name of a header", v, path)
			},
			"prefix":         func(v *yaml.Node, path string) { p.Auth.Prefix, _ = s.text(v, path) },
			"encoding":       func(v *yaml.Node, path string) { encoding, _ = s.text(v, path) },
			"user":           func(v *yaml.Node, path string) { p.Auth.User, _ = s.text(v, path) },
			"signed":         s.paths(&p.Auth.Fields),
			"signature":      s.path(&p.Auth.Signature),
			"signed_time":    s.path(&p.Auth.Time),
			"message_header": func(v *yaml.Node, path string) { s.matching(&p.Header, mailHeader, "must begin with X-", v, path) },
			"list":           s.path(&shape.List),
			"type":           s.paths(&shape.Type),
			"outcomes":       func(v *yaml.Node, path string) { s.outcomes(shape, v, path) },
			"message":        s.paths(&shape.Message),
			"recipient":      s.paths(&shape.To),
			"time":           s.paths(&shape.Time),
			"detail":         s.paths(&shape.Detail),
		})
		if v.Kind == yaml.MappingNode {
			s.checkProvider(&p, encoding, v, path)
		}
		s.config.Providers = append(s.config.Providers, p)
	})
}

func (s *sections) providerName(p *Provider, n *yaml.Node, path string) {
	name, ok := s.text(n, path)
	if !ok || !s.checkName(n, path, name) {
		return
	}
	if slices.ContainsFunc(s.config.Providers, func(other Provider) bool { return other.Name == name }) {
		s.mistake(n, path, "%s is there twice", plain(name))
	}
	p.Name = name
}

func (s *sections) scheme(a *events.Auth, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if a.Scheme = events.Scheme(text); ok && !slices.Contains(events.Schemes, a.Scheme) {
		s.mistake(n, path, "must be standard_webhooks, hmac, hmac_fields, header or basic")
	}
}

func (s *sections) matching(into *string, pattern *regexp.Regexp, why string, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if *into = text; ok && !pattern.MatchString(text) {
		s.mistake(n, path, "%s", why)
	}
}

func (s *sections) path(into *events.Path) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		text, ok := s.text(n, path)
		if !ok {
			return
		}
		var err error
		if *into, err = events.ParsePath(text); err != nil {
			s.mistake(n, path, "%s", err)
		}
	}
}

// paths takes one path or a list of them.
func (s *sections) paths(into *[]events.Path) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		one := func(v *yaml.Node, path string) {
			var p events.Path
			s.path(&p)(v, path)
			*into = append(*into, p)
		}
		if n.Kind == yaml.ScalarNode {
			one(n, path)
			return
		}
		s.items(n, path, one)
	}
}

func (s *sections) outcomes(shape *events.Shape, n *yaml.Node, path string) {
	shape.Outcomes = map[string]events.Outcome{}
	s.entries(n, path, func(key string, v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		if ok && !slices.Contains(events.Outcomes, events.Outcome(text)) {
			s.mistake(v, path, "must be delivered, bounced, bounced_for_good, complained, opted_out or ignored")
		}
		shape.Outcomes[key] = events.Outcome(text)
	})
}

// checkProvider looks at what must go together.
func (s *sections) checkProvider(p *Provider, encoding string, n *yaml.Node, path string) {
	a := &p.Auth
	if a.Base64 = encoding == "base64"; encoding != "base64" && encoding != "hex" {
		s.mistake(n, path, "encoding must be hex or base64")
	}
	for _, missing := range []struct {
		it   string
		when bool
	}{
		{"name", p.Name == ""}, {"scheme", a.Scheme == ""}, {"type", len(p.Shape.Type) == 0}, {"outcomes", len(p.Shape.Outcomes) == 0},
		{"message", len(p.Shape.Message) == 0}, {"secret_env or secret_file", p.SecretEnv == "" && p.SecretFile == ""},
		{"header", (a.Scheme == events.HMAC || a.Scheme == events.Header) && a.Header == ""}, {"user", a.Scheme == events.Basic && a.User == ""},
		{"signed", a.Scheme == events.HMACFields && len(a.Fields) == 0}, {"signature", a.Scheme == events.HMACFields && len(a.Signature) == 0},
	} {
		if missing.when {
			s.mistake(n, path, "%s is missing", missing.it)
		}
	}
	if a.Scheme == events.HMACFields && !slices.ContainsFunc(a.Fields, func(f events.Path) bool { return slices.Equal(f, a.Time) }) {
		s.mistake(n, path, "signed_time must be one of signed, or what is signed could be used again for ever")
	}
	if a.Scheme == events.StandardWebhooks && a.Header == "" {
		a.Header = "webhook-"
	}
	switch secret := p.Secret.Reveal(); {
	case secret == "":
	case a.Scheme == events.StandardWebhooks && len(standardKey(secret)) < minProviderSecret:
		s.mistake(n, path, "the secret must be whsec_ and base64 of at least %d bytes", minProviderSecret)
	case len(secret) < minProviderSecret:
		s.mistake(n, path, "the secret must have at least %d characters", minProviderSecret)
	}
}

// providersNode names where secrets come from, and never holds one.
func (c Config) providersNode() *yaml.Node {
	all := sequence()
	for _, p := range c.Providers {
		n, a := mapping("name", text(p.Name), "scheme", text(string(p.Auth.Scheme))), p.Auth
		optional := func(key, value string) {
			if value != "" {
				put(n, key, text(value))
			}
		}
		list := func(key string, paths []events.Path) {
			if len(paths) > 0 {
				put(n, key, flow(texts(names(paths))))
			}
		}
		optional("secret_env", p.SecretEnv)
		optional("secret_file", p.SecretFile)
		optional("header", a.Header)
		optional("prefix", a.Prefix)
		if a.Base64 {
			put(n, "encoding", text("base64"))
		}
		optional("user", a.User)
		list("signed", a.Fields)
		optional("signature", a.Signature.String())
		optional("signed_time", a.Time.String())
		optional("message_header", p.Header)
		optional("list", p.Shape.List.String())
		list("type", p.Shape.Type)
		outcomes := map[string]string{}
		for kind, o := range p.Shape.Outcomes {
			outcomes[kind] = string(o)
		}
		put(n, "outcomes", flow(pairs(outcomes)))
		list("message", p.Shape.Message)
		list("recipient", p.Shape.To)
		list("time", p.Shape.Time)
		list("detail", p.Shape.Detail)
		all.Content = append(all.Content, n)
	}
	if len(c.Providers) == 0 {
		all = flow(all)
	}
	return all
}

func names(paths []events.Path) (all []string) {
	for _, p := range paths {
		all = append(all, p.String())
	}
	return all
}
