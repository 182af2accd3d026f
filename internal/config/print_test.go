package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The golden file shows how every setting is read and printed.
func TestEffectiveConfigurationInFull(t *testing.T) {
	c := must(t, fullYAML, with(reachable, "SENDCODE_SECRET_KEYS="+goodRing+","+otherRing,
		"SENDCODE_SMTP_URL="+goodSMTP+"?hello=shop.example,smtps://m2.example", "SENDCODE_ADMIN_TOKEN=0123456789abcdefghij",
		"SENDCODE_DATABASE_URL=postgres://u:p%40ss@db:5432,db2/sendcode?sslmode=verify-full&sslpassword=x")...)
	golden(t, "full.yaml", c.YAML())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got != read(t, path) {
		t.Errorf("differs from %s (run the test with -update after a change that is meant):\n%s", path, got)
	}
}

// What is printed is a file that means the same, as long as no URL had a password.
func TestPrintedConfigurationLoads(t *testing.T) {
	for _, file := range []string{"", fullYAML} {
		first := must(t, file)
		second := readBack(t, first)
		is(t, "read again", second, first)
		is(t, "for a restart", first.RestartChanges(second), nil)
	}
	refused(t, map[string]string{must(t, "", "SENDCODE_REDIS_URL=redis://u:password@h").YAML(): stillMasked})
}

const fullYAML = `
policies:
  gift: [{name: week, scope: recipient, limit: 3, window: 168h}, {name: office, scope: ip, limit: 100, window: 90s, mode: observe}]
  calendar:
    - {name: today, scope: recipient, limit: 1, per: day, time_zone: Asia/Shanghai, mode: enforce}
    - {name: week, scope: recipient, limit: 3, days: 7, callers: browsers}
    - {name: bounces, scope: failures, limit: 5, window: 1h}
limits:
  gift: [{name: today, key: user, limit: 1, per: day, time_zone: Asia/Shanghai}]
  web: [{name: minute, key: [resource, ip], limit: 100, window: 60s, mode: observe}]
purposes:
  gift: {policy: gift, ttl: 45s, code: {length: 8, alphabet: unambiguous}, notify: glance}
  login: {policy: calendar}
apps:
  - name: shop
    title: The Shop
    mail_from: Shop <codes@shop.example>
    templates: ./shop
    brand: {accent: "#D1381F", home: "https://shop.example/", logo: "https://shop.example/logo.svg"}
    origins: ["https://shop.example"]
    return_urls: ["https://shop.example/signup"]
    keys:
      - {id: k1, kind: public, expires: 2027-01-31, sha256: 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5}
      - {id: k2, kind: secret, scopes: [check, read], sha256: 481f6cc0511143ccdd7e2d1b1b94faf0a700a8b49cd13922a70b5ae28acaa8c5}
trusted_proxies: [10.0.0.0/8, "::1"]
checks: {network: {limit: 20, window: 10m}}
breaker: {limit: 1000, window: 60s}
spellings: {}
block: [{domain: Bücher.example}, {prefix: "+882", reason: satellites}]
paused: [{channel: sms, reason: pumping}, {channel: email, purpose: gift}]
suppressions: {for: 0s}
retention: 0s
requests_per_minute: 0
disposable_domains: /list
folding: [{domain: gmail.com, plus_tags: true, dots: true}, {domain: Bücher.example, plus_tags: true}]
webhooks: {allow: [10.1.0.0/16, "fd00::/8", 127.0.0.1]}
page: {app: shop, channels: [sms, email], country: DE}
templates: "#mails"
admin:
  second_factor: required
  tokens:
    - {id: charts, sha256: 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5}
    - {id: desk, sha256: 481f6cc0511143ccdd7e2d1b1b94faf0a700a8b49cd13922a70b5ae28acaa8c5, role: operator, expires: 2099-01-31}
  oidc:
    title: Example ID
    issuer: https://id.example/realms/main
    client_id: console
    redirect_url: https://console.example/admin/oidc/callback
    claim: preferred_username
    scopes: [groups profile]
    roles: {claim: groups, values: {on-call: operator, "https://x/owners": owner}}
sms:
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
    - name: tencent
      type: tencent
      key_id: AKIDx
      prices: {default: 0.1}
      secret_file: /run/secret
      app: "1400006666"
      sign: 商店
      region: ap-singapore
      templates: {default: {en: "11"}}
    - name: twilio
      type: twilio
      poll: off
      prices: {default: 0.1}
      account: AC00000000000000000000000000000001
      key: SK00000000000000000000000000000001
      secret_env: SECRET
      service: MG00000000000000000000000000000001
      endpoint: "http://127.0.0.1:9"
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

// prints shows a value in the ways that the standard library knows. (%p, which asks no method, is for Secret alone.)
func prints(v any, more ...string) string {
	var b strings.Builder
	for _, verb := range append(more, "%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T") {
		fmt.Fprintf(&b, verb, v)
		fmt.Fprintf(&b, verb, []any{v, &v})
	}
	if text, err := json.Marshal(map[string]any{"v": v}); err == nil {
		b.Write(text)
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("config", "v", v, "group", []any{v})
	}
	return b.String()
}

// in reports whether text holds the secret, as it is or as %x and %d would write it.
func in(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", secret)) ||
		strings.Contains(text, strings.Trim(fmt.Sprint([]byte(secret)), "[]"))
}

func TestSecretNeverPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[A-Za-z0-9+/=:$,]{6,60}`).Draw(t, "value")
		s := NewSecret(value)
		if s.Reveal() != value || !s.IsSet() {
			t.Fatal("the value is lost")
		}
		type private struct{ s Secret }
		for _, v := range []any{s, &s, private{s}, &private{s}, []Secret{s}, map[string]Secret{"a": s}} {
			if in(prints(v, "%p"), value) {
				t.Fatalf("%T shows the value", v)
			}
		}
	})
	if s := NewSecret(""); s.IsSet() || s != (Secret{}) || fmt.Sprint(s) != "" {
		t.Error("an empty secret passes for one that is set")
	}
}

func TestConfigurationNeverPrintsSecrets(t *testing.T) {
	secret := rapid.StringMatching(`[A-Za-z0-9_-]{24,40}`)
	password := rapid.StringMatching(`[A-Za-z0-9!$&'()*+;=._~-]{6,20}(%2[0-9CF]){0,2}[A-Za-z0-9]{2,4}`).
		Filter(func(p string) bool { return !strings.Contains(p, "***") }) // is what `sendcode config` prints for a password
	user, verbs := rapid.StringMatching(`[a-z]{0,8}`), ""
	rapid.Check(t, func(t *rapid.T) {
		ring, index, hook := NewRingKey(), NewIndexKey(), NewWebhookSecret()
		key, token, admin := "sk_"+secret.Draw(t, "key"), secret.Draw(t, "token"), "P4"+secret.Draw(t, "admin") // never one character again and again
		database, redis, smtp, smtp2 := password.Draw(t, "db"), password.Draw(t, "redis"), password.Draw(t, "smtp"), password.Draw(t, "smtp2")
		u := user.Draw(t, "user")
		c, err := Load([]string{
			"SENDCODE_WEBHOOK_SECRETS=default:" + hook, "SENDCODE_SECRET_KEYS=" + ring, "SENDCODE_INDEX_KEY=" + index, "SENDCODE_API_KEY=" + key, "SENDCODE_ADMIN_TOKEN=" + token,
			"SENDCODE_ADMIN_PASSWORD=" + admin, "SENDCODE_DATABASE_URL=postgres://" + u + ":" + database + "@h1,h2:5432/d?sslmode=disable&password=" + url.QueryEscape(redis),
			"SENDCODE_REDIS_URL=redis+sentinel://" + u + ":" + redis + "@h1:26379,h2/master/0?sentinel_password=" + url.QueryEscape(database),
			"SENDCODE_SMTP_URL=smtp://" + smtp + ":" + smtp + "@h," + "smtps://u" + u + ":" + smtp2 + "@h",
		}, files{}.read)
		if err != nil {
			t.Fatal(err)
		}
		_, onlyRing, _ := strings.Cut(ring, ":")
		shown := c.YAML() + strings.Join(c.Warnings, "")
		if verbs == "" { // once is enough: each way of printing ends in YAML
			verbs = prints(c) + prints(&c)
			shown += verbs
		}
		for name, s := range map[string]string{"ring": onlyRing, "hook": hook[6:], "index": index, "key": key, "token": token, "password": admin,
			"database": database, "redis": redis, "smtp": smtp, "smtp2": smtp2} {
			if in(shown, s) {
				t.Fatalf("%s is shown", name)
			}
		}
		if !strings.Contains(c.YAML(), "SECRET_KEYS: set, 1 key\n") || !strings.Contains(c.YAML(), "@h1,h2:5432/d?sslmode=disable") {
			t.Fatalf("too much is hidden:\n%s", c.YAML())
		}
	})
}

// Nothing of a URL that does not parse may turn up in the mistake: the password may be in any part of it.
func TestMistakesNeverShowPasswords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.StringMatching(`hidden[0-9]{4}|[/?#@%:,\[\]&= *]`), 2, 7).Draw(t, "password")
		password := strings.Join(pieces, "")
		for _, v := range []string{
			"SENDCODE_DATABASE_URL=postgres://u:" + password + "@h:5432/d", "SENDCODE_REDIS_URL=redis://u:" + password + "@h:6379/0",
			"SENDCODE_REDIS_URL=redis+sentinel://u:" + password + "@h/m/0", "SENDCODE_SMTP_URL=smtp://u:" + password + "@h",
			"SENDCODE_SMTP_URL=smtps://u:" + password + "@h,smtp://x:" + password + "@h:25", "SENDCODE_API_KEY=" + password,
			"SENDCODE_SECRET_KEYS=a:" + password, "SENDCODE_INDEX_KEY=" + password, "SENDCODE_ADMIN_TOKEN=" + password,
			"SENDCODE_ADMIN_PASSWORD_HASH=" + password,
		} {
			c, err := Load([]string{v}, files{}.read)
			shown := fmt.Sprint(err)
			if err == nil {
				shown = strings.Join(c.Warnings, "") + c.YAML()
			}
			if strings.Contains(shown, "hidden") {
				t.Fatalf("%s: %s", v, shown)
			}
		}
	})
}

func TestMaskURL(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"redis://h:6379/0":                     "redis://h:6379/0",
		"redis://:pw@h":                        "redis://:***@h",
		"redis://token@h":                      "redis://***:***@h",
		"postgres://user:pw@h/d":               "postgres://user:***@h/d",
		"postgres://user:pw-of-user@h/d":       "postgres://***:***@h/d",
		"smtp://all-of-pw:pw@h":                "smtp://***:***@h",
		"smtp://user:@h":                       "smtp://***:***@h",
		"smtp://same:same@h":                   "smtp://***:***@h",
		"smtp://me%40shop.example:pw@h":        "smtp://me%40shop.example:***@h",
		"postgres://u:pw@h/d?sslmode=x&what=y": "postgres://u:***@h/d?sslmode=x&what=***",
		"postgres://u:pw@h/d?%70assword=y":     "postgres://u:***@h/d?***",
		"postgres://u:pw@h/d?password=a&b&C=d": "postgres://u:***@h/d?password=***&***&***",
		"postgres://u:p/w@h/d":                 "***",
		"no URL at all":                        "***",
	} {
		if got := maskURL(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
