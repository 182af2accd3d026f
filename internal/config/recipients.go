package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/recipient"
)

// TestRecipient has a fixed code, and nothing is sent to it: a reviewer of an app shop, a test in a browser.
type TestRecipient struct {
	// `email` or `sms`.
	Channel string `yaml:"channel" required:"yes"`
	// Its address or number.
	Address string `yaml:"to" required:"yes"`
	// 6 to 10 digits, or letters as `unambiguous` has them, whatever the purpose's codes are made of.
	Code string `yaml:"code" required:"yes" check:"test_code"`
	// After it this is a recipient like any other.
	Expires time.Time `yaml:"expires" required:"yes"`

	To recipient.Recipient `yaml:"-"`
}

func (t *TestRecipient) hidden() bool { return true }

func (t *TestRecipient) check(p *place) {
	if p.given["channel"] != nil && p.given["to"] != nil {
		t.To = p.recipient(t.Channel, t.Address)
	}
}

// recipient never repeats the address.
func (p *place) recipient(channel, to string) (r recipient.Recipient) {
	ch, err := recipient.ParseChannel(channel)
	if err != nil {
		p.complain("", "channel must be email or sms")
	} else if r, err = recipient.Parse(ch, to); err != nil {
		p.complain("", "to is not a recipient of the channel %s", ch)
	}
	return r
}

// Block refuses recipients: exactly one of Address, Domain and Prefix is set.
type Block struct {
	// `email` or `sms`, with `to` alone.
	Channel string `yaml:"channel,omitempty"`
	// An address or number, in whatever case it is typed.
	Address string `yaml:"to,omitempty"`
	// A domain of mail addresses, and its subdomains.
	Domain string `yaml:"domain,omitempty"`
	// What phone numbers begin with, with its plus.
	Prefix string `yaml:"prefix,omitempty"`
	// For yourself; browsers are not told.
	Reason string `yaml:"reason"`

	To recipient.Recipient `yaml:"-"`
}

// hidden leaves addresses out: no output shows a whole one.
func (b *Block) hidden() bool { return b.Domain == "" && b.Prefix == "" }

func (b *Block) check(p *place) {
	kinds := 0
	for _, key := range []string{"to", "domain", "prefix"} {
		if p.given[key] != nil {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		p.complain("", "must have exactly one of to (with its channel), domain and prefix")
	case p.given["to"] != nil:
		b.To = p.recipient(b.Channel, b.Address)
	case b.Channel != "":
		p.complain("", "channel goes with to only")
	case p.given["domain"] != nil:
		b.Domain = p.domain(b.Domain)
	case checkPrefix(b.Prefix) != "":
		p.complain("", "prefix %s", checkPrefix(b.Prefix))
	}
}

// domain is one as addresses have it: lower-case A-labels.
func (p *place) domain(text string) string {
	domain := mailDomain(text)
	if domain == "" {
		p.complain("", "%s is not a domain", plain(text))
	}
	return domain
}

// mailDomain is empty where the text is no domain that mail can go to.
func mailDomain(text string) string {
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
	// `ana+shop` is the mailbox `ana`.
	PlusTags bool `yaml:"plus_tags"`
	// `a.na` is the mailbox `ana`.
	Dots bool `yaml:"dots"`
}

func (f *Fold) check(p *place) {
	if f.Domain == "" || p.node.Kind != yaml.MappingNode {
		return
	}
	if f.Domain = p.domain(f.Domain); f.Domain != "" && p.clean() && !f.PlusTags && !f.Dots {
		p.complain("", "folds nothing; set plus_tags or dots to true")
	}
}

// Folding is how addresses of Folds are hashed.
func (c Config) Folding() recipient.Folding {
	var all recipient.Folding
	for _, f := range c.Folds {
		if all == nil {
			all = recipient.Folding{}
		}
		all[f.Domain] = recipient.Fold{PlusTags: f.PlusTags, Dots: f.Dots}
	}
	return all
}

// Pause stops sends: of a channel, of a purpose, or of a purpose on a channel. At least one of both is set.
type Pause struct {
	// `email` or `sms`; without it every channel.
	Channel recipient.Channel `yaml:"channel,omitempty" oneof:"email sms"`
	// One of `purposes`; without it all of them.
	Purpose string `yaml:"purpose,omitempty"`
	// For administrators, in the console.
	Reason string `yaml:"reason"`
}

func (s *Pause) check(p *place) {
	if s.Purpose != "" {
		p.refer("purpose", "purpose", s.Purpose)
	}
	if s.Channel == "" && s.Purpose == "" {
		p.complain("", "must have a channel, a purpose, or both")
	}
}

// Suppressions is for how long mail is kept from recipients without a mailbox or with a complaint.
type Suppressions struct {
	// From `1h` to `8784h`; `0s`: nobody is suppressed but by hand.
	For time.Duration `yaml:"for" default:"720h" range:"1h 8784h" zero:"0s for none"`
}
