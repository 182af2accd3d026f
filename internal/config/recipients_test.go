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
  - {channel: email, to: Reviewer@Example.com, code: "424242", expires: 2027-01-31}
  - {channel: sms, to: "+4915123456789", code: BCDFGHJK, expires: "2027-01-31T08:00:00+02:00"}
stop: [{channel: email, to: abuser@example.com, reason: chargebacks}]
`)
	a, b := c.TestRecipients[0], c.TestRecipients[1]
	is(t, "recipients", []string{a.To.Address(), a.Code, b.To.Address(), b.Code, c.Stops[0].To.Address()},
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
		many += "  - {channel: email, to: a" + strings.Repeat("a", i) +
			"@b.example, code: '123456', expires: 2027-01-31}\n"
	}
	one := func(to string) string { return "test_recipients: [{" + to + ", code: '123456', expires: 2027-01-31}]" }
	refused(t, map[string]string{
		"test_recipients: [{channel: email, to: a@b.example, code: '123456'}]": "expires is missing",
		one(
			"channel: fax, to: a@b.example"): "test_recipients[0].channel: must be email or sms",
		one(
			"channel: email, to: hidden"): "to is not a recipient of the channel email",
		many: "c.yaml:2: test_recipients: there may be 20 at most",
		"test_recipients: [{channel: email, to: a@b.example, code: '123456', expires: 2027-01-31}, " +
			"{channel: email, to: a@B.example, code: '654321', expires: 2027-01-31}]": "is there twice",
		"folding: {a b: dots}":            "is not a domain",
		"folding: {a.example: []}":        "folding.a.example: is empty; leave it out",
		"folding: {a.example: tags}":      "must be plus_tags or dots",
		"folding: {b.a: dots, B.a: dots}": "c.yaml:1: folding: b.a is there twice",
		one("channel: email, to: re.viewer@gmail.com") +
			"\nfolding: {gmail.com: [dots]}": "to is folded into another address",
		"stop: [{domain: a.example, prefix: +1}]":       "must have one of to",
		"stop: [{to: a@b.example}]":                     "channel is missing: email or sms",
		"stop: [{to: ''}]":                              "must have one of to",
		"stop: [{domain: 'a b'}]":                       "is not a domain",
		"stop: [{domain: a.example, channel: email}]":   "channel stands alone, with a purpose, or with to",
		"disposable_domains: /none":                     "/none cannot be read: file does not exist",
		"disposable_domains: /bad":                      "/bad:3: not_a_domain is not a domain",
		"stop: [{reason: x}]":                           "c.yaml:1: stop[0]: must have one of to",
		"stop: [{domain: a.example, purpose: default}]": "purpose stops everyone's sends of it",
		"stop: [{channel: fax}]":                        "c.yaml:1: stop[0].channel: must be email or sms",
		"stop: [{purpose: gifts}]":                      "c.yaml:1: stop[0].purpose: there is no purpose gifts",
	})
}

func TestDisposableDomains(t *testing.T) {
	is(t, "domains", must(t, "disposable_domains: /list").Disposable,
		map[string]bool{"mailinator.com": true, "xn--bcher-kva.example": true})
}
