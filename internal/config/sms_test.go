package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

const hiddenSecret = "a-secret-of-the-carrier"

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
      secret_env: ALIYUN_SECRET
      sign: 商店
      templates: {default: {zh-Hans: SMS_1, en: SMS_2}, login: {zh-Hans: SMS_3}}
      params: [code]
    - {name: tencent, type: tencent, key_id: AKIDx, prices: {default: 0.1}, secret_file: /run/tencent, app: "1400006666", sign: 商店, region: ap-singapore, templates: {default: {en: "11"}}}
    - {name: twilio, type: twilio, poll: off, prices: {default: 0.1}, account: AC00000000000000000000000000000001, key: SK00000000000000000000000000000001, secret_env: ALIYUN_SECRET, service: MG00000000000000000000000000000001, endpoint: "http://127.0.0.1:9"}
    - name: rest
      type: http
      prices: {US: "0.000001", "001": 12.5, DE: 999999999.999999, NO: 0}
      url: https://sms.example.com/{country}
      user: u
      secret_env: ALIYUN_SECRET
      timeout: 5s
      poll: {url: "https://sms.example.com/{message}", status: $.state, delivered: [ok], undelivered: [lost]}
      headers: {X-Id: "{id}"}
      format: json
      body: '{"to":"{to}","text":"{text}"}'
      answer: {id: $.id, code: '"code":"(\w+)"', accepted: [ok], match: ok, codes: {no: limit 60s}, statuses: {"404": rejected}}
      receipt: {status: state, delivered: [ok], undelivered: [lost, gone]}
`

func loadSMS(yaml string) (Config, error) {
	return Load([]string{"SENDCODE_CONFIG=c.yaml", "ALIYUN_SECRET=" + hiddenSecret}, files{"c.yaml": yaml, "/run/tencent": hiddenSecret + "\n"}.read)
}

func TestSMS(t *testing.T) {
	c, err := loadSMS(smsYAML)
	if err != nil {
		t.Fatal(err)
	}
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
	if !c.SMSOn() || c.DevPhone() || s.Carriers[0].Timeout != 20*time.Second || s.Carriers[3].Timeout != 5*time.Second {
		t.Errorf("on %v, dev %v", c.SMSOn(), c.DevPhone())
	}
	if polled := []bool{s.Carriers[0].Polled(), s.Carriers[1].Polled(), s.Carriers[2].Polled(), s.Carriers[3].Polled()}; !slices.Equal(polled, []bool{true, true, false, true}) {
		t.Errorf("polled: %v", polled)
	}
	for _, carrier := range s.Carriers {
		if carrier.Open().Name() != carrier.Name || carrier.Secret.Reveal() != hiddenSecret {
			t.Errorf("%s", carrier.Name)
		}
	}
	for _, printed := range []string{c.YAML(), fmt.Sprintf("%v %+v %#v", c, c, c), fmt.Sprintf("%v %+v %#v", s, s, s.Carriers)} {
		if strings.Contains(printed, hiddenSecret) {
			t.Error("the secret is printed")
		}
	}
	again, err := loadSMS(c.YAML())
	if err != nil || again.YAML() != c.YAML() {
		t.Errorf("printed\n%s\nloads as\n%s\n%v", c.YAML(), again.YAML(), err)
	}
	if fixed := c.Fixed(again); fixed != nil {
		t.Errorf("the same differs in %v", fixed)
	}
}

func TestWatchOnByDefaultAndOff(t *testing.T) {
	for yaml, off := range map[string]bool{"": false, "sms: {watch: off}": true, "sms: {watch: {sends: 50}}": false} {
		c, err := loadYAML(yaml)
		again, err2 := loadYAML(c.YAML())
		if err != nil || err2 != nil || c.SMS.Watch.Off != off || again.YAML() != c.YAML() || c.SMS.Watch.Within != time.Hour {
			t.Errorf("%q: %+v, %v, %v", yaml, c.SMS.Watch, err, err2)
		}
	}
}

func TestWithoutCarriersTextsGoToTheDevMailbox(t *testing.T) {
	for yaml, want := range map[string]bool{"": true, "sms: {countries: [DE]}": true, "smtp_url: smtp://127.0.0.1:25": false} {
		c, err := loadYAML(yaml)
		if err != nil || c.DevPhone() != want || c.SMSOn() != want {
			t.Errorf("%q: dev %v, on %v, %v", yaml, c.DevPhone(), c.SMSOn(), err)
		}
	}
	c, err := Load(reachable, files{}.read)
	if err != nil || c.SMSOn() {
		t.Errorf("text messages end at a mailbox that others can read: %v", err)
	}
}

// A country that no carrier's prefixes reach would be offered, and its codes wait until they have run out.
func TestEveryCountryHasACarrier(t *testing.T) {
	of := func(countries string, prefixes ...string) string {
		yaml := "sms: {countries: [" + countries + "], carriers: ["
		for i, p := range prefixes {
			yaml += fmt.Sprintf("{name: c%d, type: twilio, account: AC00000000000000000000000000000001, secret_env: ALIYUN_SECRET, prefixes: [%s]}, ", i, p)
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
		_, err := loadSMS(c.yaml)
		if c.missing == "" && err != nil || c.missing != "" && (err == nil || !strings.Contains(err.Error(), "sms: no carrier takes numbers of "+c.missing)) {
			t.Errorf("%s: %v", c.yaml, err)
		}
	}
}

func TestMistakesOfSMS(t *testing.T) {
	const good = "name: a, type: twilio, account: AC00000000000000000000000000000001, secret_env: ALIYUN_SECRET"
	carrier := func(fields string) string { return "sms: {countries: [DE], carriers: [{" + fields + "}]}" }
	if _, err := loadSMS(carrier(good)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ yaml, want string }{
		"no countries":         {"sms: {carriers: [{" + good + "}]}", "sms: countries is missing"},
		"dial code":            {"sms: {countries: [49]}", "sms.countries[0]: 49 is no country"},
		"lower case":           {"sms: {countries: [de]}", "sms.countries[0]: de is no country"},
		"everybody":            {`sms: {countries: ["*"]}`, "sms.countries[0]: * is no country"},
		"twice":                {"sms: {countries: [DE, DE]}", "sms.countries[1]: is there twice"},
		"voip":                 {"sms: {voip: no}", "sms.voip: must be allow or refuse"},
		"segments":             {"sms: {segments: 0}", "sms.segments: must be from 1 to 4"},
		"origin, scheme":       {"sms: {origin: \"https://shop.example\"}", "sms.origin: must be the host"},
		"origin, port":         {"sms: {origin: \"shop.example:8080\"}", "sms.origin: must be the host"},
		"origin, upper case":   {"sms: {origin: Shop.example}", "sms.origin: must be the host"},
		"public, plain":        {"sms: {public_url: \"http://codes.example.com\"}", "sms.public_url: must begin with https://"},
		"public, query":        {"sms: {public_url: \"https://codes.example.com/?a=1\"}", "sms.public_url: must end with the host"},
		"sender, too long":     {"sms: {sender: The Great Shop}", "sms.sender: is no sender"},
		"sender, character":    {"sms: {sender: \"Sh&op\"}", "sms.sender: is no sender"},
		"senders, country":     {"sms: {senders: {XX: Shop}}", "sms.senders.XX: XX is no country"},
		"type":                 {carrier("name: a, type: nexmo"), "type must be http, twilio, aliyun"},
		"no type":              {carrier("name: a"), "type must be http"},
		"name":                 {carrier(strings.Replace(good, "name: a", "name: A b", 1)), "name: a name has 1 to 32"},
		"no name":              {carrier(strings.Replace(good, "name: a, ", "", 1)), "name is missing"},
		"same name":            {"sms: {countries: [DE], carriers: [{" + good + "}, {" + good + "}]}", "another carrier of that name"},
		"key of another":       {carrier(good + ", sign: x"), "sign: there is no such key"},
		"secret in the file":   {carrier("name: a, type: twilio, account: AC00000000000000000000000000000001, secret: hidden"), "secret: there is no such key"},
		"secret as variable":   {carrier("name: a, type: twilio, secret_env: hidden-secret"), "and not the secret itself"},
		"variable of ours":     {carrier("name: a, type: twilio, secret_env: SENDCODE_API_KEY"), "have a meaning of their own"},
		"variable not set":     {carrier("name: a, type: twilio, secret_env: NOT_SET"), "the variable NOT_SET is empty"},
		"two secrets":          {carrier(good + ", secret_file: /run/tencent"), "stands beside secret_env"},
		"no such file":         {carrier("name: a, type: twilio, secret_file: /no"), "/no cannot be read"},
		"no secret":            {carrier("name: a, type: twilio, account: AC00000000000000000000000000000001"), "secret_env: or secret_file is missing"},
		"account":              {carrier("name: a, type: twilio, account: AC1, secret_env: ALIYUN_SECRET"), "account: must be AC and 32"},
		"timeout":              {carrier(good + ", timeout: 2m"), "timeout: must be from 1s to 60s"},
		"prefix":               {carrier(good + ", prefixes: [\"49\"]"), "prefixes[0]: must be + and digits"},
		"price":                {carrier(good + ", prices: {DE: -1}"), "prices.DE: must be an amount"},
		"price, decimals":      {carrier(good + ", prices: {DE: 0.0000001}"), "prices.DE: must be an amount"},
		"price, country":       {carrier(good + ", prices: {XX: 1}"), "prices.XX: XX is no country"},
		"cap, no price":        {"sms: {countries: [DE, US], carriers: [{" + good + ", prices: {DE: 1}}], spend: [{name: a, scope: app, per: day, limit: 1}]}", "carriers[0] has no price for US"},
		"cap, scope":           {"sms: {spend: [{name: a, scope: recipient, per: day, limit: 1}]}", "spend[0].scope: must be global or app or country"},
		"cap, period":          {"sms: {spend: [{name: a, scope: app, per: week, limit: 1}]}", "spend[0].per: must be day or month"},
		"cap, no limit":        {"sms: {spend: [{name: a, scope: app, per: day}]}", "spend[0]: limit is missing"},
		"cap, twice":           {"sms: {spend: [{name: a, scope: app, per: day, limit: 1}, {name: a, scope: app, per: day, limit: 1}]}", "another cap of that name"},
		"placeholder":          {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}{phone}\""), "url: there is no placeholder {phone}"},
		"plain http":           {carrier("name: a, type: http, method: GET, url: \"http://a.example/?{to}{text}\""), "url: must begin with https://"},
		"callback to nowhere":  {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}{callback}\""), "public_url is missing"},
		"receipt":              {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}\", receipt: {status: a}"), "receipt: needs status"},
		"extract":              {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}\", answer: {id: x}"), "answer.id: is neither a path"},
		"match":                {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}\", answer: {match: \"(\"}"), "answer.match: is no regular expression"},
		"poll":                 {carrier(good + ", poll: {url: x}"), "poll: must be a single value"},
		"poll, http":           {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}\", poll: on"), "poll: must be on or off"},
		"poll, no status":      {carrier("name: a, type: http, method: GET, url: \"https://a.example/?{to}{text}\", poll: {url: \"https://a.example/{id}\"}"), "poll: needs url, and status"},
		"watch":                {"sms: {watch: on}", "sms.watch: must be off, or say"},
		"watch, sends":         {"sms: {watch: {sends: 4}}", "sms.watch.sends: must be from 5"},
		"watch, approved":      {"sms: {watch: {approved: 51}}", "sms.watch.approved: must be from 1 to 50"},
		"watch, within":        {"sms: {watch: {within: 25h}}", "sms.watch.within: must be from"},
		"watch, pause":         {"sms: {watch: {pause: 1s}}", "sms.watch.pause: must be from"},
		"watch, exempt":        {"sms: {watch: {exempt: [\"+4915123\"]}}", "sms.watch.exempt[0]: must be the beginning"},
		"templates":            {carrier("name: a, type: aliyun, key_id: LTAI, sign: x, secret_env: ALIYUN_SECRET"), "templates: must have the purpose default"},
		"a list for a carrier": {"sms: {countries: [DE], carriers: [a]}", "type must be"},
	} {
		_, err := loadSMS(c.yaml)
		lines := mistakes(err)
		if len(lines) != 1 || !strings.Contains(lines[0], c.want) {
			t.Errorf("%s: %q, want %q", name, lines, c.want)
		}
		if strings.Contains(fmt.Sprint(err), hiddenSecret) {
			t.Errorf("%s: a secret is told", name)
		}
	}
}
