package config

import (
	"encoding/hex"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/config/document"
	"sendcode/quota"
)

// The environment's proxies take the place of the file's.
func TestTrustedProxiesFromTheEnvironment(t *testing.T) {
	c, err := loadYAML("trusted_proxies: [192.0.2.7]", "SENDCODE_TRUSTED_PROXIES=10.1.2.3/8, fd00::/8,127.0.0.1")
	if err != nil || !strings.Contains(c.YAML(), "trusted_proxies: [10.0.0.0/8, 'fd00::/8', 127.0.0.1/32]") {
		t.Errorf("%v\n%v", err, c)
	}
	for _, wrong := range []string{"proxy", "0.0.0.0/0", "10.0.0.0/8,,", "::ffff:10.0.0.0/104"} {
		if _, err := loadYAML("", "SENDCODE_TRUSTED_PROXIES="+wrong); err == nil || !strings.Contains(err.Error(), "SENDCODE_TRUSTED_PROXIES: ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestNothingGiven(t *testing.T) {
	c, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Addr: "127.0.0.1:8080", DataDir: "./data", MailFrom: "sendcode <no-reply@localhost>", LogLevel: slog.LevelInfo,
		Policies: map[string]quota.Policy{"default": {Name: "default", Rules: []quota.Rule{
			{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: 60 * time.Second},
			{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
			{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
			{Name: "failures", Scope: quota.Failures, Limit: 20, Window: 24 * time.Hour},
		}}},
		Purposes: map[string]Purpose{"default": {
			Name: "default", Policy: "default", TTL: 10 * time.Minute, Code: Code{6, "digits"}, Notify: Private,
		}},
		Apps:         []App{{Name: "default"}},
		Page:         Page{App: "default"},
		Checks:       Checks{Network: Bound{100, time.Hour}, WideNetwork: Bound{300, time.Hour}, App: Bound{10_000, time.Hour}},
		Spellings:    Bound{20, 24 * time.Hour},
		Suppressions: Suppressions{For: 720 * time.Hour},
		Retention:    2160 * time.Hour,

		RequestsPerMinute: 300,
		SMS:               document.Defaults[SMS](),
		Admin:             Admin{SecondFactor: "optional", TokenRole: "reader"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%v\nwant\n%v", c, want)
	}
	if !c.Loopback() || c.AdminEnabled() {
		t.Error("the default must be on loopback, with a console that has no password yet")
	}
}

func TestFileInFull(t *testing.T) {
	c, err := loadYAML(`
addr: localhost:9000
templates: ./mails
policies:
  gift:
    - {name: week, scope: recipient, limit: 3, window: 168h}
    - {name: office, scope: ip, limit: 100, window: 60s}
purposes:
  login:
  d:
  c:
  b:
  a:
  gift: {policy: gift, ttl: 90s, code: {length: 8, alphabet: unambiguous}, notify: glance}
apps:
  - name: shop
    title: The Shop
    origins: ["https://shop.example", "http://localhost:3000"]
    keys:
      - {id: k1, kind: secret, sha256: 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5}
      - {id: k2, kind: public, sha256: 481f6cc0511143ccdd7e2d1b1b94faf0a700a8b49cd13922a70b5ae28acaa8c5}
trusted_proxies: [10.1.2.3/8, 192.0.2.7, "fd00::/8"]
page: {app: shop, channels: [sms, email], country: DE}
`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != "localhost:9000" || c.Templates != "./mails" || c.Page.App != "shop" {
		t.Errorf("single values: %v", c)
	}
	if got := slices.Sorted(maps.Keys(c.Policies)); !slices.Equal(got, []string{"default", "gift"}) {
		t.Errorf("policies %v, the default must stay", got)
	}
	if got := c.Purposes["login"]; got != newPurpose("login") {
		t.Errorf("a purpose without fields: %+v", got)
	}
	want := Purpose{Name: "gift", Policy: "gift", TTL: 90 * time.Second, Code: Code{8, "unambiguous"}, Notify: Glance}
	if got := c.Purposes["gift"]; got != want {
		t.Errorf("gift: %+v", got)
	}
	if got := c.PurposesOf("default"); !slices.Equal(got, []string{"a", "b", "c", "d", "default", "login"}) {
		t.Errorf("purposes of default: %v", got)
	}
	shop, ok := c.App("shop")
	if !ok || len(c.Apps) != 2 || c.Apps[0].Name != DefaultApp || len(shop.Keys) != 2 || shop.Keys[1].Kind != PublicKey ||
		shop.Keys[0].SHA256[0] != 0x59 || len(shop.Origins) != 2 || shop.Title != "The Shop" {
		t.Errorf("apps: %+v", c.Apps)
	}
	var proxies []string
	for _, p := range c.TrustedProxies {
		proxies = append(proxies, p.String())
	}
	if !slices.Equal(proxies, []string{"10.0.0.0/8", "192.0.2.7/32", "fd00::/8"}) {
		t.Errorf("proxies: %v", proxies)
	}
}

func TestDefaultPolicyIsReplacedByName(t *testing.T) {
	c, err := loadYAML("policies:\n  default:\n    - {name: day, scope: recipient, limit: 2, window: 24h}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Policies["default"].Rules; len(got) != 2 || got[0].Limit != 2 {
		t.Errorf("rules %v", got)
	}
}

func TestEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	const file = "addr: 127.0.0.1:1111\ndata_dir: /file\nmail_from: F <f@file.example>\nlog_level: debug\n" +
		"admin_addr: 127.0.0.1:2222\ndatabase_url: postgres://file/x\nredis_url: redis://file:1\nsmtp_url: smtp://127.0.0.1:25\n"
	c, err := loadYAML(file, "SENDCODE_ADDR=127.0.0.1:3333", "SENDCODE_REDIS_URL=redis://env:1", "SENDCODE_DATA_DIR=")
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != "127.0.0.1:3333" || c.RedisURL != "redis://env:1" {
		t.Errorf("the environment must win: %v", c)
	}
	if c.DataDir != "/file" || c.AdminAddr != "127.0.0.1:2222" || c.DatabaseURL != "postgres://file/x" ||
		c.SMTPURL != "smtp://127.0.0.1:25" || c.MailFrom != "F <f@file.example>" || c.LogLevel != slog.LevelDebug {
		t.Errorf("the file must win over defaults, an empty variable over nothing: %v", c)
	}
	if c.MailDomain() != "file.example" {
		t.Errorf("domain %q", c.MailDomain())
	}
}

// Whatever has no value is left out.
func TestNothingInTheFile(t *testing.T) {
	want, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"", "~", "---", "# nothing", "{}", "addr:\ndata_dir:\ntemplates: ~\npolicies:\npurposes:\napps:\ntrusted_proxies:\npage:\n",
		"policies: {}\npurposes: {default: }\napps: []\ntrusted_proxies: []\npage: {app: }\nredis_url: ''",
		"purposes: {default: {policy: , ttl: , code: {length: , alphabet: }, notify: }}\napps: [{name: default, title: , origins: , keys: }]",
	} {
		got, err := loadYAML(file)
		got.File = want.File
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v\n%v", file, err, got)
		}
	}
}

func TestMistakeNamesWhereTheValueCameFrom(t *testing.T) {
	_, err := loadYAML("mail_from: x\naddr: nowhere\n", "SENDCODE_ADDR=alsonowhere")
	want := []string{
		"SENDCODE_ADDR: must be host:port, as in 127.0.0.1:8080",
		"c.yaml:1: mail_from: must be one sender such as Shop <no-reply@shop.example>",
	}
	if got := mistakes(err); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	disk := files{
		"/s/ring": goodRing + "," + otherRing + "\n", "/s/index": goodIndex, "/s/key": "\n " + goodKey + "\r\n", "/s/db": "postgres://u:p@h/d\n",
		"/s/token": "0123456789abcdefghij", "/s/password": "a long enough password\n", "/s/redis": "rediss://:p@h", "/s/smtp": goodSMTP,
	}
	c, err := Load([]string{
		"SENDCODE_SECRET_KEYS_FILE=/s/ring", "SENDCODE_INDEX_KEY_FILE=/s/index", "SENDCODE_API_KEY_FILE=/s/key",
		"SENDCODE_DATABASE_URL_FILE=/s/db", "SENDCODE_ADMIN_TOKEN_FILE=/s/token", "SENDCODE_ADMIN_PASSWORD_FILE=/s/password",
		"SENDCODE_REDIS_URL_FILE=/s/redis", "SENDCODE_SMTP_URL_FILE=/s/smtp",
	}, disk.read)
	if err != nil {
		t.Fatal(err)
	}
	if c.SecretKeys.Reveal() != goodRing+","+otherRing || c.IndexKey.Reveal() != goodIndex || c.APIKey.Reveal() != goodKey ||
		c.DatabaseURL != "postgres://u:p@h/d" || c.AdminToken.Reveal() != "0123456789abcdefghij" ||
		c.AdminPassword.Reveal() != "a long enough password" || c.RedisURL != "rediss://:p@h" || c.SMTPURL != goodSMTP {
		t.Error("a value differs from its file")
	}
	if len(c.IndexKeyBytes()) != 32 {
		t.Errorf("index key of %d bytes", len(c.IndexKeyBytes()))
	}
	c, err = Load([]string{"SENDCODE_ADMIN_PASSWORD_HASH_FILE=/s/hash"}, files{"/s/hash": goodHash}.read)
	if err != nil || c.AdminPasswordHash.Reveal() != goodHash || !c.AdminEnabled() {
		t.Errorf("hash: %v", err)
	}
}

func TestAPIKeyBelongsToTheDefaultApp(t *testing.T) {
	c, err := Load([]string{"SENDCODE_API_KEY=" + goodKey}, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	// printf %s sk_Jw7sT0bQ3nVxK9rLmPzD5cYh | sha256sum
	keys := c.Apps[0].Keys
	if len(keys) != 1 || keys[0].ID != "api_key" || keys[0].Kind != SecretKey || hex.EncodeToString(keys[0].SHA256[:]) != "edf8ee29d5e2fba786f14ece76b13aae5e56088b9e2a2525530df49bf6c88cbf" {
		t.Errorf("keys %+v", keys)
	}
}

// The bounds themselves are inside.
func TestBounds(t *testing.T) {
	c, err := loadYAML(`
policies: {default: [{name: least, scope: ip, limit: 1, window: 1s}, {name: most, scope: recipient, limit: 100000, window: 744h}]}
purposes: {least: {ttl: 30s, code: {length: 6}}, most: {ttl: 600s, code: {length: 10}}}
apps: [{name: default, title: `+strings.Repeat("é", 64)+`}]
`, "SENDCODE_ADMIN_PASSWORD=zwölf Zeiche", "SENDCODE_ADMIN_TOKEN=twenty-characters-ok", "SENDCODE_MAIL_FROM=Ü <"+strings.Repeat("a", 64)+"@SHOP.example>",
		"SENDCODE_ADDR=127.0.0.1:65535")
	if err != nil {
		t.Fatal(err)
	}
	if c.MailDomain() != "shop.example" {
		t.Errorf("domain %q", c.MailDomain())
	}
	for _, hash := range []string{"m=7168,t=5,p=1", "m=1048576,t=20,p=255"} {
		if _, err := Load([]string{"SENDCODE_ADMIN_PASSWORD_HASH=" + strings.Replace(goodHash, "m=65536,t=3,p=4", hash, 1)}, files{}.read); err != nil {
			t.Errorf("%s: %v", hash, err)
		}
	}
	if _, err := Load(with(reachable, "SENDCODE_API_KEY=sk_12345678901234567890"), files{}.read); err != nil {
		t.Error(err)
	}
	if _, err := Load([]string{"SENDCODE_ADMIN_ADDR=localhost:0", "SENDCODE_ADDR=localhost:0"}, files{}.read); err != nil {
		t.Errorf("two free ports: %v", err)
	}
}

// The first to connect to a server that the settings name is this test, not the check of its URL.
func TestNothingConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for range 50 {
		if _, err := Load([]string{
			"SENDCODE_REDIS_URL=redis://" + l.Addr().String() + "/0?min_idle_conns=4", "SENDCODE_SMTP_URL=smtp://" + l.Addr().String(),
			"SENDCODE_DATABASE_URL=postgres://" + l.Addr().String() + "/d", "SENDCODE_ADDR=" + l.Addr().String(),
		}, files{}.read); err != nil {
			t.Fatal(err)
		}
	}
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("a URL was not only looked at")
	}
}

func TestOrchestratorsAndTestsMaySetTheirOwn(t *testing.T) {
	_, err := Load([]string{
		"SENDCODE_SERVICE_HOST=10.0.0.1", "SENDCODE_SERVICE_PORT=80", "SENDCODE_SERVICE_PORT_HTTP=80", "SENDCODE_PORT=tcp://10.0.0.1:80",
		"SENDCODE_PORT_80_TCP=tcp://10.0.0.1:80", "SENDCODE_PORT_80_TCP_ADDR=10.0.0.1", "SENDCODE_REDIS_SERVICE_HOST=10.0.0.2",
		"SENDCODE_REDIS_PORT=tcp://10.0.0.2:6379", "SENDCODE_REDIS_PORT_6379_TCP_PROTO=tcp", "SENDCODE_TEST_REDIS=x", "PATH=/bin", "sendcode_addr=x", "ODD",
	}, files{}.read)
	if err != nil {
		t.Error(err)
	}
}

func TestReachableAddress(t *testing.T) {
	c, err := Load(reachable, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	if c.Loopback() || c.Page.App != "" || len(c.Warnings) != 0 {
		t.Errorf("loopback %v, page %q, warnings %q", c.Loopback(), c.Page.App, c.Warnings)
	}
	c, err = loadYAML("page: {app: default}\n", reachable...)
	if err != nil || c.Page.App != DefaultApp {
		t.Errorf("a page that is named: %v, %q", err, c.Page.App)
	}
}

func TestPageCanBeTurnedOff(t *testing.T) {
	c, err := loadYAML(`page: {app: ""}`)
	if err != nil || c.Page.App != "" {
		t.Errorf("%v, %q", err, c.Page.App)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:0": true, "[::1]:80": true, "localhost:80": true, "LOCALHOST:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.168.1.1:80": false, "localhost.example:80": false, "127.0.0.1.example:80": false,
	} {
		if got := (Config{Addr: addr}).Loopback(); got != want {
			t.Errorf("%s: %v", addr, got)
		}
		if (Config{Addr: addr, AdminAddr: "0.0.0.0:1"}).Loopback() {
			t.Errorf("%s with an open console passes for loopback", addr)
		}
		if got := (Config{Addr: "127.0.0.1:1", AdminAddr: addr}).Loopback(); got != want {
			t.Errorf("console at %s: %v", addr, got)
		}
	}
}
