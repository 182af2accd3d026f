package config

import (
	"crypto/sha256"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Admin is what the file says about the console.
type Admin struct {
	OIDC         OIDC
	SecondFactor string // FactorOptional or FactorRequired, of who logs in with a password
	TokenRole    string // of who brings Config.AdminToken: reader, operator or owner
	Tokens       []AdminToken
}

// AdminToken is a bearer token of the admin API that the file lists; only its hash is kept.
type AdminToken struct {
	ID      string // unique
	SHA256  [sha256.Size]byte
	Role    string    // reader, operator or owner
	Expires time.Time // from then on it is refused; zero: never
}

// The values of Admin.SecondFactor.
const (
	FactorOptional = "optional"
	FactorRequired = "required"
)

// OIDC is the provider of OpenID Connect that people may log in to the console by; its secret is Config.OIDCSecret.
type OIDC struct {
	Title       string // what people call it
	Issuer      string // empty: there is none
	ClientID    string
	RedirectURL string // where it sends browsers back to
	Scopes      []string
	Claim       string            // names a person
	RoleClaim   string            // its values may give roles
	Roles       map[string]string // role by value
}

// IsSet reports whether there is a provider.
func (o OIDC) IsSet() bool { return o.Issuer != "" }

// redirectPath is where the console hears what the provider says.
const redirectPath = "/admin/oidc/callback"

// claims that are asked for by these scopes unless the file names others (OpenID Connect Core 1.0, section 5.4).
var scopesOf = map[string]string{"email": "email", "preferred_username": "profile"}

var adminRoles = []string{"reader", "operator", "owner"}

func defaultAdmin() Admin { return Admin{SecondFactor: FactorOptional, TokenRole: adminRoles[0]} }

// admin reads {second_factor: …, token_role: …, tokens: …, oidc: …}.
func (s *sections) admin(n *yaml.Node, path string) {
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"oidc":   s.oidc,
		"tokens": s.adminTokens,
		"second_factor": func(v *yaml.Node, path string) {
			text, ok := s.text(v, path)
			if ok && text != FactorOptional && text != FactorRequired {
				s.mistake(v, path, "is optional or required")
			}
			s.config.Admin.SecondFactor = text
		},
		"token_role": func(v *yaml.Node, path string) { s.adminRole(&s.config.Admin.TokenRole, v, path) },
	})
}

func (s *sections) adminRole(into *string, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if ok && checkAdminRole(text) != "" {
		s.mistake(n, path, "%s", checkAdminRole(text))
	}
	*into = text
}

func (s *sections) oidc(n *yaml.Node, path string) {
	o := &s.config.Admin.OIDC
	o.Claim = "email"
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"title":  s.word(&o.Title),
		"issuer": func(v *yaml.Node, path string) { s.secureURL(&o.Issuer, v, path) },
		"redirect_url": func(v *yaml.Node, path string) {
			if s.secureURL(&o.RedirectURL, v, path); o.RedirectURL != "" && !endsInCallback(o.RedirectURL) {
				s.mistake(v, path, "must end in %s, as in https://console.example%[1]s", redirectPath)
			}
		},
		"client_id": s.word(&o.ClientID),
		"scopes": func(v *yaml.Node, path string) {
			s.items(v, path, func(v *yaml.Node, path string) {
				if text, ok := s.text(v, path); ok {
					o.Scopes = append(o.Scopes, strings.Fields(text)...)
				}
			})
		},
		"claim": s.word(&o.Claim),
		"roles": func(v *yaml.Node, path string) { s.oidcRoles(o, v, path) },
	})
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return
	}
	for _, name := range []string{"issuer", "client_id", "redirect_url"} {
		if !s.said(n, name) {
			s.mistake(n, path, "%s is missing", name)
		}
	}
	o.complete()
}

// said: whether a mapping has a key, so that what is wrong with its value is not also called missing.
func (s *sections) said(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && !isNull(n.Content[i+1]) {
			return true
		}
	}
	return false
}

func (o *OIDC) complete() {
	if u, err := url.Parse(o.Issuer); o.Title == "" && err == nil {
		o.Title = u.Host
	}
	if o.Scopes == nil {
		o.Scopes = []string{"openid"}
		if scope := scopesOf[o.Claim]; scope != "" {
			o.Scopes = append(o.Scopes, scope)
		}
	}
	if !slices.Contains(o.Scopes, "openid") {
		o.Scopes = append([]string{"openid"}, o.Scopes...)
	}
}

// word takes a text that is not empty.
func (s *sections) word(into *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		switch text, ok := s.text(n, path); {
		case ok && text == "":
			s.mistake(n, path, "is empty; leave it out")
		case ok:
			*into = text
		}
	}
}

// secureURL takes an address that nobody between can read or change: https, or http on this machine.
func (s *sections) secureURL(into *string, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok {
		return
	}
	p, problem := checkURL(text)
	u, err := url.Parse(text)
	switch {
	case problem != "":
		s.mistake(n, path, "%s", problem)
	case err != nil || u.Hostname() == "" || p.userinfo != "" || p.query != "":
		s.mistake(n, path, "must be a URL such as https://id.example, with neither a user nor a query")
	case p.scheme != "https" && !(p.scheme == "http" && isLoopbackHost(u.Hostname())):
		s.mistake(n, path, "must be https: whoever sits on the way could log in")
	default:
		*into = text
	}
}

func endsInCallback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Path == redirectPath
}

// oidcRoles reads {claim: groups, values: {on-call: operator}}.
func (s *sections) oidcRoles(o *OIDC, n *yaml.Node, path string) {
	o.Roles = map[string]string{}
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"claim": s.word(&o.RoleClaim),
		"values": func(v *yaml.Node, path string) {
			s.entries(v, path, func(value string, v *yaml.Node, path string) {
				role, ok := s.text(v, path)
				switch {
				case ok && value == "":
					s.mistake(v, path, "a value that is empty gives no role")
				case ok && !slices.Contains(adminRoles, role):
					s.mistake(v, path, "a role is reader, operator or owner")
				case ok:
					o.Roles[value] = role
				}
			})
		},
	})
	if o.RoleClaim == "" && !s.said(n, "claim") {
		s.mistake(n, path, "claim is missing")
	}
}

func (c Config) adminNode() *yaml.Node {
	admin := mapping("second_factor", text(c.Admin.SecondFactor), "token_role", text(c.Admin.TokenRole))
	if len(c.Admin.Tokens) > 0 {
		put(admin, "tokens", c.adminTokensNode())
	}
	if o := c.Admin.OIDC; o.IsSet() {
		scopes := flow(sequence())
		for _, scope := range o.Scopes {
			scopes.Content = append(scopes.Content, text(scope))
		}
		oidc := mapping("title", text(o.Title), "issuer", text(o.Issuer), "client_id", text(o.ClientID), "redirect_url", text(o.RedirectURL),
			"scopes", scopes, "claim", text(o.Claim))
		if o.RoleClaim != "" {
			values := mapping()
			for _, value := range sortedKeys(o.Roles) {
				put(values, value, text(o.Roles[value]))
			}
			put(oidc, "roles", flow(mapping("claim", text(o.RoleClaim), "values", values)))
		}
		put(admin, "oidc", oidc)
	}
	return admin
}
