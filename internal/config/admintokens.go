package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

func checkAdminRole(value string) string {
	if !slices.Contains(adminRoles, value) {
		return "a role is reader, operator or owner"
	}
	return ""
}

// adminTokens reads [{id: …, sha256: …, role: …, expires: …}]. A value is never repeated: it may be the token itself.
func (s *sections) adminTokens(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		t := AdminToken{Role: adminRoles[0]}
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"id":     func(v *yaml.Node, path string) { s.adminTokenID(&t, v, path) },
			"sha256": func(v *yaml.Node, path string) { s.adminTokenHash(&t, v, path) },
			"role":   func(v *yaml.Node, path string) { s.adminRole(&t.Role, v, path) },
			"expires": func(v *yaml.Node, path string) {
				if at, ok := s.instant(v, path); ok {
					t.Expires = at
				}
			},
		})
		for _, field := range []string{"id", "sha256"} {
			if v.Kind == yaml.MappingNode && !s.said(v, field) {
				s.mistake(v, path, "%s is missing", field)
			}
		}
		s.config.Admin.Tokens = append(s.config.Admin.Tokens, t)
	})
}

func (s *sections) adminTokenID(t *AdminToken, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok || !s.checkName(n, path, text) {
		return
	}
	t.ID = text
	if slices.ContainsFunc(s.config.Admin.Tokens, func(other AdminToken) bool { return other.ID == text }) {
		s.mistake(n, path, "another token has the same id")
	}
}

func (s *sections) adminTokenHash(t *AdminToken, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok {
		return
	}
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		s.mistake(n, path, "must be the 64 hexadecimal digits of the token's SHA-256, not the token")
		return
	}
	t.SHA256 = [sha256.Size]byte(sum)
	switch {
	case t.SHA256 == [sha256.Size]byte{} || t.SHA256 == sha256.Sum256(nil):
		s.mistake(n, path, "is not the hash of a token")
	case slices.ContainsFunc(s.config.Admin.Tokens, func(other AdminToken) bool { return other.SHA256 == t.SHA256 }):
		s.mistake(n, path, "another token has the same hash")
	}
}

func (c Config) adminTokensNode() *yaml.Node {
	all := sequence()
	for _, t := range c.Admin.Tokens {
		token := mapping("id", text(t.ID), "sha256", text(hex.EncodeToString(t.SHA256[:])), "role", text(t.Role))
		if !t.Expires.IsZero() {
			put(token, "expires", text(t.Expires.Format(time.RFC3339)))
		}
		all.Content = append(all.Content, flow(token))
	}
	return all
}

func (c *Config) warnOfAdminTokens(now time.Time, add func(when bool, format string, args ...any)) {
	for _, t := range c.Admin.Tokens {
		add(!t.Expires.IsZero() && !now.Before(t.Expires), "The admin token %s has expired.", t.ID)
		add(now.Before(t.Expires) && t.Expires.Sub(now) < soon, "The admin token %s expires at %s.", t.ID, t.Expires.Format(time.RFC3339))
	}
}
