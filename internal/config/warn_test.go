package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A policy of one's own that keeps no places is warned of where strangers' browsers reach it, with
// the rules and the app.
func TestWarningsOfReserves(t *testing.T) {
	public := "apps: [{name: shop, origins: ['https://shop.example'], keys: [{id: k, kind: public, sha256: " +
		strings.Repeat("ab", 32) + "}]}]\n"
	policy := func(name string, rules ...string) string {
		return "policies: {" + name + ": [" + strings.Join(rules, ", ") + "]}\n"
	}
	const minute, hour, day = "{name: minute, scope: recipient, limit: 1, window: 60s}",
		"{name: hour, scope: recipient, limit: 5, window: 1h}",
		"{name: day, scope: recipient, limit: 9, per: day}"
	const kept, seen = "{name: kept, scope: recipient, limit: 5, window: 1h, reserve: 1}",
		"{name: seen, scope: recipient, limit: 5, window: 2h, mode: observe}"
	const many, few = "{name: many, scope: app, limit: 5, window: 1h}",
		"{name: few, scope: prefix, limit: 2, window: 1h}"
	const gift, page = "purposes: {gift: {policy: gift}}\n", "page: {app: default}\n"
	for name, c := range map[string]struct {
		yaml    string
		outside bool // the address is not loopback
		want    string
	}{
		"loopback, no public key": {policy("default", hour), false, ""},
		"public key, built in":    {public, false, ""},
		"public key, own": {public + policy("default", minute, hour, day), false,
			"policy default keeps no places in hour, day: strangers' browsers, which reach the app shop,"},
		"public key, all keep": {public + policy("default", minute, kept), false, ""},
		"public key, one keeps": {public + policy("default", minute, kept, day), false,
			"policy default keeps no places in day:"},
		"public key, nothing to keep": {public + policy("default", minute), false,
			"policy default keeps no places in minute:"},
		"public key, observed":      {public + policy("default", kept, seen), false, ""},
		"public key, many, default": {public + policy("default", minute, kept, many), false, ""},
		"public key, many, none": {public + policy("default", minute, kept, few), false,
			"policy default keeps no places in few:"},
		"public key, one and many": {public + policy("default", minute, many), false,
			"policy default keeps no places in minute:"},
		"public key, a client's own": {public + policy("default", kept,
			"{name: net, scope: network, limit: 1, window: 1h}"), false, ""},
		"public key, another purpose": {public + gift + policy("gift", day), false,
			"policy gift keeps no places in day:"},
		"page, on loopback": {page + policy("default", hour), false, ""},
		"page, outside": {page + policy("default", hour), true,
			"policy default keeps no places in hour: strangers' browsers, which reach the app default,"},
		"page, outside, built in":     {page, true, ""},
		"page, of another purpose":    {page + gift + policy("gift", day), true, ""},
		"no page, outside":            {policy("default", hour), true, ""},
		"public key, a policy unused": {public + policy("gift", day), false, ""},
	} {
		var environ []string
		if c.outside {
			environ = reachable
		}
		got := ""
		for _, w := range must(t, c.yaml, environ...).Warnings {
			if strings.Contains(w, "keeps no places") {
				got += w
			}
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	const evpOn = "apps: [{name: shop, evp: on}]\nsms: {public_url: 'https://codes.shop.example'}\n"
	for name, test := range map[string]struct {
		environ []string
		file    string
		want    []string // how each begins
	}{
		"nothing":                        {nil, "", nil},
		"production":                     {reachable, "", nil},
		"proofs by the browser, no page": {reachable, evpOn, []string{"evp of the app shop has no effect"}},
		"proofs by the browser":          {reachable, evpOn + "page: {app: shop}\n", nil},
		"proofs by the browser, locally": {nil, evpOn, nil},
		"console with the API": {without(reachable, "SENDCODE_ADMIN_ADDR"), "",
			[]string{"/admin is on 0.0.0.0:8080",
				"/metrics is off, because other machines can reach 0.0.0.0:8080: set SENDCODE_METRICS_TOKEN"}},
		"metrics with a token": {with(without(without(reachable, "SENDCODE_ADMIN_ADDR"),
			"SENDCODE_ADMIN_PASSWORD_HASH"), "SENDCODE_METRICS_TOKEN=01234567890123456789",
			"SENDCODE_ADMIN_PASSWORD=a long enough password"), "", []string{"/admin is on 0.0.0.0:8080"}},
		"no Redis": {without(reachable, "SENDCODE_REDIS_URL"), "",
			[]string{"SENDCODE_REDIS_URL is not set"}},
		"SQLite": {without(reachable, "SENDCODE_DATABASE_URL"), "",
			[]string{"SENDCODE_DATABASE_URL is not set"}},
		"SQLite, Redis": {[]string{"SENDCODE_REDIS_URL=redis://h"}, "",
			[]string{"SENDCODE_DATABASE_URL is not set"}},
		"generated ring": {[]string{"SENDCODE_REDIS_URL=redis://h", "SENDCODE_DATABASE_URL=postgres://h/d",
			"SENDCODE_INDEX_KEY=" + goodIndex, "SENDCODE_API_KEY=" + goodKey,
			"SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash}, "",
			[]string{"SENDCODE_SECRET_KEYS and SENDCODE_INDEX_KEY are not both set"}},
		"no keys, no password": {with(without(without(without(reachable, "SENDCODE_ADDR"), "SENDCODE_API_KEY"),
			"SENDCODE_ADMIN_PASSWORD_HASH"), "SENDCODE_ADDR=127.0.0.1:8080"), "", []string{
			"No app has a secret key, so no back end can ask for a code: give one that `sendcode key` makes as SENDCODE_API_KEY",
			"Neither SENDCODE_ADMIN_PASSWORD"}},
		"console off": {without(reachable, "SENDCODE_ADMIN_PASSWORD_HASH"), "",
			[]string{"Neither SENDCODE_ADMIN_PASSWORD"}},
		"sender": {without(reachable, "SENDCODE_MAIL_FROM"), "",
			[]string{"SENDCODE_MAIL_FROM is an address at localhost"}},
		"app's sender": {reachable,
			"apps: [{name: a, mail_from: a@localhost}, {name: b, mail_from: b@b.example}]",
			[]string{"mail_from of the app a is an address at localhost"}},
		"plain mail": {with(reachable, "SENDCODE_SMTP_URL=smtps://h,smtp://h?tls=opportunistic"), "",
			[]string{"SENDCODE_SMTP_URL allows mail without TLS"}},
		"no TLS": {with(reachable, "SENDCODE_SMTP_URL=smtp://h?tls=none"), "",
			[]string{"SENDCODE_SMTP_URL allows mail without TLS"}},
		"local relay": {with(reachable, "SENDCODE_SMTP_URL=smtp://127.0.0.1:25"), "", nil},
		"short key": {[]string{"SENDCODE_API_KEY=sk_1234567890123456789"}, "",
			[]string{"SENDCODE_API_KEY is short"}},
		"unused policy": {nil, "policies: {p: [{name: a, scope: ip, limit: 1, window: 1h}]}",
			[]string{"No purpose uses the policy p."}},
		"networks": {nil,
			"policies: {default: [{name: d, scope: recipient, limit: 1, window: 1h}, {name: a, scope: ip, limit: 1, window: 1h}, {name: b, scope: network, limit: 1, window: 1h, mode: observe}]}", []string{
				"The rule a of the policy default has the scope ip: it counts sends with a secret key only if they give the client's address in client_ip.",
				"The rule b of the policy default has the scope network"}},
		"no origins": {nil, fmt.Sprintf("apps: [{name: a, keys: [{id: a, kind: public, sha256: %x}]}]", sumOf("x")),
			[]string{"No app has a secret key", "The app a has a public key but no origins"}},
		"old key": {nil, fmt.Sprintf(
			"apps: [{name: a, keys: [{id: k, kind: secret, expires: 2020-01-31, sha256: %x}]}]", sumOf("x")),
			[]string{"The key k of the app a has expired."}},
		"ageing key": {nil, fmt.Sprintf("apps: [{name: a, keys: [{id: k, kind: secret, expires: %s, sha256: %x}]}]",
			time.Now().Add(13*24*time.Hour).Format(time.RFC3339), sumOf("x")),
			[]string{"The key k of the app a expires at 2"}},
		"young key": {nil, fmt.Sprintf("apps: [{name: a, keys: [{id: k, kind: secret, expires: %s, sha256: %x}]}]",
			time.Now().Add(15*24*time.Hour).Format(time.RFC3339), sumOf("x")), nil},
		"old stop": {nil, "stop: [{channel: sms, until: 2099-01-31}, {to: '*@a.example', until: 2020-01-31}]",
			[]string{"Stop 2 has ended: take it out of the settings."}},
		"old token": {nil, fmt.Sprintf("admin: {tokens: [{id: desk, sha256: %x, expires: 2020-01-31}]}", sumOf("x")),
			[]string{"The admin token desk has expired."}},
		"no provider": {[]string{"SENDCODE_OIDC_CLIENT_SECRET=x"}, "",
			[]string{"SENDCODE_OIDC_CLIENT_SECRET has no effect without admin.oidc"}},
		"plain origin": {nil,
			"apps: [{name: a, origins: ['http://a.example', 'http://localhost:3000', 'http://[::1]:81']}]",
			[]string{"The origin http://a.example of the app a is not https"}},
	} {
		c := must(t, test.file, test.environ...)
		if len(c.Warnings) != len(test.want) {
			t.Errorf("%s: %q", name, c.Warnings)
			continue
		}
		for i, w := range test.want {
			if !strings.HasPrefix(c.Warnings[i], w) {
				t.Errorf("%s: %q", name, c.Warnings[i])
			}
		}
	}
}
