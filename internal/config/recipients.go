package config

import (
	"time"

	"sendcode/internal/config/document"
	"sendcode/internal/recipient"
)

// testRecipient has a fixed code, and nothing is sent to it: a reviewer of an app shop, a test in a browser.
type testRecipient struct {
	// `email` or `sms`.
	Channel string `yaml:"channel" required:"yes" oneof:"email sms"`
	// An address or number.
	Address string `yaml:"to" required:"yes"`
	// 6 to 10 digits or `unambiguous` letters.
	Code string `yaml:"code" required:"yes" check:"test_code"`
	// After it this is a recipient like any other.
	Expires time.Time `yaml:"expires" required:"yes"`

	To recipient.Recipient `yaml:"-"`
}

// Check implements document.checker.
func (t *testRecipient) Check(p *document.Mapping) {
	if !p.Faulty["channel"] && t.Channel != "" && t.Address != "" {
		t.To = parseRecipient(p, t.Channel, t.Address)
	}
}

// parseRecipient parses a recipient. If it can't, it adds a mistake, which does not repeat the address, and returns the zero value.
func parseRecipient(p *document.Mapping, channel, to string) recipient.Recipient {
	r, err := recipient.Parse(recipient.Channel(channel), to)
	if err != nil {
		p.AddMistake("", "to is not a recipient of the channel %s", channel)
	}
	return r
}

// blockRule refuses recipients: exactly one of Address, Domain and Prefix is set.
type blockRule struct {
	// `email` or `sms`, with `to`.
	Channel string `yaml:"channel,omitempty" oneof:"email sms"`
	// An address or number.
	Address string `yaml:"to,omitempty"`
	// A mail domain and its subdomains.
	Domain string `yaml:"domain,omitempty" check:"domain"`
	// The beginning of phone numbers, with its plus.
	Prefix string `yaml:"prefix,omitempty" check:"prefix"`
	// Shown in the console.
	Reason string `yaml:"reason"`

	To recipient.Recipient `yaml:"-"`
}

// Check implements document.checker.
func (b *blockRule) Check(p *document.Mapping) {
	kinds := 0
	for _, value := range []string{b.Address, b.Domain, b.Prefix} {
		if value != "" {
			kinds++
		}
	}
	switch {
	case kinds != 1 && p.Valid():
		p.AddMistake("", "must have exactly one of to (with its channel), domain and prefix")
	case b.Address != "" && p.Given["channel"] == nil:
		p.AddMistake("", "channel is missing: email or sms")
	case b.Address != "" && !p.Faulty["channel"]:
		b.To = parseRecipient(p, b.Channel, b.Address)
	case b.Channel != "":
		p.AddMistake("", "`channel` is allowed only with `to`")
	default:
		b.Domain = parseMailDomain(b.Domain)
	}
}

// parseMailDomain returns the domain in lower-case A-labels; "" if no mail can go there.
func parseMailDomain(text string) string {
	r, err := recipient.Parse(recipient.Email, "x@"+text)
	if err != nil {
		return ""
	}
	return r.Domain()
}

// pause stops sends: of a channel, of a purpose, or of a purpose on a channel. At least one of both is set.
type pause struct {
	// `email` or `sms`; by default both.
	Channel recipient.Channel `yaml:"channel,omitempty" oneof:"email sms"`
	// By default all.
	Purpose string `yaml:"purpose,omitempty"`
	// Shown in the console.
	Reason string `yaml:"reason"`
}

// Check implements document.checker.
func (s *pause) Check(p *document.Mapping) {
	if s.Purpose != "" {
		addReference(p, "purpose", "purpose", s.Purpose)
	}
	if s.Channel == "" && s.Purpose == "" {
		p.AddMistake("", "must have a channel, a purpose, or both")
	}
}
