package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

const smsYAML = `sms:
  countries: [US, "001", DE, NO]
  voip: refuse
  segments: 2
  origin: shop.example
  public_url: https://codes.shop.example/x/
  sender: The Shop
  senders: {US: "+15005550006", DE: "12345"}
  watch: {sends: 30, approved: 5, within: 2h, pause: 30m, exempt: ["+49", "+86138"]}
  spend:
    - {name: day, scope: global, per: day, limit: 50}
    - {name: each, scope: app, per: month, limit: 300.5}
  carriers:
    - name: aliyun
      type: aliyun
      prefixes: ["+86", "+852"]
      prices: {US: 0.045, default: 1}
      key_id: LTAI5tExample
      secret_env: SECRET
      sign: 商店
      templates: {default: {zh-Hans: SMS_1, en: SMS_2}, login: {zh-Hans: SMS_3}}
      params: [code]
    - {name: tencent, type: tencent, key_id: AKIDx, prices: {default: 0.1}, secret_file: /run/secret, app: "1400006666", sign: 商店, region: ap-singapore, templates: {default: {en: "11"}}}
    - {name: twilio, type: twilio, poll: off, prices: {default: 0.1}, account: AC00000000000000000000000000000001, key: SK00000000000000000000000000000001, secret_env: SECRET, service: MG00000000000000000000000000000001, endpoint: "http://127.0.0.1:9"}
    - name: rest
      type: http
      prices: {US: "0.000001", "001": 12.5, DE: 999999999.999999, NO: 0}
      url: https://sms.example.com/{country}
      user: u
      secret_env: SECRET
      timeout: 5s
      poll: {url: "https://sms.example.com/{message}", status: $.state, delivered: [ok], undelivered: [lost]}
      headers: {X-Id: "{id}"}
      format: json
      body: '{"to":"{to}","text":"{text}"}'
      answer: {id: $.id, code: '"code":"(\w+)"', accepted: [ok], match: ok, codes: {no: limit 60s}, statuses: {"404": rejected}}
      receipt: {status: state, delivered: [ok], undelivered: [lost, gone]}
`

func TestSMS(t *testing.T) {
	c := must(t, smsYAML)
	s := c.SMS
	if !slices.Equal(s.Countries, []string{"001", "DE", "NO", "US"}) || s.VoIP != "refuse" || s.Segments != 2 || s.Origin != "shop.example" ||
		s.PublicURL != "https://codes.shop.example/x" || s.Sender != "The Shop" || s.Senders["US"] != "+15005550006" || len(s.Carriers) != 4 {
		t.Errorf("%+v", s)
	}
	if p := s.Carriers[0]; p.Prices["US"] != 45_000 || p.Prices["default"] != 1_000_000 || s.Carriers[3].Prices["DE"] != 999_999_999_999_999 || s.Carriers[3].Prices["US"] != 1 ||
		!slices.Equal(s.Spend, []SpendCap{{"day", quota.Global, quota.Day, 50_000_000}, {"each", quota.App, quota.Month, 300_500_000}}) {
		t.Errorf("%+v, %v", p, s.Spend)
	}
	if w := s.Watch; w.Off || w.Sends != 30 || w.Approved != 5 || w.Within != 2*time.Hour || w.Pause != 30*time.Minute || !slices.Equal(w.Exempt, []string{"+49", "+86138"}) {
		t.Errorf("%+v", w)
	}
	if !c.SMSEnabled() || c.SMSToDevMailbox() || s.Carriers[0].Timeout != 20*time.Second || s.Carriers[3].Timeout != 5*time.Second {
		t.Errorf("on %v, dev %v", c.SMSEnabled(), c.SMSToDevMailbox())
	}
	if polled := []bool{s.Carriers[0].Polled(), s.Carriers[1].Polled(), s.Carriers[2].Polled(), s.Carriers[3].Polled()}; !slices.Equal(polled, []bool{true, true, false, true}) {
		t.Errorf("polled: %v", polled)
	}
	for _, carrier := range s.Carriers {
		if carrier.Open().Name() != carrier.Name || carrier.Secret.Reveal() != hiddenSecret {
			t.Errorf("%s", carrier.Name)
		}
	}
	if strings.Contains(c.YAML()+fmt.Sprintf("%#v", s.Carriers), hiddenSecret) {
		t.Error("the secret is printed")
	}
	if fixed := c.RestartChanges(readBack(t, c)); fixed != nil {
		t.Errorf("the same differs in %v", fixed)
	}
}

func TestWatchOnByDefaultAndOff(t *testing.T) {
	for yaml, off := range map[string]bool{"": false, "sms: {watch: off}": true, "sms: {watch: {sends: 50}}": false} {
		c := must(t, yaml)
		if readBack(t, c); c.SMS.Watch.Off != off || c.SMS.Watch.Within != time.Hour {
			t.Errorf("%q: %+v", yaml, c.SMS.Watch)
		}
	}
}

func TestWithoutCarriersTextsGoToTheDevMailbox(t *testing.T) {
	for yaml, want := range map[string]bool{"": true, "sms: {countries: [DE]}": true, "smtp_url: smtp://127.0.0.1:25": false} {
		if c := must(t, yaml); c.SMSToDevMailbox() != want || c.SMSEnabled() != want {
			t.Errorf("%q: dev %v, on %v", yaml, c.SMSToDevMailbox(), c.SMSEnabled())
		}
	}
	c, err := Load(reachable, files{}.read)
	if err != nil || c.SMSEnabled() {
		t.Errorf("text messages end at a mailbox that others can read: %v", err)
	}
}

// A country that no carrier's prefixes reach would be offered, and its codes wait until they have run out.
func TestEveryCountryHasACarrier(t *testing.T) {
	of := func(countries string, prefixes ...string) string {
		yaml := "sms: {countries: [" + countries + "], carriers: ["
		for i, p := range prefixes {
			yaml += fmt.Sprintf("{name: c%d, type: twilio, account: AC00000000000000000000000000000001, secret_env: SECRET, prefixes: [%s]}, ", i, p)
		}
		return yaml + "]}"
	}
	for _, c := range []struct{ yaml, missing string }{
		{of("CN, DE", `"+86"`, `"+49"`), ""},
		{of("CN, DE", `"+86"`, ""), ""},
		{of("AT, CN", `"+86138", "+4"`), ""}, // a part of the one, and more than the other
		{of("US, JM", `"+1"`), ""},
		{of(`"001", DE`, `"+49"`), ""}, // whose numbers begin in many ways
		{of("CN, DE", `"+86"`), "DE, which begin with +49"},
		{of("AT, CN", `"+86"`, `"+49"`), "AT, which begin with +43"},
	} {
		_, err := loadYAML(c.yaml)
		if c.missing == "" && err != nil || c.missing != "" && (err == nil || !strings.Contains(err.Error(), "sms: no carrier takes numbers of "+c.missing)) {
			t.Errorf("%s: %v", c.yaml, err)
		}
	}
}

func TestMistakesOfSMS(t *testing.T) {
	const good = "name: a, type: twilio, account: AC00000000000000000000000000000001, secret_env: SECRET"
	carrier := func(fields string) string { return "sms: {countries: [DE], carriers: [{" + fields + "}]}" }
	must(t, carrier(good))
	refused(t, map[string]string{
		"sms: {carriers: [{" + good + "}]}": "sms: countries is missing",
		carrier("name: a, type: nexmo"):     "type must be http, twilio, aliyun",
		carrier(good + ", sign: x"):         "sign: there is no such key",
		carrier("name: a, type: twilio, account: AC00000000000000000000000000000001, secret: hidden"):                                 "secret: there is no such key",
		carrier("name: a, type: twilio, secret_env: hidden-secret"):                                                                   "and not the secret itself",
		carrier("name: a, type: twilio, secret_env: SENDCODE_API_KEY"):                                                                "have a meaning of their own",
		carrier("name: a, type: twilio, secret_file: /no"):                                                                            "/no cannot be read",
		carrier(good + ", secret_file: /run/secret"):                                                                                  "stands beside secret_env",
		carrier("name: a, type: twilio, account: AC00000000000000000000000000000001"):                                                 "secret_env: or secret_file is missing",
		carrier("name: a, type: twilio, account: AC1, secret_env: SECRET"):                                                            "account: must be AC and 32",
		carrier(good + ", prices: {DE: 0.0000001}"):                                                                                   "prices.DE: must be an amount",
		"sms: {countries: [DE, US], carriers: [{" + good + ", prices: {DE: 1}}], spend: [{name: a, scope: app, per: day, limit: 1}]}": "carriers[0] has no price for US",
		carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}{phone}\""):                                    "url: there is no placeholder {phone}",
		carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}{callback}\""):                                 "public_url is missing",
		carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}\", answer: {id: x}"):                          "answer.id: is neither a path",
	})
}
