package config

import (
	"regexp"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
)

// stop is an entry by which an administrator stops sends. It stops the sends to recipients, the
// sends on a channel, the sends for a purpose, or the sends for a purpose on a channel.
type stop struct {
	// An address, a number, a mail domain with its subdomains (`"*@spam.example"`), or all numbers
	// with the same beginning (`"+882*"`).
	To string `yaml:"to,omitempty"`
	// The sends of `email` or `sms`.
	Channel recipient.Channel `yaml:"channel,omitempty" oneof:"email sms"`
	// The sends of this purpose; with `channel`, only those on that channel.
	Purpose string `yaml:"purpose,omitempty"`
	// The reason for the stop. If the stop is for a channel or purpose, the console shows the
	// reason with each stopped send.
	Reason string `yaml:"reason"`
	// The last day of the stop, or the time at which it ends. By default the stop lasts until this
	// entry is removed.
	Until time.Time `yaml:"until,omitempty"`

	// Check parses To into one of these fields if To is given.
	Recipient recipient.Recipient `yaml:"-"`
	Domain    string              `yaml:"-"`
	Prefix    string              `yaml:"-"`
}

var numberPrefixPattern = regexp.MustCompile(`^\+[0-9]+$`)

// Check implements document.checker. An entry must stop either recipients, or a channel, a purpose
// or both. Check also parses To.
func (s *stop) Check(p *document.Mapping) {
	before, ofDomain := strings.CutPrefix(s.To, "*@")
	prefix, ofNumbers := strings.CutSuffix(s.To, "*")
	switch {
	case s.To == "" && s.Channel == "" && s.Purpose == "":
		if p.Valid() {
			p.AddMistake("", "names nothing to stop: give to, channel or purpose, or channel and purpose together")
		}
	case s.To == "" && s.Purpose != "":
		addReference(p, "purpose", "purpose", s.Purpose)
	case s.To == "":
	case s.Channel != "" || s.Purpose != "":
		p.AddMistake("", "the key to cannot be combined with channel or purpose, which stop the sends of everyone")
	case ofDomain:
		s.Domain = normalizeMailDomain(before)
		if s.Domain == "" {
			p.AddMistake("to", "%s is not a domain", document.Printable(before))
		}
		s.To = "*@" + s.Domain
	case ofNumbers:
		s.Prefix = prefix
		if !numberPrefixPattern.MatchString(prefix) {
			p.AddMistake("to", "must begin with + and digits, as phone numbers do")
		}
	default:
		s.Recipient = parseRecipient(p, s.To)
	}
}

func (s stop) isOver(now time.Time) bool { return !s.Until.IsZero() && !now.Before(s.Until) }

// stopsInForce returns the stops in force at the instant now: the stopped recipients, and the
// paused channels and purposes.
func (c Config) stopsInForce(now time.Time) (policy.BlockLists, []policy.Pause) {
	blocks := policy.BlockLists{Recipients: map[recipient.Hash]bool{}, Domains: map[string]bool{}, Disposable: c.Disposable}
	var pauses []policy.Pause
	for _, s := range c.Stops {
		switch {
		case s.isOver(now):
		case s.Domain != "":
			blocks.Domains[s.Domain] = true
		case s.Prefix != "":
			blocks.Prefixes = append(blocks.Prefixes, recipient.NormalizePhonePrefix(s.Prefix))
		case !s.Recipient.IsZero():
			blocks.Recipients[recipient.Folding{}.Hashes(s.Recipient, c.IndexKeyBytes()).Counted] = true
		default:
			pauses = append(pauses, policy.Pause{Channel: s.Channel, Purpose: s.Purpose, Reason: s.Reason})
		}
	}
	return blocks, pauses
}

// NextStopEnd returns the earliest time after now at which a stop ends. If no stop ends, it returns
// the zero time.
func (c Config) NextStopEnd(now time.Time) (next time.Time) {
	for _, s := range c.Stops {
		if !s.Until.IsZero() && !s.isOver(now) && (next.IsZero() || s.Until.Before(next)) {
			next = s.Until
		}
	}
	return next
}
