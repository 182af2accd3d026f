package config

import (
	"slices"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

func TestCarriers(t *testing.T) {
	s := must(t, read(t, "testdata/full.yaml")).SMS
	type carrier struct {
		name, secret string
		polled       bool
	}
	wants := []carrier{
		{"aliyun", hiddenSecret, true}, {"verify", hiddenSecret, false}, {"tencent", hiddenSecret, true},
		{"twilio", hiddenSecret, true}, {"rest", hiddenSecret, true},
	}
	wantEqual(t, "carriers", len(s.Carriers), len(wants))
	for i, c := range s.Carriers {
		servertest.Same(t, "carrier "+wants[i].name, carrier{c.Open().Name(), c.Secret.Reveal(), c.Polled()}, wants[i])
	}
	for _, c := range carrierTypes[1:] { // the first type belongs to package generic
		test := "../../deliver/sms/" + strings.ReplaceAll(c.name, "-", "_") + "_test.go"
		wantEqual(t, test+" has smstest.Contract", strings.Contains(read(t, test), "smstest.Contract("), true)
		wantEqual(t, c.name+" is in full.yaml", slices.ContainsFunc(s.Carriers, func(given SMSCarrier) bool { return given.Type == c.name }), true)
	}
	wantEqual(t, "price", s.Carriers[0].Prices["US"], 45_000) // millionths
	wantEqual(t, "dearest price", s.Carriers[4].Prices["DE"], 999_999_999_999_999)
	wantEqual(t, "cap", s.Spend[1].Limit, 300_500_000)
	wantEqual(t, "names of caps", []string{s.Spend[0].Name, s.Spend[1].Name}, []string{"global_day", "app_month"})
}

func TestWithoutCarriersTextsGoToTheDevMailbox(t *testing.T) {
	for yaml, want := range map[string]bool{"": true, "sms: {countries: [DE]}": true, "smtp_url: smtp://127.0.0.1:25": false} {
		c := must(t, yaml)
		wantEqual(t, yaml, []bool{c.SMSToDevMailbox(), c.SMSEnabled()}, []bool{want, want})
	}
	if c := must(t, "", reachable...); c.SMSEnabled() {
		t.Error("text messages end at a mailbox that others can read")
	}
}

// Text messages name the host of the page only if there is a page, and its URL is https at the
// default port.
func TestPageHost(t *testing.T) {
	for yaml, want := range map[string]string{
		"public_url: https://Codes.shop.example/":                   "codes.shop.example",
		"public_url: https://codes.shop.example\npage: {app: \"\"}": "",
		"public_url: https://codes.shop.example:8443":               "",
		"public_url: http://127.0.0.1":                              "",
		"":                                                          "",
	} {
		wantEqual(t, yaml, must(t, yaml).PageHost(), want)
	}
}
