package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/quota"
)

// defaultChecks stop a machine, and neither an office behind one address nor a busy app.
func defaultChecks() Checks {
	return Checks{Network: Bound{100, time.Hour}, WideNetwork: Bound{300, time.Hour}, App: Bound{10_000, time.Hour}}
}

// checks reads the bounds of failed checks. What is left out stays as it is by default.
func (s *sections) checks(n *yaml.Node, path string) {
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"network":      func(v *yaml.Node, path string) { s.bound(&s.config.Checks.Network, v, path) },
		"wide_network": func(v *yaml.Node, path string) { s.bound(&s.config.Checks.WideNetwork, v, path) },
		"app":          func(v *yaml.Node, path string) { s.bound(&s.config.Checks.App, v, path) },
	})
}

// breaker may be {}: none.
func (s *sections) breaker(n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode || len(n.Content) > 0 {
		s.bound(&s.config.Breaker, n, path)
	}
}

// defaultSpellings is twice what the default policy lets one address have.
func defaultSpellings() Bound { return Bound{20, 24 * time.Hour} }

// spellings may be {}: none.
func (s *sections) spellings(n *yaml.Node, path string) {
	s.config.Spellings = Bound{}
	if n.Kind != yaml.MappingNode || len(n.Content) > 0 {
		s.bound(&s.config.Spellings, n, path)
	}
}

func (s *sections) bound(b *Bound, n *yaml.Node, path string) {
	given := map[string]bool{}
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"limit": func(v *yaml.Node, path string) {
			given["limit"] = true
			if i, ok := s.integer(v, path); ok && (i < 1 || i > quota.MaxLimit) {
				s.mistake(v, path, "must be from 1 to %d", quota.MaxLimit)
			} else {
				b.Limit = i
			}
		},
		"window": func(v *yaml.Node, path string) {
			given["window"] = true
			if d, ok := s.duration(v, path); ok && (d < quota.MinWindow || d > quota.MaxWindow) {
				s.mistake(v, path, "must be from 1s to 744h")
			} else {
				b.Window = d
			}
		},
	})
	for _, field := range []string{"limit", "window"} {
		if n.Kind == yaml.MappingNode && !given[field] {
			s.mistake(n, path, "%s is missing", field)
		}
	}
}

func boundNode(b Bound) *yaml.Node {
	if b == (Bound{}) {
		return flow(mapping())
	}
	return flow(mapping("limit", number(b.Limit), "window", text(short(b.Window))))
}
