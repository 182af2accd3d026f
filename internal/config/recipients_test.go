package config

import (
	"strings"
	"testing"
	"time"
)

// Neither a recipient nor its code is printed.
func TestTestRecipientsAndBlocks(t *testing.T) {
	c := must(t, `
test_recipients:
  - {to: Reviewer@Example.com, code: "424242", expires: 2027-01-31}
  - {to: "+4915123456789", code: BCDFGHJK, expires: "2027-01-31T08:00:00+02:00"}
stop: [{to: abuser@example.com, reason: chargebacks}]
`)
	a, b := c.TestRecipients[0], c.TestRecipients[1]
	is(t, "recipients", []string{a.To.Address(), a.Code, b.To.Address(), b.Code, c.Stops[0].Recipient.Address()},
		[]string{"Reviewer@example.com", "424242", "+4915123456789", "BCDFGHJK", "abuser@example.com"})
	is(t, "the end of a day", a.Expires, time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC))
	is(t, "a time", b.Expires, time.Date(2027, 1, 31, 6, 0, 0, 0, time.UTC))
	shown := c.YAML()
	for _, hidden := range []string{"eviewer", "abuser@", "424242", "491512", "BCDFGHJK"} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%q is shown: %s", hidden, shown)
		}
	}
	is(t, "counted", strings.Count(shown, "1 more, not shown")+2*strings.Count(shown, "2 more, not shown"), 3)
}

func TestMistakesOfRecipients(t *testing.T) {
	many := "test_recipients:\n"
	for i := range 21 {
		many += "  - {to: a" + strings.Repeat("a", i) +
			"@b.example, code: '123456', expires: 2027-01-31}\n"
	}
	one := func(to string) string { return "test_recipients: [{" + to + ", code: '123456', expires: 2027-01-31}]" }
	refused(t, map[string]string{
		"test_recipients: [{to: a@b.example, code: '123456'}]": "expires is missing",
		one("to: hid den@"): "test_recipients[0].to: is neither an address nor a number",
		one("to: '12345'"):  "test_recipients[0].to: is neither an address nor a number",
		many:                "c.yaml:2: test_recipients: there may be 20 at most",
		"test_recipients: [{to: a@b.example, code: '123456', expires: 2027-01-31}, " +
			"{to: a@B.example, code: '654321', expires: 2027-01-31}]": "is there twice",
		"folding: {a b: dots}":            "is not a domain",
		"folding: {a.example: []}":        "folding.a.example: is empty; leave it out",
		"folding: {a.example: tags}":      "must be plus_tags or dots",
		"folding: {b.a: dots, B.a: dots}": "c.yaml:1: folding: b.a is there twice",
		one("to: re.viewer@gmail.com") +
			"\nfolding: {gmail.com: [dots]}": "to is folded into another address",
		"stop: [{to: hidden}]":                        "stop[0].to: is neither an address nor a number",
		"stop: [{to: ''}]":                            "must have to, or a channel",
		"stop: [{to: '*@a b'}]":                       "stop[0].to: a b is not a domain",
		"stop: [{to: '49*'}]":                         "stop[0].to: must begin with + and digits",
		"stop: [{to: '*@a.example', channel: email}]": "to stands alone",
		"disposable_domains: /none":                   "/none cannot be read: file does not exist",
		"disposable_domains: /bad":                    "/bad:3: not_a_domain is not a domain",
		"stop: [{reason: x}]":                         "c.yaml:1: stop[0]: must have to, or a channel",
		"stop: [{to: '+1*', purpose: default}]":       "to stands alone",
		"stop: [{channel: fax}]":                      "c.yaml:1: stop[0].channel: must be email or sms",
		"stop: [{purpose: gifts}]":                    "c.yaml:1: stop[0].purpose: there is no purpose gifts",
	})
}

func TestDisposableDomains(t *testing.T) {
	is(t, "domains", must(t, "disposable_domains: /list").Disposable,
		map[string]bool{"mailinator.com": true, "xn--bcher-kva.example": true})
}
