package config

import (
	"errors"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/recipient"
)

// testRecipient is a recipient with a fixed code, to which the service sends no message. Reviewers
// of app stores use test recipients, and so do tests in browsers.
type testRecipient struct {
	// An address or a number.
	Address string `yaml:"to" required:"yes"`
	// 6 to 10 digits, or as many `unambiguous` letters.
	Code string `yaml:"code" required:"yes" check:"test_code"`
	// The last day of the test recipient, or a time. After that, sends to it are real.
	Expires time.Time `yaml:"expires" required:"yes"`

	To recipient.Recipient `yaml:"-"`
}

// Check implements document.checker: the recipient is an address or a number.
func (t *testRecipient) Check(p *document.Mapping) {
	if t.Address != "" {
		t.To = parseRecipient(p, t.Address)
	}
}

// parseRecipient parses an address or a number. If the text is neither, it adds a mistake, which
// does not repeat the text, and returns the zero value.
func parseRecipient(p *document.Mapping, to string) recipient.Recipient {
	channel := recipient.SMS
	if strings.Contains(to, "@") {
		channel = recipient.Email
	}
	r, err := recipient.Parse(channel, to)
	switch bad, _ := errors.AsType[*recipient.InvalidError](err); {
	case err == nil:
	case channel == recipient.SMS && bad != nil && bad.Reason == "invalid_number":
		p.AddMistake("to", "is a phone number that no country assigns, so tests can't use it either")
	default:
		p.AddMistake("to", "must be a mail address, or a phone number with its plus, such as +4915123456789")
	}
	return r
}

// normalizeMailDomain returns the domain in lower-case A-labels. If the domain cannot be part of a
// mail address, it returns "".
func normalizeMailDomain(text string) string {
	r, err := recipient.Parse(recipient.Email, "x@"+text)
	if err != nil {
		return ""
	}
	return r.Domain()
}
