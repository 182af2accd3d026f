package config

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/config/document"
)

func TestMistakesOfVariables(t *testing.T) {
	long := strings.Repeat("x", document.MaxValueSize+1)
	for name, test := range map[string]struct {
		environ []string
		want    string
	}{
		"unknown": {[]string{"SENDCODE_COLOUR=red"}, "SENDCODE_COLOUR: there is no such variable"},
		"port": {[]string{"SENDCODE_PORT=80"},
			"SENDCODE_PORT: there is no such variable, did you mean SENDCODE_ADDR=host:port?"},

		"empty":     {[]string{"SENDCODE_Q="}, "SENDCODE_Q: there is no such variable"},
		"log level": {[]string{"SENDCODE_LOG_LEVEL=loud"}, "SENDCODE_LOG_LEVEL: must be debug, info, warn or error"},
		"twice": {[]string{"SENDCODE_API_KEY=" + goodKey, "SENDCODE_API_KEY_FILE=/x"},
			"SENDCODE_API_KEY: is given twice, also as SENDCODE_API_KEY_FILE; keep one"},
		"empty file": {[]string{"SENDCODE_API_KEY_FILE=/empty"}, "SENDCODE_API_KEY_FILE: /empty is empty"},
		"not UTF-8":  {[]string{"SENDCODE_DATA_DIR=\xff"}, "SENDCODE_DATA_DIR: is not UTF-8 text"},
		"too long":   {[]string{"SENDCODE_DATA_DIR=" + long}, "SENDCODE_DATA_DIR: is longer than 65536 bytes"},
		"same address": {[]string{"SENDCODE_ADMIN_ADDR=127.0.0.1:8080"},
			"SENDCODE_ADMIN_ADDR: is the same as SENDCODE_ADDR; leave it out to have both there"},

		"index on ring": {[]string{"SENDCODE_SECRET_KEYS=" + otherRing + "," + goodRing,
			"SENDCODE_INDEX_KEY=" + strings.TrimRight(goodRing[3:], "=")},
			"SENDCODE_INDEX_KEY: is one of the keys of SENDCODE_SECRET_KEYS; it needs a key of its own"},
		"password twice": {[]string{"SENDCODE_ADMIN_PASSWORD=a long password",
			"SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash},
			"SENDCODE_ADMIN_PASSWORD_HASH: is given beside the password itself; keep one"},

		"no ring for others": {without(reachable, "SENDCODE_SECRET_KEYS"),
			"SENDCODE_SECRET_KEYS: must be given, because 0.0.0.0:8080 can be reached from other machines: make one with `sendcode key --kind ring`, the same for every replica"},
		"no API key for others": {without(reachable, "SENDCODE_API_KEY"),
			"SENDCODE_API_KEY: must be given, because 0.0.0.0:8080 can be reached from other machines: make one with `sendcode key`, or list keys of apps in the file"},
		"short key for others": {with(reachable, "SENDCODE_API_KEY=sk_1234567890123456789"),
			"SENDCODE_API_KEY: is too short for 0.0.0.0:8080, which can be reached from other machines: make one with `sendcode key`"},
		"lost ring for others": {with(without(reachable, "SENDCODE_SECRET_KEYS"), "SENDCODE_SECRET_KEYS_FILE=/x"),
			"SENDCODE_SECRET_KEYS_FILE: /x cannot be read: file does not exist"},
		"open console": {with(without(reachable, "SENDCODE_SMTP_URL"), "SENDCODE_ADDR=localhost:1",
			"SENDCODE_ADMIN_ADDR=:9000"),
			"SENDCODE_SMTP_URL: must be given, because :9000 can be reached from other machines: the dev mailbox shows every code and is for loopback addresses only"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, map[string]string{"": test.want}, test.environ...) })
	}
}

func TestMistakesOfTheFile(t *testing.T) {
	const hash = "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
	app := func(fields string) string { return "apps:\n  - {name: shop, " + fields + "}" }
	key := func(fields string) string { return app("keys: [{" + fields + "}]") }
	rule := func(fields string) string {
		return "policies:\n  p:\n    - {name: week, scope: recipient, limit: 1, window: 1h}\n    - {" + fields + "}"
	}
	refused(t, map[string]string{
		"a: [": "c.yaml: is not YAML, near line 1: did not find expected node content",
		"addr: localhost:1\n---\naddr: localhost:2": "c.yaml: holds more than one YAML document; keep one",
		strings.Repeat("#", document.MaxSize+1):     "c.yaml: is larger than 262144 bytes",
		"[a]: 1":                                    "c.yaml:1: only plain words can be keys here",
		"data_dir: &a x\ntemplates: *a":             "c.yaml:2: templates: anchors and aliases are not read here; write the value out",
		`"a\nb": 1`:                                 `c.yaml:1: "a\nb": there is no such key`,
		"<<: {addr: x}":                             "c.yaml:1: only plain words can be keys here",
		"data_dir: !!binary eA==":                   "c.yaml:1: data_dir: tags such as !x are not read here",
		"api_key: sk_hidden":                        "c.yaml:1: api_key: is a secret and does not belong in this file; give SENDCODE_API_KEY or SENDCODE_API_KEY_FILE",

		"policies: [a]":     "c.yaml:1: policies: must be key: value pairs",
		"policies: {p: []}": "c.yaml:1: policies.p: is empty; leave it out",
		rule(
			"name: A b, scope: ip, limit: 1, window: 1h"): "c.yaml:4: policies.p[1].name: is not of the form",
		rule(
			"name: a, scope: ip, limit: 1"): "c.yaml:4: policies.p[1]: window is missing",
		rule(
			"name: a, scope: ip, limit: 1, window: 60"): "c.yaml:4: policies.p[1].window: needs a unit: s, m or h, as in 60s",
		rule(
			"name: a, scope: ip, limit: 1, per: day, window: 24h"): "c.yaml:4: policies.p[1].window: does not go together with per",
		rule(
			"name: a, scope: ip, limit: 1, per: day, time_zone: Asia/Peking"): "c.yaml:4: policies.p[1].time_zone: there is no time zone Asia/Peking; they have names such as Asia/Shanghai",
		rule(
			"name: failures, scope: ip, limit: 1, window: 1h"): "c.yaml:4: policies.p[1].name: is the name of the rule with scope failures",
		rule(
			"name: failures, scope: failures, limit: 1, per: day"): "c.yaml:4: policies.p[1].per: a rule with scope failures has a window",
		rule(
			"name: a, scope: ip, limit: 1, days: 0"): "c.yaml:4: policies.p[1].days: 0 is not within 1 and 31",
		rule(
			"name: a, scope: ip, limit: 1, days: week, time_zone: UTC"): "c.yaml:4: policies.p[1].days: ",
		rule(
			"name: bad, scope: failures, limit: 1, window: 1h}\n    - {name: failures, scope: failures, limit: 1, window: 1h"): "c.yaml:5: policies.p[2].scope: there is another rule with scope failures",
		"policies:\n  7Days:\n    - {name: week, scope: recipient, limit: 1, window: 1h}": `c.yaml:3: policies.7Days: policy name "7Days" is`,

		"purposes: {gift: {policy: defualt}}": "c.yaml:1: purposes.gift.policy: there is no policy defualt, did you mean default?",
		"policies: {p: [{name: a, scope: ip, limit: 1, window: 1h}]}\npurposes: {x: {policy: p}, y: {policy: p}}":       "c.yaml:2: purposes.x.policy: the policy p has no rule with scope recipient that is enforced; every purpose needs one",
		"policies: {p: [{name: a, scope: recipient, limit: 1, window: 1h, mode: observe}]}\npurposes: {x: {policy: p}}": "c.yaml:2: purposes.x.policy: the policy p has no rule with scope recipient that is enforced; every purpose needs one",
		"policies: {default: [{name: a, scope: ip, limit: 1, window: 1h}]}":                                             "purposes.default: the policy default has no rule with scope recipient that is enforced; every purpose needs one",
		"purposes: {x: {code: {length: 4}}}":         "c.yaml:1: purposes.x.code.length: must be from 6 to 10",
		"purposes: {x: {code: {alphabet: letters}}}": "c.yaml:1: purposes.x.code.alphabet: must be digits or unambiguous",
		"purposes: {x: {notify: loud}}":              "c.yaml:1: purposes.x.notify: must be private or glance",
		rule(
			"name: a, scope: contry, limit: 1, window: 1h, mode: enforce"): "c.yaml:4: policies.p[1].scope: must be recipient, ip",
		rule(
			"name: a, scope: ip, limit: 0, window: 1h"): "c.yaml:4: policies.p[1].limit: 0 is not within 1 and",
		"purposes: {x: {ttl: 601s}}":                                     "c.yaml:1: purposes.x.ttl: may be longer than 10m only with kind: confirm, for a purpose that signs nobody in",
		"purposes: {x: {kind: confirm, code: {length: 8}, ttl: 86401s}}": "c.yaml:1: purposes.x.ttl: must be from 30s to 24h: a code may not live longer than a day",
		"purposes: {x: {title: {zh-CN-hans: a}}}":                        "c.yaml:1: purposes.x.title.zh-CN-hans: must be a language as a BCP 47 tag: en, zh-Hans, pt-BR",
		"purposes: {x: {title: {en: to win at evil.example}}}":           "c.yaml:1: purposes.x.title.en: must not look like a link or an address",
		app("page_purposes: [gfit]") +
			"\npurposes: {gift: {}}": "c.yaml:2: apps[0].page_purposes: there is no purpose gfit, did you mean gift?",
		app("evp: on"):  "c.yaml:2: apps[0].evp: needs sms.public_url, the page's address",
		app("evp: yes"): "c.yaml:2: apps[0].evp: must be on or off",
		"purposes: {x: {kind: confirm, code: {length: 7}}}": "c.yaml:1: purposes.x.kind: confirm needs codes of at least 8 characters: add code: {length: 8}",

		"apps: [{name: a}, {name: a}]": "c.yaml:1: apps[1].name: a is there twice",
		key("id: a, kind: secret, expires: tomorrow, sha256: " +
			hash): "c.yaml:2: apps[0].keys[0].expires: is not a day such as 2027-01-31 or a time such as 2027-01-31T08:00:00Z",
		key("id: a, kind: secret, scopes: [sned], sha256: " +
			hash): "c.yaml:2: apps[0].keys[0].scopes[0]: must be send, check, read or limit, did you mean send?",
		key("id: a, kind: secret, scopes: [], sha256: " +
			hash): "c.yaml:2: apps[0].keys[0].scopes: names no scope; leave it out for all of them",
		key("id: a, scopes: [send], kind: public, sha256: " +
			hash): "c.yaml:2: apps[0].keys[0]: scopes are for secret keys; a public key may do what browsers may",
		key("id: api_key, kind: secret, sha256: " +
			hash): "c.yaml:2: apps[0].keys[0].id: is the id of SENDCODE_API_KEY; choose another",
		app("keys: [{id: a, kind: secret, sha256: " + hash + "}, {id: b, kind: public, sha256: " +
			strings.ToUpper(hash) + "}]"): "c.yaml:2: apps[0].keys[1].sha256: another key has the same hash",

		"apps: shop":                   "c.yaml:1: apps: must be a list",
		"trusted_proxies: [0.0.0.0/0]": "c.yaml:1: trusted_proxies[0]: would trust every client, and let each choose the address that the rules look at",
		"smtp_url: smtp://mail.example\nmail_from: a@mail.example\npage: {channels: [sms]}": "c.yaml:3: page.channels[0]: sms needs a carrier: without one, and without the dev mailbox, text messages go nowhere",
		"breaker: {limit: 20}":                                  "breaker: window is missing",
		"breaker: {limit: '', window: 1h}":                      "breaker: limit is missing",
		"sms: {senders: {DE: ''}}":                              "sms.senders.DE: is empty; leave it out",
		"purposes: {x: {ttl: 0s}}":                              "purposes.x.ttl: must be from 30s to 24h",
		"failed_checks_per_hour: 0":                             "failed_checks_per_hour: must be from 1 to 100000",
		"apps: [{name: ''}]":                                    "apps[0]: name is missing",
		key("id: a, kind: secret, scopes: '', sha256: " + hash): "keys[0].scopes: is empty; leave it out",
		"trusted_proxies: [10.0.0.0/8, '']":                     "trusted_proxies[1]: is empty; leave it out",
		"admin: [1]":                                            "c.yaml:1: admin: must be key: value pairs",
		"breaker: {limit: 100001, window: 60s}":                 "breaker.limit: must be from 1 to 100000",
		"requests_per_minute: -1":                               "must be from 1 to 1000000, or 0 for no limit",
		"limits: {a: [{name: b, key: [a, b, c, d, e, f, g, h, i], limit: 1, window: 1s}]}": "key: must name 1 to 8 keys",
		"limits: {a: [{name: b, key: x, limit: 1}]}":                                       "window, per or days is missing",
		"limits: {a: [{name: b, key: x, limit: 1, window: 1s, time_zone: UTC}]}":           "goes together with per or days only",
		rule(
			"name: own, scope: recipient, limit: 3, window: 1h, reserve: 3"): "reserve: must be above 0 and below the limit",
		rule(
			"name: own, scope: recipient, limit: 3, window: 1h, reserve: 0"): "reserve: must be above 0 and below the limit",
		rule(
			"name: own, scope: global, limit: 3, window: 1h, reserve: -1"): "reserve: must be above 0 and below the limit",
		rule(
			"name: own, scope: failures, limit: 3, window: 1h, reserve: 1"): "reserve: a rule with scope failures has none",
		"breaker: {reserve: 1}":                                            "breaker: limit and window are missing",
		"breaker: {limit: 5, window: 60s, reserve: 5}":                     "breaker.reserve: must be above 0 and below the limit",
		"sms: {spend: [{scope: app, per: day, limit: 0.5, reserve: 0.5}]}": "sms.spend[0].reserve: must be above 0 and below the limit",
		"sms: {spend: [{scope: app, per: day, limit: 0.5, reserve: -1}]}":  "sms.spend[0].reserve: must be an amount",
		rule(
			"name: a, scope: ip, limit: many, window: 1h"): "c.yaml:4: policies.p[1].limit: must be a whole number",
		rule(
			"name: a, scope: ip, limit: 1, window: 1500ms"): "c.yaml:4: policies.p[1].window: must be whole seconds",
		rule(
			"name: a, scope: ip, limit: 1, per: day, time_zone: Local"): "c.yaml:4: policies.p[1].time_zone: there is no time zone Local; ",
		"page: {channels: [email, fax]}": "c.yaml:1: page.channels[1]: must be email or sms",
		"page: {app: defalt}":            "c.yaml:1: page.app: there is no app defalt, did you mean default?",
	})
	both := fmt.Sprintf("apps: [{name: shop, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf(goodKey))
	refused(t, map[string]string{both: "SENDCODE_API_KEY: is also among the keys of the file"},
		"SENDCODE_API_KEY="+goodKey)
}

// A mistake in a policy is no mistake of the purposes that name it.
func TestMistakesDoNotBreedOthers(t *testing.T) {
	_, err := loadYAML("policies: {default: [], p: [1]}\npurposes: {x: {policy: p}, y: }", "SENDCODE_ADDR=x",
		"SENDCODE_CONFIG=c.yaml")
	want := []string{
		"c.yaml:1: policies.default: is empty; leave it out",
		"c.yaml:1: policies.p[0]: must be key: value pairs",
		"SENDCODE_ADDR: must be host:port, as in 127.0.0.1:8080",
	}
	is(t, "mistakes", mistakes(err), want)
}

// A key that is like none may be one of an earlier version; a slip is told what was meant.
func TestKeysOfEarlierVersions(t *testing.T) {
	for yaml, want := range map[string]bool{
		"sms: {watch: off}":                   true,
		"purposes: {login: {policies: x}}":    false,
		"pages: {app: default}":               false,
		"stop: [{domain: a.example, to: +1}]": true,
	} {
		_, err := loadYAML(yaml)
		is(t, yaml, err != nil && strings.Contains(err.Error(), "\nUPGRADING.md says"), want)
	}
}
