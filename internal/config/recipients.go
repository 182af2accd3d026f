package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/config/document"
	"sendcode/internal/recipient"
)

// TestRecipient has a fixed code, and nothing is sent to it: a reviewer of an app shop, a test in a browser.
type TestRecipient struct {
	// `email` or `sms`.
	Channel string `yaml:"channel" required:"yes"`
	// An address or number.
	Address string `yaml:"to" required:"yes"`
	// 6 to 10 digits or `unambiguous` letters.
	Code string `yaml:"code" required:"yes" check:"test_code"`
	// After it this is a recipient like any other.
	Expires time.Time `yaml:"expires" required:"yes"`

	To recipient.Recipient `yaml:"-"`
}

// Hidden implements document.Hider.
func (t *TestRecipient) Hidden() bool { return true }

// Check implements document.Checker.
func (t *TestRecipient) Check(p *document.Mapping) {
	if p.Given["channel"] != nil && p.Given["to"] != nil {
		t.To = parseRecipient(p, t.Channel, t.Address)
	}
}

// parseRecipient parses a recipient. If it can't, it adds a mistake, which does not repeat the address, and returns the zero value.
func parseRecipient(p *document.Mapping, channel, to string) (r recipient.Recipient) {
	ch, err := recipient.ParseChannel(channel)
	if err != nil {
		p.AddMistake("", "channel must be email or sms")
	} else if r, err = recipient.Parse(ch, to); err != nil {
		p.AddMistake("", "to is not a recipient of the channel %s", ch)
	}
	return r
}

// Block refuses recipients: exactly one of Address, Domain and Prefix is set.
type Block struct {
	// `email` or `sms`, with `to`.
	Channel string `yaml:"channel,omitempty"`
	// An address or number.
	Address string `yaml:"to,omitempty"`
	// A mail domain and its subdomains.
	Domain string `yaml:"domain,omitempty"`
	// The beginning of phone numbers, with its plus.
	Prefix string `yaml:"prefix,omitempty"`
	// Shown in the console.
	Reason string `yaml:"reason"`

	To recipient.Recipient `yaml:"-"`
}

// Hidden reports that a block of a single recipient, not of a domain or prefix, is left out when the configuration is printed, since no
// output shows a whole address.
func (b *Block) Hidden() bool { return b.Domain == "" && b.Prefix == "" }

// Check implements document.Checker.
func (b *Block) Check(p *document.Mapping) {
	kinds := 0
	for _, key := range []string{"to", "domain", "prefix"} {
		if p.Given[key] != nil {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		p.AddMistake("", "must have exactly one of to (with its channel), domain and prefix")
	case p.Given["to"] != nil:
		b.To = parseRecipient(p, b.Channel, b.Address)
	case b.Channel != "":
		p.AddMistake("", "`channel` is allowed only with `to`")
	case p.Given["domain"] != nil:
		b.Domain = parseDomain(p, b.Domain)
	case checkPrefix(b.Prefix) != "":
		p.AddMistake("", "prefix %s", checkPrefix(b.Prefix))
	}
}

// parseDomain returns a mail domain in lower-case A-labels; if it is none, "", and it adds a mistake.
func parseDomain(p *document.Mapping, text string) string {
	domain := parseMailDomain(text)
	if domain == "" {
		p.AddMistake("", "%s is not a domain", document.Printable(text))
	}
	return domain
}

// parseMailDomain returns the domain in lower-case A-labels; "" if no mail can go there.
func parseMailDomain(text string) string {
	r, err := recipient.Parse(recipient.Email, "x@"+text)
	if err != nil {
		return ""
	}
	return r.Domain()
}

// Fold is a domain at which several spellings are one mailbox.
type Fold struct {
	// The domain, exactly.
	Domain string `yaml:"domain" required:"yes"`
	// `ana+shop` is `ana`.
	PlusTags bool `yaml:"plus_tags"`
	// `a.na` is `ana`.
	Dots bool `yaml:"dots"`
}

// Check implements document.Checker.
func (f *Fold) Check(p *document.Mapping) {
	if f.Domain == "" || p.Node.Kind != yaml.MappingNode {
		return
	}
	if f.Domain = parseDomain(p, f.Domain); f.Domain != "" && p.Valid() && !f.PlusTags && !f.Dots {
		p.AddMistake("", "folds nothing; set plus_tags or dots to true")
	}
}

// Folding returns the rules by which several spellings of an address are hashed as one mailbox.
func (c Config) Folding() recipient.Folding {
	all := recipient.Folding{}
	for _, f := range c.Folds {
		all[f.Domain] = recipient.Fold{PlusTags: f.PlusTags, Dots: f.Dots}
	}
	return all
}

// Pause stops sends: of a channel, of a purpose, or of a purpose on a channel. At least one of both is set.
type Pause struct {
	// `email` or `sms`; by default both.
	Channel recipient.Channel `yaml:"channel,omitempty" oneof:"email sms"`
	// By default all.
	Purpose string `yaml:"purpose,omitempty"`
	// Shown in the console.
	Reason string `yaml:"reason"`
}

// Check implements document.Checker.
func (s *Pause) Check(p *document.Mapping) {
	if s.Purpose != "" {
		addReference(p, "purpose", "purpose", s.Purpose)
	}
	if s.Channel == "" && s.Purpose == "" {
		p.AddMistake("", "must have a channel, a purpose, or both")
	}
}

// Suppressions sets how long mail is kept from recipients without a mailbox or with a complaint.
type Suppressions struct {
	// `1h` to `8784h`; `0s`: only by hand.
	For time.Duration `yaml:"for" default:"720h" range:"1h 8784h" zero:"0s for none"`
}
