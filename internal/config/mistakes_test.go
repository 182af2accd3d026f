package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/config/address"
	"sendcode/internal/config/document"
)

func TestMistakesOfVariables(t *testing.T) {
	long := strings.Repeat("x", document.MaxValue+1)
	for name, test := range map[string]struct {
		environ []string
		want    string
	}{
		"unknown":             {[]string{"SENDCODE_COLOUR=red"}, "SENDCODE_COLOUR: there is no such variable"},
		"a letter left out":   {[]string{"SENDCODE_ADR=x"}, "SENDCODE_ADR: there is no such variable, did you mean SENDCODE_ADDR?"},
		"unknown and empty":   {[]string{"SENDCODE_REDIS="}, "SENDCODE_REDIS: there is no such variable"},
		"port":                {[]string{"SENDCODE_PORT=80"}, "SENDCODE_PORT: there is no such variable, did you mean SENDCODE_ADDR=host:port?"},
		"file of no secret":   {[]string{"SENDCODE_ADDR_FILE=/x"}, "SENDCODE_ADDR_FILE: there is no such variable"},
		"control in its name": {[]string{"SENDCODE_A\n=x"}, `"SENDCODE_A\n": there is no such variable`},

		"twice":           {[]string{"SENDCODE_API_KEY=" + goodKey, "SENDCODE_API_KEY_FILE=/x"}, "SENDCODE_API_KEY: is given twice, also as SENDCODE_API_KEY_FILE; keep one"},
		"no such file":    {[]string{"SENDCODE_API_KEY_FILE=/x"}, "SENDCODE_API_KEY_FILE: /x cannot be read: file does not exist"},
		"empty file":      {[]string{"SENDCODE_API_KEY_FILE=/empty"}, "SENDCODE_API_KEY_FILE: /empty is empty"},
		"two lines":       {[]string{"SENDCODE_API_KEY_FILE=/two"}, "SENDCODE_API_KEY_FILE: contains a line break or another control character"},
		"control":         {[]string{"SENDCODE_DATA_DIR=a\x1bb"}, "SENDCODE_DATA_DIR: contains a line break or another control character"},
		"not UTF-8":       {[]string{"SENDCODE_DATA_DIR=\xff"}, "SENDCODE_DATA_DIR: is not UTF-8 text"},
		"too long":        {[]string{"SENDCODE_DATA_DIR=" + long}, "SENDCODE_DATA_DIR: is longer than 65536 bytes"},
		"no such config":  {[]string{"SENDCODE_CONFIG=/x"}, "SENDCODE_CONFIG: /x cannot be read: file does not exist"},
		"level":           {[]string{"SENDCODE_LOG_LEVEL=loud"}, "SENDCODE_LOG_LEVEL: must be debug, info, warn or error"},
		"address":         {[]string{"SENDCODE_ADDR=8080"}, "SENDCODE_ADDR: must be host:port, as in 127.0.0.1:8080"},
		"port too high":   {[]string{"SENDCODE_ADDR=localhost:65536"}, "SENDCODE_ADDR: the port must be a number from 0 to 65535"},
		"port padded":     {[]string{"SENDCODE_ADDR=localhost:080"}, "SENDCODE_ADDR: the port must be a number from 0 to 65535"},
		"host":            {[]string{"SENDCODE_ADDR=a b:80"}, "SENDCODE_ADDR: the host must be an IP address or a host name"},
		"same address":    {[]string{"SENDCODE_ADMIN_ADDR=127.0.0.1:8080"}, "SENDCODE_ADMIN_ADDR: is the same as SENDCODE_ADDR; leave it out to have both there"},
		"sender":          {[]string{"SENDCODE_MAIL_FROM=Shop"}, "SENDCODE_MAIL_FROM: must be one sender such as Shop <no-reply@shop.example>"},
		"sender exotic":   {[]string{`SENDCODE_MAIL_FROM=<"a b"@c.example>`}, "SENDCODE_MAIL_FROM: must be one sender such as Shop <no-reply@shop.example>"},
		"sender too long": {[]string{"SENDCODE_MAIL_FROM=" + strings.Repeat("a", 65) + "@b.example"}, "SENDCODE_MAIL_FROM: the address is too long"},
		"sender injects":  {[]string{"SENDCODE_MAIL_FROM==?utf-8?q?a=0D=0ABcc?= <a@b.example>"}, "SENDCODE_MAIL_FROM: the name contains a control character"},

		"selector":          {[]string{"SENDCODE_DKIM_SELECTOR=s1._domainkey"}, "SENDCODE_DKIM_SELECTOR: must be a DKIM selector: letters, digits, - and dots between them, at most 63"},
		"database scheme":   {[]string{"SENDCODE_DATABASE_URL=mysql://u:p@h/d"}, "SENDCODE_DATABASE_URL: must begin with postgres://"},
		"database no host":  {[]string{"SENDCODE_DATABASE_URL=postgres:///d"}, "SENDCODE_DATABASE_URL: has no host: postgres://user:password@host:5432/database"},
		"database DSN":      {[]string{"SENDCODE_DATABASE_URL=host=h password=hidden"}, "SENDCODE_DATABASE_URL: " + address.Unreadable},
		"database password": {[]string{"SENDCODE_DATABASE_URL=postgres://u:12/hidden@h/d"}, "SENDCODE_DATABASE_URL: " + address.Unreadable},
		"database two @":    {[]string{"SENDCODE_DATABASE_URL=postgres://u:p@hidden@h/d"}, "SENDCODE_DATABASE_URL: " + address.Unreadable},
		"database percent":  {[]string{"SENDCODE_DATABASE_URL=postgres://u:100%hidden@h/d"}, "SENDCODE_DATABASE_URL: " + address.Unreadable},
		"database port":     {[]string{"SENDCODE_DATABASE_URL=postgres://u:p@h:x/d"}, "SENDCODE_DATABASE_URL: the host or the port is not valid; the form is postgres://user:password@host:5432/database"},
		"database masked":   {[]string{"SENDCODE_DATABASE_URL=postgres://u:***@h/d"}, "SENDCODE_DATABASE_URL: " + address.Masked},
		"redis scheme":      {[]string{"SENDCODE_REDIS_URL=http://h"}, "SENDCODE_REDIS_URL: it starts with redis://, rediss://, redis+sentinel:// or redis+cluster://"},
		"redis cluster":     {[]string{"SENDCODE_REDIS_URL=redis+cluster://u:hidden@h1,h2/0"}, "SENDCODE_REDIS_URL: Cluster has no numbered databases, nothing goes behind the hosts"},
		"redis password":    {[]string{"SENDCODE_REDIS_URL=redis://u:12?hidden@h"}, "SENDCODE_REDIS_URL: " + address.Unreadable},
		"redis parameter":   {[]string{"SENDCODE_REDIS_URL=redis+sentinel://h/m/0?sentinel_password=a&hidden=b"}, "SENDCODE_REDIS_URL: has a path or a parameter that is not known or not valid; docs/configuration.md has the form"},
		"redis ca":          {[]string{"SENDCODE_REDIS_URL=rediss://h?ca=/no/hidden.pem"}, "SENDCODE_REDIS_URL: ca names a file that cannot be read: no such file or directory"},
		"redis masked":      {[]string{"SENDCODE_REDIS_URL=redis+sentinel://h/m/0?sentinel_password=***"}, "SENDCODE_REDIS_URL: " + address.Masked},
		"smtp password":     {[]string{"SENDCODE_SMTP_URL=smtp://u:12#hidden@h"}, "SENDCODE_SMTP_URL: " + address.Unreadable},
		"smtp tls":          {[]string{"SENDCODE_SMTP_URL=smtp://h,smtp://h?tls=maybe"}, "SENDCODE_SMTP_URL: server 2: tls must be required, opportunistic or none"},

		"ring":              {[]string{"SENDCODE_SECRET_KEYS=" + goodRing + ",k2:hidden"}, "SENDCODE_SECRET_KEYS: entry 2: the key is not base64"},
		"index short":       {[]string{"SENDCODE_INDEX_KEY=c2hvcnQ="}, "SENDCODE_INDEX_KEY: the key has 5 bytes, at least 32 are needed"},
		"index with id":     {[]string{"SENDCODE_INDEX_KEY=k1:" + goodIndex}, "SENDCODE_INDEX_KEY: must be base64 alone, without an id"},
		"index weak":        {[]string{"SENDCODE_INDEX_KEY=" + strings.Repeat("A", 43) + "="}, "SENDCODE_INDEX_KEY: the key is a repeating pattern: make one with `openssl rand -base64 32`"},
		"index on ring":     {[]string{"SENDCODE_SECRET_KEYS=" + otherRing + "," + goodRing, "SENDCODE_INDEX_KEY=" + strings.TrimRight(goodRing[3:], "=")}, "SENDCODE_INDEX_KEY: is one of the keys of SENDCODE_SECRET_KEYS; it needs a key of its own"},
		"API key":           {[]string{"SENDCODE_API_KEY=hidden-hidden-hidden"}, "SENDCODE_API_KEY: must be sk_ and at least 8 letters, digits, _ or -; make one with `sendcode key`"},
		"API key public":    {[]string{"SENDCODE_API_KEY=pk_hiddenhiddenhidden"}, "SENDCODE_API_KEY: is a public key; the API key of the app default is a secret one (sk_…)"},
		"password":          {[]string{"SENDCODE_ADMIN_PASSWORD=elevenchars"}, "SENDCODE_ADMIN_PASSWORD: must have at least 12 characters"},
		"password in runes": {[]string{"SENDCODE_ADMIN_PASSWORD=日本語日本語"}, "SENDCODE_ADMIN_PASSWORD: must have at least 12 characters"},
		"password of one":   {[]string{"SENDCODE_ADMIN_PASSWORD=éééééééééééé"}, "SENDCODE_ADMIN_PASSWORD: is one character again and again"},
		"password is hash":  {[]string{"SENDCODE_ADMIN_PASSWORD=" + goodHash}, "SENDCODE_ADMIN_PASSWORD: is a hash; give it as SENDCODE_ADMIN_PASSWORD_HASH"},
		"password twice":    {[]string{"SENDCODE_ADMIN_PASSWORD=a long password", "SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash}, "SENDCODE_ADMIN_PASSWORD_HASH: is given beside the password itself; keep one"},
		"hash":              {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=$2a$10$hidden"}, "SENDCODE_ADMIN_PASSWORD_HASH: must be an argon2id hash such as $argon2id$v=19$m=65536,t=3,p=4$salt$hash"},
		"hash weak":         {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=" + strings.Replace(goodHash, "m=65536,t=3", "m=7168,t=4", 1)}, "SENDCODE_ADMIN_PASSWORD_HASH: t must be at most 20, and m times t at least 35840"},
		"hash little":       {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=" + strings.Replace(goodHash, "m=65536,t=3", "m=7167,t=20", 1)}, "SENDCODE_ADMIN_PASSWORD_HASH: m must be from 7168 to 1048576 (KiB)"},
		"hash costly":       {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=" + strings.Replace(goodHash, "m=65536", "m=4194304", 1)}, "SENDCODE_ADMIN_PASSWORD_HASH: m must be from 7168 to 1048576 (KiB)"},
		"hash slow":         {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=" + strings.Replace(goodHash, "t=3", "t=21", 1)}, "SENDCODE_ADMIN_PASSWORD_HASH: t must be at most 20, and m times t at least 35840"},
		"hash lanes":        {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=" + strings.Replace(goodHash, "p=4", "p=256", 1)}, "SENDCODE_ADMIN_PASSWORD_HASH: p must be at most 255"},
		"hash short":        {[]string{"SENDCODE_ADMIN_PASSWORD_HASH=$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$c2hvcnQ"}, "SENDCODE_ADMIN_PASSWORD_HASH: the salt must have 8 to 64 bytes and the hash 16 to 64, in base64 without padding"},
		"token":             {[]string{"SENDCODE_ADMIN_TOKEN=nineteen-characters"}, "SENDCODE_ADMIN_TOKEN: must have at least 20 letters, digits or any of . _ ~ + / = - (RFC 6750)"},

		"no ring for others":    {without(reachable, "SENDCODE_SECRET_KEYS"), "SENDCODE_SECRET_KEYS: must be given, because 0.0.0.0:8080 can be reached from other machines: make one with `sendcode key --kind ring`, the same for every replica"},
		"no index for others":   {without(reachable, "SENDCODE_INDEX_KEY"), "SENDCODE_INDEX_KEY: must be given, because 0.0.0.0:8080 can be reached from other machines: make one with `sendcode key --kind index`, the same for every replica"},
		"no API key for others": {without(reachable, "SENDCODE_API_KEY"), "SENDCODE_API_KEY: must be given, because 0.0.0.0:8080 can be reached from other machines: make one with `sendcode key`, or list keys of apps in the file"},
		"no server for others":  {without(reachable, "SENDCODE_SMTP_URL"), "SENDCODE_SMTP_URL: must be given, because 0.0.0.0:8080 can be reached from other machines: the dev mailbox shows every code and is for loopback addresses only"},
		"short key for others":  {with(reachable, "SENDCODE_API_KEY=sk_1234567890123456789"), "SENDCODE_API_KEY: is too short for 0.0.0.0:8080, which can be reached from other machines: make one with `sendcode key`"},
		"bad ring for others":   {with(reachable, "SENDCODE_SECRET_KEYS=k1:hidden"), "SENDCODE_SECRET_KEYS: entry 1: the key is not base64"},
		"lost ring for others":  {with(without(reachable, "SENDCODE_SECRET_KEYS"), "SENDCODE_SECRET_KEYS_FILE=/x"), "SENDCODE_SECRET_KEYS_FILE: /x cannot be read: file does not exist"},
		"open console": {with(without(reachable, "SENDCODE_SMTP_URL"), "SENDCODE_ADDR=localhost:1", "SENDCODE_ADMIN_ADDR=:9000"),
			"SENDCODE_SMTP_URL: must be given, because :9000 can be reached from other machines: the dev mailbox shows every code and is for loopback addresses only"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(test.environ, files{"/empty": " \n", "/two": "sk_hidden\nsk_hidden"}.read)
			if got := mistakes(err); len(got) != 1 || got[0] != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("shows a secret: %v", err)
			}
		})
	}
}

func TestMistakesOfTheFile(t *testing.T) {
	const hash = "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
	app := func(fields string) string { return "apps:\n  - {name: shop, " + fields + "}" }
	key := func(fields string) string { return app("keys: [{" + fields + "}]") }
	origin := func(o string) string { return app("origins: ['" + o + "']") }
	rule := func(fields string) string {
		return "policies:\n  p:\n    - {name: week, scope: recipient, limit: 1, window: 1h}\n    - {" + fields + "}"
	}
	refused(t, map[string]string{
		"a: [": "c.yaml: is not YAML: line 1: did not find expected node content",
		"- a":  "c.yaml:1: must be key: value pairs",
		"addr: localhost:1\n---\naddr: localhost:2": "c.yaml: holds more than one YAML document; keep one",
		strings.Repeat("#", document.MaxSize+1):     "c.yaml: is larger than 262144 bytes",
		"polices: {}":                               "c.yaml:1: polices: there is no such key, did you mean policies?",
		`"a\nb": 1`:                                 `c.yaml:1: "a\nb": there is no such key`,
		"[a]: 1":                                    "c.yaml:1: only plain words can be keys here",
		"purposes: {gift: {code: {lenght: 6}}}":     "c.yaml:1: purposes.gift.code.lenght: there is no such key, did you mean length?",
		"addr: localhost:1\naddr: localhost:2":      "c.yaml:2: addr: is there twice, first in line 1",
		"data_dir: &a x\ntemplates: *a":             "c.yaml:2: templates: anchors and aliases are not read here; write the value out",
		"<<: {addr: x}":                             "c.yaml:1: only plain words can be keys here",
		"data_dir: !x y":                            "c.yaml:1: data_dir: tags such as !x are not read here",
		"data_dir: !!binary eA==":                   "c.yaml:1: data_dir: tags such as !x are not read here",
		"data_dir: [a]":                             "c.yaml:1: data_dir: must be a single value",
		"data_dir: \"a\\nb\"":                       "c.yaml:1: data_dir: is too long, or contains a line break or another control character",
		"api_key: sk_hidden":                        "c.yaml:1: api_key: is a secret and does not belong in this file; give SENDCODE_API_KEY or SENDCODE_API_KEY_FILE",

		app("mail_from: Shop"):                                           "c.yaml:2: apps[0].mail_from: must be one sender such as Shop <no-reply@shop.example>",
		app("brand: {accent: red}"):                                      "c.yaml:2: apps[0].brand.accent: must be a colour such as \"#1f5fd1\", in quotes",
		app("brand: {home: 'http://shop.example'}"):                      "c.yaml:2: apps[0].brand.home: must be a URL such as https://shop.example/, with https",
		app("brand: {home: 'javascript:alert(1)'}"):                      "c.yaml:2: apps[0].brand.home: must be a URL such as https://shop.example/, with https",
		app("brand: {logo: 'https://shop.example/l.svg; script-src *'}"): "c.yaml:2: apps[0].brand.logo: must be the URL of an image such as https://shop.example/logo.svg, with https, a plain path and no query",
		app("brand: {logo: 'https://shop.example/l.svg?v=1'}"):           "c.yaml:2: apps[0].brand.logo: must be the URL of an image such as https://shop.example/logo.svg, with https, a plain path and no query",

		"policies: [a]":      "c.yaml:1: policies: must be key: value pairs",
		"policies: {p: []}":  "c.yaml:1: policies.p: there is no rule",
		"policies: {p: [1]}": "c.yaml:1: policies.p[0]: must be key: value pairs",
		rule("name: A b, scope: ip, limit: 1, window: 1h"):                                                                      "c.yaml:4: policies.p[1].name: is not of the form",
		rule("name: week, scope: ip, limit: 1, window: 1h"):                                                                     "c.yaml:4: policies.p[1].name: is used",
		rule("name: a, scope: ip, window: 1h"):                                                                                  "c.yaml:4: policies.p[1]: limit is missing",
		rule("name: a, scope: ip, limit: 0, window: 1h"):                                                                        "c.yaml:4: policies.p[1].limit: 0 is",
		rule("name: a, scope: ip, limit: many, window: 1h"):                                                                     "c.yaml:4: policies.p[1].limit: must be a whole number",
		rule("name: a, scope: ip, limit: 1"):                                                                                    "c.yaml:4: policies.p[1]: window is missing",
		rule("name: a, scope: ip, limit: 1, window: 60"):                                                                        "c.yaml:4: policies.p[1].window: needs a unit: s, m or h, as in 60s",
		rule("name: a, scope: ip, limit: 1, window: 7d"):                                                                        "c.yaml:4: policies.p[1].window: days and weeks are written in hours: 24h, 168h",
		rule("name: a, scope: ip, limit: 1, window: soon"):                                                                      "c.yaml:4: policies.p[1].window: is not a duration such as 60s, 10m or 1h",
		rule("name: a, scope: ip, limit: 1, window: 1500ms"):                                                                    "c.yaml:4: policies.p[1].window: must be whole seconds",
		rule("name: a, scope: ip, limit: 1, window: 744h1s"):                                                                    "c.yaml:4: policies.p[1].window: 744h0m1s is",
		rule("name: a, scope: ip, limit: 1, per: [day], time_zone: UTC"):                                                        "c.yaml:4: policies.p[1].per: must be a single value",
		rule("name: a, scope: ip, limit: 1, per: day, window: 24h"):                                                             "c.yaml:4: policies.p[1].window: does not go together with per",
		rule("name: a, scope: ip, limit: 1, per: day, time_zone: Asia/Peking"):                                                  "c.yaml:4: policies.p[1].time_zone: there is no time zone Asia/Peking; they have names such as Asia/Shanghai",
		rule("name: a, scope: ip, limit: 1, per: day, time_zone: Local"):                                                        "c.yaml:4: policies.p[1].time_zone: there is no time zone Local; ",
		rule("name: a, scope: ip, limit: 1, window: 1h, time_zone: UTC"):                                                        "c.yaml:4: policies.p[1].time_zone: goes together with per or days only",
		rule("name: failures, scope: ip, limit: 1, window: 1h"):                                                                 "c.yaml:4: policies.p[1].name: is the name of the rule with scope failures",
		rule("name: failures, scope: failures, limit: 1, per: day"):                                                             "c.yaml:4: policies.p[1].per: a rule with scope failures has a window",
		rule("name: a, scope: ip, limit: 1, days: 0"):                                                                           "c.yaml:4: policies.p[1].days: 0 is not within 1 and 31",
		rule("name: a, scope: ip, limit: 1, days: week, time_zone: UTC"):                                                        "c.yaml:4: policies.p[1].days: ",
		rule("name: bad, scope: failures, limit: 1, window: 1h}\n    - {name: failures, scope: failures, limit: 1, window: 1h"): "c.yaml:5: policies.p[2].scope: there is another rule with scope failures",
		"policies:\n  7Days:\n    - {name: week, scope: recipient, limit: 1, window: 1h}":                                       `c.yaml:3: policies.7Days: policy name "7Days" is`,

		"purposes: {Gift: {}}":                "c.yaml:1: purposes.Gift: a name has 1 to 32 of a-z 0-9 _ -",
		"purposes: {gift: {policy: defualt}}": "c.yaml:1: purposes.gift.policy: there is no policy defualt, did you mean default?",
		"policies: {p: [{name: a, scope: ip, limit: 1, window: 1h}]}\npurposes: {x: {policy: p}, y: {policy: p}}":       "c.yaml:2: purposes.x.policy: the policy p has no rule with scope recipient that is enforced; every purpose needs one",
		"policies: {p: [{name: a, scope: recipient, limit: 1, window: 1h, mode: observe}]}\npurposes: {x: {policy: p}}": "c.yaml:2: purposes.x.policy: the policy p has no rule with scope recipient that is enforced; every purpose needs one",
		"policies: {default: [{name: a, scope: ip, limit: 1, window: 1h}]}":                                             "purposes.default: the policy default has no rule with scope recipient that is enforced; every purpose needs one",
		"purposes: {x: {ttl: 601s}}":         "c.yaml:1: purposes.x.ttl: must be from 30s to 10m: a code may not live longer than ten minutes",
		"purposes: {x: {code: {length: 5}}}": "c.yaml:1: purposes.x.code.length: must be from 6 to 10",

		"apps: [{origins: []}]":                                        "c.yaml:1: apps[0]: name is missing",
		"apps: [{name: a}, {name: a}]":                                 "c.yaml:1: apps[1].name: there is another app with this name",
		app("title: 'see https://x'"):                                  "c.yaml:2: apps[0].title: must not look like a link or an address",
		app("title: evil.example"):                                     "c.yaml:2: apps[0].title: must not look like a link or an address",
		app("title: " + strings.Repeat("x", 65)):                       "c.yaml:2: apps[0].title: must be at most 64 characters",
		app(`title: "a\u202eb"`):                                       "c.yaml:2: apps[0].title: must be printable characters",
		origin("https://*.example"):                                    "c.yaml:2: apps[0].origins[0]: must be one exact origin; patterns are not allowed",
		origin("null"):                                                 "c.yaml:2: apps[0].origins[0]: must be an origin such as https://shop.example",
		origin("https://a.example/"):                                   "c.yaml:2: apps[0].origins[0]: must be written as browsers send it: https://a.example",
		origin("https://a.example:443"):                                "c.yaml:2: apps[0].origins[0]: must be written as browsers send it: https://a.example",
		origin("https://münchen.example"):                              "c.yaml:2: apps[0].origins[0]: must be written with the ASCII form of its domain (xn--…), as browsers send it",
		origin("https://a.example:"):                                   "c.yaml:2: apps[0].origins[0]: must be an origin such as https://shop.example",
		origin("https://hidden@a.example"):                             "c.yaml:2: apps[0].origins[0]: must be an origin such as https://shop.example",
		key("id: a, kind: secret"):                                     "c.yaml:2: apps[0].keys[0]: sha256 is missing",
		key("id: a, kind: sk_hidden, sha256: " + hash):                 "c.yaml:2: apps[0].keys[0].kind: must be secret or public",
		key("id: a, kind: secret, sha256: sk_hidden"):                  "c.yaml:2: apps[0].keys[0].sha256: must be the 64 hexadecimal digits that `sendcode key` prints, not the key",
		key("id: a, kind: secret, expires: tomorrow, sha256: " + hash): "c.yaml:2: apps[0].keys[0].expires: is not a day such as 2027-01-31 or a time such as 2027-01-31T08:00:00Z",
		key("id: a, kind: secret, scopes: [sned], sha256: " + hash):    "c.yaml:2: apps[0].keys[0].scopes[0]: must be send, check, read or limit, did you mean send?",
		key("id: a, kind: secret, scopes: [], sha256: " + hash):        "c.yaml:2: apps[0].keys[0].scopes: names no scope; leave it out for all of them",
		key("id: a, scopes: [send], kind: public, sha256: " + hash):    "c.yaml:2: apps[0].keys[0]: scopes are for secret keys; a public key may do what browsers may",
		key("id: a, kind: secret, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"):                           "c.yaml:2: apps[0].keys[0].sha256: is not the hash of a key",
		key("id: a, kind: secret, sha256: '" + strings.Repeat("0", 64) + "'"):                                                          "c.yaml:2: apps[0].keys[0].sha256: is not the hash of a key",
		key("id: SK_HIDDEN hidden, kind: secret, sha256: " + hash):                                                                     "c.yaml:2: apps[0].keys[0].id: a name has 1 to 32 of a-z 0-9 _ -",
		key("id: api_key, kind: secret, sha256: " + hash):                                                                              "c.yaml:2: apps[0].keys[0].id: is the id of SENDCODE_API_KEY; choose another",
		app("keys: [{id: a, kind: secret, sha256: " + hash + "}, {id: a, kind: secret, sha256: " + strings.ToUpper(hash[2:]) + "00}]"): "c.yaml:2: apps[0].keys[1].id: another key of this app has the same id",
		app("keys: [{id: a, kind: secret, sha256: " + hash + "}, {id: b, kind: public, sha256: " + strings.ToUpper(hash) + "}]"):       "c.yaml:2: apps[0].keys[1].sha256: another key has the same hash",

		"trusted_proxies: 10.0.0.0/8":              "c.yaml:1: trusted_proxies: must be a list",
		"trusted_proxies: [proxy]":                 "c.yaml:1: trusted_proxies[0]: is not a network such as 10.0.0.0/8 or fd00::/8",
		"trusted_proxies: ['fe80::1%eth0']":        "c.yaml:1: trusted_proxies[0]: is not a network such as 10.0.0.0/8 or fd00::/8",
		"trusted_proxies: [0.0.0.0/0]":             "c.yaml:1: trusted_proxies[0]: would trust every client, and let each choose the address that the rules look at",
		"trusted_proxies: ['::ffff:10.0.0.0/104']": "c.yaml:1: trusted_proxies[0]: is an IPv4 network in IPv6 form; write it as IPv4",
		"page: {channels: [email, fax]}":           "c.yaml:1: page.channels[1]: fax is no channel; there are email and sms",
		"smtp_url: smtp://mail.example\nmail_from: a@mail.example\npage: {channels: [sms]}": "c.yaml:3: page.channels[0]: sms needs a carrier: without one, and without the dev mailbox, text messages go nowhere",
		"page: {country: Germany}":                    "c.yaml:1: page.country: Germany is no country such as DE (ISO 3166-1), nor \"001\" for satellite and international numbers",
		"page: {country: DE}\nsms: {countries: [US]}": "c.yaml:1: page.country: DE is not among the countries of sms",
		"page: {app: defalt}":                         "c.yaml:1: page.app: there is no app defalt, did you mean default?",
	})
}

// A mistake in a policy is no mistake of the purposes that name it.
func TestMistakesDoNotBreedOthers(t *testing.T) {
	_, err := loadYAML("policies: {default: [], p: [1]}\npurposes: {x: {policy: p}, y: }", "SENDCODE_ADDR=x", "SENDCODE_CONFIG=c.yaml")
	want := []string{
		"c.yaml:1: policies.default: there is no rule",
		"c.yaml:1: policies.p[0]: must be key: value pairs",
		"SENDCODE_ADDR: must be host:port, as in 127.0.0.1:8080",
	}
	if got := mistakes(err); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestKeyOfTheEnvironmentIsInTheFileToo(t *testing.T) {
	file := fmt.Sprintf("apps: [{name: shop, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf(goodKey))
	_, err := loadYAML(file, "SENDCODE_API_KEY="+goodKey)
	if got := mistakes(err); !slices.Equal(got, []string{"SENDCODE_API_KEY: is also among the keys of the file"}) {
		t.Errorf("got %q", got)
	}
}

func TestTwentyMistakesInOneList(t *testing.T) {
	_, err := loadYAML(`
addr: nowhere
polices: {}
api_key: x
policies:
  p:
    - {name: a, scope: contry, limit: 1, window: 1h}
    - {name: B, scope: ip, limit: 0, window: 7d, mode: watch}
    - {scope: recipient}
purposes:
  x: {policy: q, ttl: 1h, code: {length: 4, alphabet: letters}, notify: loud}
apps:
  - {name: shop, origins: ["*"], keys: [{id: a, kind: secret}]}
trusted_proxies: [0.0.0.0/0]
page: {app: shopp}
`, "SENDCODE_XYZ=x", "SENDCODE_ADR=x", "SENDCODE_Q=", "SENDCODE_REDIS_URL=x", "SENDCODE_ADMIN_PASSWORD=short", "SENDCODE_SECRET_KEYS_FILE=/none", "SENDCODE_LOG_LEVEL=loud", "SENDCODE_MAIL_FROM=x")
	want := []string{
		"SENDCODE_ADR", "SENDCODE_Q", "SENDCODE_XYZ", "SENDCODE_SECRET_KEYS_FILE", "c.yaml:3: polices", "c.yaml:4: api_key", "c.yaml:7: policies.p[0].scope",
		"c.yaml:8: policies.p[1].window", "c.yaml:8: policies.p[1].mode", "c.yaml:8: policies.p[1].name", "c.yaml:8: policies.p[1].limit",
		"c.yaml:9: policies.p[2]", "c.yaml:9: policies.p[2]", "c.yaml:9: policies.p[2]",
		"c.yaml:11: purposes.x.ttl", "c.yaml:11: purposes.x.code.length", "c.yaml:11: purposes.x.code.alphabet", "c.yaml:11: purposes.x.notify",
		"c.yaml:13: apps[0].origins[0]", "c.yaml:13: apps[0].keys[0]", "c.yaml:14: trusted_proxies[0]",
		"c.yaml:2: addr", "SENDCODE_REDIS_URL", "SENDCODE_MAIL_FROM", "SENDCODE_LOG_LEVEL", "SENDCODE_ADMIN_PASSWORD",
		"c.yaml:11: purposes.x.policy", "c.yaml:15: page.app",
	}
	var got []string
	for _, m := range err.(*document.Errors).Mistakes {
		got = append(got, m.Where)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text := err.Error()
	if !strings.HasPrefix(text, fmt.Sprintf("the configuration has %d mistakes:\n  - ", len(want))) || strings.Count(text, "\n") != len(want) {
		t.Errorf("not one line for each: %s", text)
	}
}
