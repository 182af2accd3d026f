package config

import (
	"time"

	"sendcode/internal/config/document"
	"sendcode/internal/recipient"
)

// testRecipient has a fixed code, and nothing is sent to it: a reviewer of an app shop, a test in a
// browser.
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

// Check implements document.checker: the recipient is one of its channel.
func (t *testRecipient) Check(p *document.Mapping) {
	if !p.Faulty["channel"] && t.Channel != "" && t.Address != "" {
		t.To = parseRecipient(p, t.Channel, t.Address)
	}
}

// parseRecipient parses a recipient. If it can't, it adds a mistake, which does not repeat the
// address, and returns the zero value.
func parseRecipient(p *document.Mapping, channel, to string) recipient.Recipient {
	r, err := recipient.Parse(recipient.Channel(channel), to)
	if err != nil {
		p.AddMistake("", "to is not a recipient of the channel %s", channel)
	}
	return r
}

// parseMailDomain returns the domain in lower-case A-labels; "" if no mail can go there.
func parseMailDomain(text string) string {
	r, err := recipient.Parse(recipient.Email, "x@"+text)
	if err != nil {
		return ""
	}
	return r.Domain()
}
