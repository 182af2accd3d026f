package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/recipient"
)

// Pause stops sends: of a channel, of a purpose, or of a purpose on a channel. At least one of both is set.
type Pause struct {
	Channel recipient.Channel // empty: of every channel
	Purpose string            // empty: of every purpose
	Reason  string            // for administrators; never told to who asks
}

// Suppressions is for how long mail is kept from who has no mailbox or complained.
type Suppressions struct {
	For time.Duration // 0: not at all
}

// The bounds of a suppression, and what it is unless told.
const (
	minSuppression     = time.Hour
	maxSuppression     = 366 * 24 * time.Hour
	defaultSuppression = 30 * 24 * time.Hour
)

func (s *sections) suppressions(n *yaml.Node, path string) {
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"for": func(v *yaml.Node, path string) {
			d, ok := s.duration(v, path)
			if ok && d != 0 && (d < minSuppression || d > maxSuppression) {
				s.mistake(v, path, "must be from 1h to 8784h, or 0s for none")
			}
			s.config.Suppressions.For = d
		},
	})
}

// paused reads what sends nothing for now.
func (s *sections) paused(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var p Pause
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"channel": func(v *yaml.Node, path string) {
				text, ok := s.text(v, path)
				var err error
				if p.Channel, err = recipient.ParseChannel(text); ok && err != nil {
					s.mistake(v, path, "must be email or sms")
				}
			},
			"purpose": func(v *yaml.Node, path string) {
				if text, ok := s.text(v, path); ok {
					p.Purpose = text
					s.references = append(s.references, reference{"purpose", text, s.where(v, path)})
				}
			},
			"reason": func(v *yaml.Node, path string) { p.Reason, _ = s.text(v, path) },
		})
		if v.Kind == yaml.MappingNode && p.Channel == "" && p.Purpose == "" {
			s.mistake(v, path, "must have a channel, a purpose, or both")
		}
		s.config.Pauses = append(s.config.Pauses, p)
	})
}

func (c Config) pausedNode() *yaml.Node {
	all := flow(sequence())
	for _, p := range c.Pauses {
		one := mapping()
		if p.Channel != "" {
			put(one, "channel", text(string(p.Channel)))
		}
		if p.Purpose != "" {
			put(one, "purpose", text(p.Purpose))
		}
		put(one, "reason", text(p.Reason))
		all.Content = append(all.Content, one)
	}
	return all
}
