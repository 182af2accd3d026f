package config

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds of a code's life: nobody reads a mail in less, and NIST 800-63B ends it at 10 minutes (SEC-3).
const (
	minTTL = 30 * time.Second
	maxTTL = 10 * time.Minute
)

// Bounds of a code's length; six digits are the least of NIST 800-63B (SEC-2).
const (
	minCodeLength = 6
	maxCodeLength = 10
)

// The alphabets of codes, as package verification has them.
const (
	digits      = "digits"
	unambiguous = "unambiguous"
)

var characters = map[string]string{digits: "0123456789", unambiguous: "BCDFGHJKLMNPQRSTVWXZ"}

// Characters are those of an alphabet; "" when there is none of that name.
func Characters(alphabet string) string { return characters[alphabet] }

func newPurpose(name string) Purpose {
	return Purpose{
		Name: name, Policy: defaultName, TTL: maxTTL,
		Code: Code{Length: minCodeLength, Alphabet: digits}, Notify: Private,
	}
}

// purposes reads what codes are for. A purpose without any field has the defaults.
func (s *sections) purposes(n *yaml.Node, path string) {
	s.config.Purposes = map[string]Purpose{}
	s.entries(n, path, func(name string, v *yaml.Node, path string) {
		if !s.checkName(v, path, name) {
			return
		}
		p := newPurpose(name)
		at := s.where(v, path)
		if !isNull(v) {
			s.purpose(&p, &at, v, path)
		}
		s.config.Purposes[name] = p
		s.references = append(s.references, reference{"policy", p.Policy, at})
	})
}

func (s *sections) purpose(p *Purpose, policyAt *string, n *yaml.Node, path string) {
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"policy": func(v *yaml.Node, path string) {
			if text, ok := s.text(v, path); ok {
				p.Policy, *policyAt = text, s.where(v, path)
			}
		},
		"ttl":    func(v *yaml.Node, path string) { s.ttl(p, v, path) },
		"code":   func(v *yaml.Node, path string) { s.code(p, v, path) },
		"notify": func(v *yaml.Node, path string) { s.notify(p, v, path) },
	})
}

func (s *sections) ttl(p *Purpose, n *yaml.Node, path string) {
	d, ok := s.duration(n, path)
	if !ok {
		return
	}
	if p.TTL = d; d < minTTL || d > maxTTL {
		s.mistake(n, path, "must be from 30s to 10m: a code may not live longer than ten minutes")
	}
}

func (s *sections) code(p *Purpose, n *yaml.Node, path string) {
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"length": func(v *yaml.Node, path string) {
			length, ok := s.integer(v, path)
			if p.Code.Length = length; ok && (length < minCodeLength || length > maxCodeLength) {
				s.mistake(v, path, "must be from %d to %d", minCodeLength, maxCodeLength)
			}
		},
		"alphabet": func(v *yaml.Node, path string) {
			text, ok := s.text(v, path)
			if p.Code.Alphabet = text; ok && characters[text] == "" {
				s.mistake(v, path, "must be digits or unambiguous")
			}
		},
	})
}

func (s *sections) notify(p *Purpose, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if p.Notify = Notify(text); ok && p.Notify != Private && p.Notify != Glance {
		s.mistake(n, path, "must be private or glance")
	}
}

// completePurposes adds the default, and refuses purposes whose policy leaves recipients without a limit.
func (s *sections) completePurposes() {
	if s.config.Purposes == nil {
		s.config.Purposes = map[string]Purpose{}
	}
	if _, given := s.config.Purposes[defaultName]; !given {
		s.config.Purposes[defaultName] = newPurpose(defaultName)
		s.references = append(s.references, reference{"policy", defaultName, "purposes.default"})
	}
	var unlimited []string
	for _, r := range s.references {
		policy, found := s.config.Policies[r.name]
		if r.kind == "policy" && found && !limitsRecipients(policy) && !slices.Contains(unlimited, r.name) {
			unlimited = append(unlimited, r.name)
			s.errs.add(r.where, "the policy %s has no rule with scope recipient that is enforced; every purpose needs one", r.name)
		}
	}
}
