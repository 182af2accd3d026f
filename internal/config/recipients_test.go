package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/recipient"
)

func TestTestRecipientsAndBlocks(t *testing.T) {
	c := must(t, `
test_recipients:
  - {channel: email, to: Reviewer@Example.com, code: "424242", expires: 2027-01-31}
  - {channel: sms, to: "+4915123456789", code: BCDFGHJK, expires: "2027-01-31T08:00:00+02:00"}
block:
  - {channel: email, to: abuser@example.com, reason: chargebacks}
  - {domain: Bücher.example}
  - {prefix: "+882"}
`)
	a, b := c.TestRecipients[0], c.TestRecipients[1]
	if a.To.Address() != "Reviewer@example.com" || a.Code != "424242" || !a.Expires.Equal(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", a)
	}
	if b.Code != "BCDFGHJK" || !b.Expires.Equal(time.Date(2027, 1, 31, 6, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", b)
	}
	if c.Blocks[0].To.Address() != "abuser@example.com" || c.Blocks[0].Reason != "chargebacks" || c.Blocks[1].Domain != "xn--bcher-kva.example" || c.Blocks[2].Prefix != "+882" {
		t.Errorf("%+v", c.Blocks)
	}
	shown := c.YAML()
	for _, hidden := range []string{"eviewer", "abuser@", "424242", "491512"} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%q is shown: %s", hidden, shown)
		}
	}
	if !strings.Contains(shown, "domain: xn--bcher-kva.example") || !strings.Contains(shown, "2 more, not shown") {
		t.Errorf("%s", shown)
	}
}

func TestMistakesOfRecipients(t *testing.T) {
	many := "test_recipients:\n"
	for i := range 21 {
		many += "  - {channel: email, to: a" + strings.Repeat("a", i) + "@b.example, code: '123456', expires: 2027-01-31}\n"
	}
	one := func(fields string) string { return "test_recipients: [{" + fields + "}]" }
	refused(t, map[string]string{
		one("channel: email, to: a@b.example, code: '123456'"):                    "expires is missing",
		one("channel: fax, to: a@b.example, code: '123456', expires: 2027-01-31"): "channel must be email or sms",
		one("channel: email, to: hidden, code: '123456', expires: 2027-01-31"):    "to is not a recipient of the channel email",
		many: "c.yaml:22: test_recipients[20]: there may be 20 test recipients at most",
		"test_recipients: [{channel: email, to: a@b.example, code: '123456', expires: 2027-01-31}, {channel: email, to: a@B.example, code: '654321', expires: 2027-01-31}]": "is there twice",
		"folding: [{plus_tags: true}]":                                    "c.yaml:1: folding[0]: domain is missing",
		"folding: [{domain: a.example}]":                                  "folds nothing",
		"folding: [{domain: b.a, dots: true}, {domain: B.a, dots: true}]": "b.a is there twice",
		one("channel: email, to: re.viewer@gmail.com, code: '123456', expires: 2027-01-31") + "\nfolding: [{domain: gmail.com, dots: true}]":       "c.yaml:1: test_recipients[0]: to is folded into another address",
		"folding: [{domain: gmail.com, plus_tags: true}]\n" + one("channel: email, to: reviewer+a@gmail.com, code: '123456', expires: 2027-01-31"): "c.yaml:2: test_recipients[0]: to is folded into another address",
		"block: [{domain: a.example, prefix: +1}]":     "must have exactly one of",
		"block: [{to: a@b.example}]":                   "channel must be email or sms",
		"block: [{domain: 'a b'}]":                     "is not a domain",
		"block: [{domain: a.example, channel: email}]": "channel goes with to only",
		"disposable_domains: /none":                    "/none cannot be read: file does not exist",
		"disposable_domains: /bad":                     "/bad:3: not_a_domain is not a domain",
		"paused: [{reason: x}]":                        "c.yaml:1: paused[0]: must have a channel, a purpose, or both",
		"paused: [{channel: pigeon}]":                  "c.yaml:1: paused[0].channel: must be email or sms",
		"paused: [{purpose: gifts}]":                   "c.yaml:1: paused[0].purpose: there is no purpose gifts",
	})
}

func TestDisposableDomains(t *testing.T) {
	if c := must(t, "disposable_domains: /list"); len(c.Disposable) != 2 || !c.Disposable["mailinator.com"] || !c.Disposable["xn--bcher-kva.example"] {
		t.Errorf("%v", c.Disposable)
	}
}

func TestPausesAndSuppressions(t *testing.T) {
	c := must(t, "paused:\n  - {channel: sms, reason: pumping}\n  - {channel: email, purpose: default}\nsuppressions: {for: 48h}")
	want := []Pause{{Channel: recipient.SMS, Reason: "pumping"}, {Channel: recipient.Email, Purpose: "default"}}
	if !slices.Equal(c.Pauses, want) || c.Suppressions.For != 48*time.Hour {
		t.Errorf("%+v, %v", c.Pauses, c.Suppressions)
	}
	readBack(t, c)
}
