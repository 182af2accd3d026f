package config

import (
	"time"

	"sendcode/internal/config/document"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
)

// stop ends sends by hand. It has exactly one of Address, Domain and Prefix, and stops those
// recipients; or a channel, a purpose or both, and stops what is sent there.
type stop struct {
	// The sends of `email` or `sms`; beside `to` the recipient's channel.
	Channel recipient.Channel `yaml:"channel,omitempty" oneof:"email sms"`
	// The sends of a purpose, or with `channel` of a purpose there.
	Purpose string `yaml:"purpose,omitempty"`
	// An address or number.
	Address string `yaml:"to,omitempty"`
	// A mail domain and its subdomains.
	Domain string `yaml:"domain,omitempty" check:"domain"`
	// The beginning of phone numbers, with its plus.
	Prefix string `yaml:"prefix,omitempty" check:"prefix"`
	// Why. The console shows it at sends of a channel or purpose that is stopped.
	Reason string `yaml:"reason"`
	// The last day, or a time at which it ends; by default it ends with this entry.
	Until time.Time `yaml:"until,omitempty"`

	To recipient.Recipient `yaml:"-"`
}

// Check implements document.checker: it stops one recipient, domain or prefix, or a channel, a
// purpose, or both.
func (s *stop) Check(p *document.Mapping) {
	kinds := 0
	for _, value := range []string{s.Address, s.Domain, s.Prefix} {
		if value != "" {
			kinds++
		}
	}
	switch {
	case kinds > 1 || kinds == 0 && s.Channel == "" && s.Purpose == "":
		if p.Valid() {
			p.AddMistake("",
				"must have one of to (with its channel), domain and prefix, or a channel, a purpose, or both")
		}
	case kinds == 1 && s.Purpose != "":
		p.AddMistake("", "purpose stops everyone's sends of it: it stands without to, domain and prefix")
	case s.Address != "" && p.Given["channel"] == nil:
		p.AddMistake("", "channel is missing: email or sms")
	case s.Address != "" && !p.Faulty["channel"]:
		s.To = parseRecipient(p, string(s.Channel), s.Address)
	case kinds == 1 && s.Channel != "":
		p.AddMistake("", "channel stands alone, with a purpose, or with to")
	case s.Purpose != "":
		addReference(p, "purpose", "purpose", s.Purpose)
	default:
		s.Domain = parseMailDomain(s.Domain)
	}
}

// isOver reports whether the stop has ended.
func (s stop) isOver(now time.Time) bool { return !s.Until.IsZero() && !now.Before(s.Until) }

// stopsAt returns what is stopped at an instant.
func (c Config) stopsAt(now time.Time) (policy.Blocks, []policy.Pause) {
	blocks, pauses := policy.Blocks{Recipients: map[recipient.Hash]bool{}, Domains: map[string]bool{},
		Disposable: c.Disposable}, []policy.Pause(nil)
	for _, s := range c.Stops {
		switch {
		case s.isOver(now):
		case s.Domain != "":
			blocks.Domains[s.Domain] = true
		case s.Prefix != "":
			blocks.Prefixes = append(blocks.Prefixes, s.Prefix)
		case !s.To.IsZero():
			blocks.Recipients[s.To.Hash(c.IndexKeyBytes())] = true
		default:
			pauses = append(pauses, policy.Pause{Channel: s.Channel, Purpose: s.Purpose, Reason: s.Reason})
		}
	}
	return blocks, pauses
}

// NextEnd returns when the next of the stops ends that have not ended at an instant; zero: none of
// them does.
func (c Config) NextEnd(now time.Time) (next time.Time) {
	for _, s := range c.Stops {
		if !s.Until.IsZero() && !s.isOver(now) && (next.IsZero() || s.Until.Before(next)) {
			next = s.Until
		}
	}
	return next
}
