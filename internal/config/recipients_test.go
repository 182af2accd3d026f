package config

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/recipient"
)

func TestTestRecipientsAndBlocks(t *testing.T) {
	c, err := loadYAML(`
test_recipients:
  - {channel: email, to: Reviewer@Example.com, code: "424242", expires: 2027-01-31}
  - {channel: sms, to: "+4915123456789", code: BCDFGHJK, expires: "2027-01-31T08:00:00+02:00"}
block:
  - {channel: email, to: abuser@example.com, reason: chargebacks}
  - {domain: Bücher.example}
  - {prefix: "+882"}
`)
	if err != nil {
		t.Fatal(err)
	}
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
	for file, want := range map[string]string{
		one("channel: email, to: a@b.example, code: '123456'"):                           "expires is missing",
		one("to: a@b.example, code: '123456', expires: 2027-01-31"):                      "channel is missing",
		one("channel: email, to: a@b.example, expires: 2027-01-31"):                      "code is missing",
		one("channel: fax, to: a@b.example, code: '123456', expires: 2027-01-31"):        "channel must be email or sms",
		one("channel: email, to: hidden, code: '123456', expires: 2027-01-31"):           "to is not a recipient of the channel email",
		one("channel: email, to: a@b.example, code: '12345', expires: 2027-01-31"):       "must be 6 to 10 digits, in quotes",
		one("channel: email, to: a@b.example, code: '12345678901', expires: 2027-01-31"): "must be 6 to 10 digits, in quotes",
		one("channel: email, to: a@b.example, code: '12345x', expires: 2027-01-31"):      "must be 6 to 10 digits, in quotes",
		one("channel: email, to: a@b.example, code: '12345B', expires: 2027-01-31"):      "or as many of the letters BCDFGHJKLMNPQRSTVWXZ",
		one("channel: email, to: a@b.example, code: BCDFGA, expires: 2027-01-31"):        "or as many of the letters BCDFGHJKLMNPQRSTVWXZ",
		one("channel: email, to: a@b.example, code: '123456', expires: never"):           "is not a day such as",
		many: "c.yaml:22: test_recipients[20]: there may be 20 test recipients at most",
		"test_recipients: [{channel: email, to: a@b.example, code: '123456', expires: 2027-01-31}, {channel: email, to: a@B.example, code: '654321', expires: 2027-01-31}]": "is there twice",
		"folding: [{plus_tags: true}]":                                    "c.yaml:1: folding[0]: domain is missing",
		"folding: [{domain: a.example}]":                                  "folds nothing",
		"folding: [{domain: a.example, dots: yes}]":                       "folding[0].dots: must be true or false",
		"folding: [{domain: 'a b', dots: true}]":                          "is not a domain",
		"folding: [{domain: a.example, dot: true}]":                       "did you mean dots?",
		"folding: [{domain: b.a, dots: true}, {domain: B.a, dots: true}]": "b.a is there twice",
		"folding: {domain: a.example}":                                    "must be a list",
		"folding: [a.example]":                                            "must be key: value pairs",
		one("channel: email, to: re.viewer@gmail.com, code: '123456', expires: 2027-01-31") + "\nfolding: [{domain: gmail.com, dots: true}]":       "c.yaml:1: test_recipients[0]: to is folded into another address",
		"folding: [{domain: gmail.com, plus_tags: true}]\n" + one("channel: email, to: reviewer+a@gmail.com, code: '123456', expires: 2027-01-31"): "c.yaml:2: test_recipients[0]: to is folded into another address",
		"block: [{reason: x}]":                         "must have exactly one of to (with its channel), domain and prefix",
		"block: [{domain: a.example, prefix: +1}]":     "must have exactly one of",
		"block: [{to: a@b.example}]":                   "channel must be email or sms",
		"block: [{domain: 'a b'}]":                     "is not a domain",
		"block: [{domain: a.example, channel: email}]": "channel goes with to only",
		"block: [{prefix: '49'}]":                      "prefix must be + and digits",
		"block: [{prefix: +}]":                         "prefix must be + and digits",
		"disposable_domains: /none":                    "/none cannot be read: file does not exist",
		"disposable_domains: /bad":                     "/bad:3: not_a_domain is not a domain",
	} {
		_, err := Load([]string{"SENDCODE_CONFIG=c.yaml"}, func(name string) ([]byte, error) {
			switch name {
			case "c.yaml":
				return []byte(file), nil
			case "/bad":
				return []byte("# a comment\ngood.example\nnot_a_domain\n"), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s\n%v\nwant %s", file, err, want)
		}
	}
}

func TestDisposableDomains(t *testing.T) {
	c, err := Load([]string{"SENDCODE_CONFIG=c.yaml"}, func(name string) ([]byte, error) {
		if name == "c.yaml" {
			return []byte("disposable_domains: /list"), nil
		}
		return []byte("# a list\n\nMailinator.COM  # the first of them\r\nbücher.example\n"), nil
	})
	if err != nil || len(c.Disposable) != 2 || !c.Disposable["mailinator.com"] || !c.Disposable["xn--bcher-kva.example"] {
		t.Errorf("%v, %v", c.Disposable, err)
	}
}

func TestPausesAndSuppressions(t *testing.T) {
	c, err := loadYAML("paused:\n  - {channel: sms, reason: pumping}\n  - {channel: email, purpose: default}\nsuppressions: {for: 48h}")
	if err != nil {
		t.Fatal(err)
	}
	want := []Pause{{Channel: recipient.SMS, Reason: "pumping"}, {Channel: recipient.Email, Purpose: "default"}}
	if !slices.Equal(c.Pauses, want) || c.Suppressions.For != 48*time.Hour {
		t.Errorf("%+v, %v", c.Pauses, c.Suppressions)
	}
	again, err := loadYAML(c.YAML())
	if err != nil || again.YAML() != c.YAML() {
		t.Errorf("printed and read: %v", err)
	}
	byDefault, _ := loadYAML("addr: 127.0.0.1:80")
	if byDefault.Suppressions.For != 720*time.Hour || byDefault.Pauses != nil {
		t.Errorf("%+v", byDefault.Suppressions)
	}
	if off, err := loadYAML("suppressions: {for: 0s}"); err != nil || off.Suppressions.For != 0 {
		t.Errorf("%v, %v", off.Suppressions, err)
	}
	if got := byDefault.Differs(c); !slices.Equal(got, []string{"paused", "suppressions"}) {
		t.Errorf("differs: %v", got)
	}
	if got := byDefault.Renewed(c); !slices.Equal(got.Pauses, want) || got.Suppressions != c.Suppressions {
		t.Errorf("renewed: %+v", got.Pauses)
	}
	for yaml, want := range map[string]string{
		"paused: [{reason: x}]":       "c.yaml:1: paused[0]: must have a channel, a purpose, or both",
		"paused: [{channel: pigeon}]": "c.yaml:1: paused[0].channel: must be email or sms",
		"paused: [{purpose: gifts}]":  "c.yaml:1: paused[0].purpose: there is no purpose gifts",
		"paused: {channel: email}":    "c.yaml:1: paused: must be a list",
		"suppressions: {for: 30m}":    "c.yaml:1: suppressions.for: must be from 1h to 8784h, or 0s for none",
		"suppressions: {for: 8785h}":  "c.yaml:1: suppressions.for: must be from 1h to 8784h, or 0s for none",
		"suppressions: {for: 30d}":    "c.yaml:1: suppressions.for: days and weeks are written in hours: 24h, 168h",
		"suppressions: {until: 1h}":   "c.yaml:1: suppressions.until: there is no such key",
	} {
		_, err := loadYAML(yaml)
		if got := mistakes(err); !slices.Contains(got, want) {
			t.Errorf("%s: %q", yaml, got)
		}
	}
}

func TestRetention(t *testing.T) {
	byDefault, err := loadYAML("")
	if err != nil || byDefault.Retention != 2160*time.Hour {
		t.Errorf("%v, %v", byDefault.Retention, err)
	}
	for text, want := range map[string]time.Duration{"768h": 768 * time.Hour, "87840h": 87840 * time.Hour, "0s": 0} {
		c, err := loadYAML("retention: " + text)
		if err != nil || c.Retention != want {
			t.Errorf("%s: %v, %v", text, c.Retention, err)
		}
		if got := byDefault.Differs(c); !slices.Equal(got, []string{"retention"}) || byDefault.Renewed(c).Retention != want {
			t.Errorf("%s: differs in %v", text, got)
		}
	}
	for text, said := range map[string]string{
		"767h": "must be from 768h to 87840h, or 0s for ever", "87841h": "must be from 768h to 87840h, or 0s for ever",
		"-1h": "must be from 768h to 87840h, or 0s for ever", "90d": "days and weeks are written in hours: 24h, 168h",
	} {
		_, err := loadYAML("retention: " + text)
		if got := mistakes(err); !slices.Contains(got, "c.yaml:1: retention: "+said) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
