package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestCarriers(t *testing.T) {
	s := must(t, read(t, "testdata/full.yaml")).SMS
	var polled, secrets, names []string
	for _, c := range s.Carriers {
		polled, names = append(polled, fmt.Sprint(c.Polled())), append(names, c.Open().Name())
		secrets = append(secrets, c.Secret.Reveal())
	}
	is(t, "polled", strings.Join(polled, " "), "true true true true")
	is(t, "names", strings.Join(names, " "), "aliyun tencent twilio rest")
	is(t, "secrets", strings.Join(secrets, " "),
		strings.Join([]string{hiddenSecret, hiddenSecret, hiddenSecret, hiddenSecret}, " "))
	is(t, "price", s.Carriers[0].Prices["US"], 45_000) // millionths
	is(t, "dearest price", s.Carriers[3].Prices["DE"], 999_999_999_999_999)
	is(t, "cap", s.Spend[1].Limit, 300_500_000)
	is(t, "names of caps", []string{s.Spend[0].Name, s.Spend[1].Name}, []string{"global_day", "app_month"})
}

func TestWithoutCarriersTextsGoToTheDevMailbox(t *testing.T) {
	for yaml, want := range map[string]bool{"": true, "sms: {countries: [DE]}": true,
		"smtp_url: smtp://127.0.0.1:25": false} {
		c := must(t, yaml)
		is(t, yaml, []bool{c.SMSToDevMailbox(), c.SMSEnabled()}, []bool{want, want})
	}
	if c := must(t, "", reachable...); c.SMSEnabled() {
		t.Error("text messages end at a mailbox that others can read")
	}
}

// Texts name the host at which the page is; where that is not known, they name none.
func TestPageHost(t *testing.T) {
	for yaml, want := range map[string]string{
		"sms: {public_url: 'https://Codes.shop.example/x'}":                  "codes.shop.example",
		"sms: {public_url: 'https://codes.shop.example'}\npage: {app: \"\"}": "",
		"sms: {public_url: 'https://codes.shop.example:8443'}":               "",
		"sms: {public_url: 'http://127.0.0.1'}":                              "",
		"":                                                                   "",
	} {
		is(t, yaml, must(t, yaml).PageHost(), want)
	}
}

// A country that no carrier's prefixes reach would be offered, and its codes wait until they have
// run out.
func TestEveryCountryHasACarrier(t *testing.T) {
	of := func(countries string, prefixes ...string) string {
		yaml := "sms: {countries: [" + countries + "], carriers: ["
		for i, p := range prefixes {
			yaml += fmt.Sprintf(
				"{name: c%d, type: twilio, account: AC00000000000000000000000000000001, secret_env: SECRET, prefixes: [%s]}, ", i, p)
		}
		return yaml + "]}"
	}
	for _, yaml := range []string{
		of("CN, DE", `"+86"`, `"+49"`),
		of("CN, DE", `"+86"`, ""),
		of("AT, CN", `"+86138", "+4"`), // a part of the one, and more than the other
		of("US, JM", `"+1"`),
		of(`"001", DE`, `"+49"`), // whose numbers begin in many ways
	} {
		must(t, yaml)
	}
	refused(t, map[string]string{
		of("CN, DE", `"+86"`):          "sms: no carrier takes numbers of DE, which begin with +49",
		of("AT, CN", `"+86"`, `"+49"`): "sms: no carrier takes numbers of AT, which begin with +43",
	})
}

func TestMistakesOfSMS(t *testing.T) {
	const twilio = "name: a, type: twilio, account: AC00000000000000000000000000000001"
	carrier := func(fields string) string { return "sms: {countries: [DE], carriers: [{" + fields + "}]}" }
	get := func(url string) string {
		return carrier("name: a, type: http, url: \"https://a.example/?" + url)
	}
	refused(t, map[string]string{
		"sms: {carriers: [{" + twilio + ", secret_env: SECRET}]}": "sms: countries is missing",
		carrier("name: a, type: nexmo"):                           "type must be http, twilio, aliyun",
		carrier(twilio + ", secret: hidden"):                      "secret: there is no such key",
		carrier(twilio + ", secret_env: hidden-secret"):           "and not the secret itself",
		carrier(twilio + ", secret_env: SENDCODE_API_KEY"):        "have a meaning of their own",
		carrier(twilio + ", secret_env: NOWHERE"):                 "secret_env: NOWHERE: is empty",
		carrier(twilio +
			", secret_env: LOST"): "secret_env: LOST_FILE: /no cannot be read: file does not exist",
		carrier(twilio + ", secret_env: BLANK"): "secret_env: BLANK_FILE: /empty is empty",
		carrier(twilio +
			", secret_env: TWICE"): "secret_env: TWICE: is given twice, also as TWICE_FILE; keep one",
		carrier(twilio + ", secret_file: /run/secret"): "secret_file: there is no such key",
		carrier(twilio): "secret_env: is missing",
		carrier("name: a, type: twilio, account: AC1, secret_env: SECRET"): "account: must be AC and 32",
		carrier(twilio + ", secret_env: SECRET, prices: {DE: 0.0000001}"):  "prices.DE: must be an amount",
		get("{to}{text}{phone}\""):           "url: there is no placeholder {phone}",
		get("{to}{text}{callback}\""):        "public_url is missing",
		get("{to}{text}\", answer: {id: x}"): "answer.id: is neither a path",
		"sms: {countries: [DE, US], carriers: [{" + twilio + ", secret_env: SECRET, prices: {DE: 1}}]," +
			" spend: [{scope: app, per: day, limit: 1}]}": "carriers[0] has no price for US",
		"sms: {spend: [{scope: app, per: day, limit: 1}, {scope: app, per: month, limit: 9}, {scope: app, per: day, limit: 2}]}": "c.yaml:1: sms.spend[2]: there is another cap",
	})
}

// The origin that a browser names is that of the public URL, as browsers write it.
func TestPageOrigin(t *testing.T) {
	for url, want := range map[string]string{
		"https://Codes.shop.example:443/x/": "https://codes.shop.example",
		"http://127.0.0.1:8080":             "http://127.0.0.1:8080",
	} {
		c := must(t, "apps: [{name: shop, evp: on}]\nsms: {public_url: '"+url+"'}")
		is(t, url, c.PageOrigin(), want)
		is(t, "on", c.Apps[1].EVP, "on")
	}
	is(t, "no URL", must(t, "").PageOrigin(), "")
}
