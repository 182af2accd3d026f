package config

import (
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/config/document"
)

// The environment's proxies take the place of the file's.
func TestTrustedProxiesFromTheEnvironment(t *testing.T) {
	c := must(t, "trusted_proxies: [192.0.2.7]", "SENDCODE_TRUSTED_PROXIES=10.1.2.3/8, fd00::/8,127.0.0.1")
	if !strings.Contains(c.YAML(), "trusted_proxies: [10.0.0.0/8, 'fd00::/8', 127.0.0.1/32]") {
		t.Error(c)
	}
	for _, wrong := range []string{"proxy", "0.0.0.0/0", "10.0.0.0/8,,", "::ffff:10.0.0.0/104"} {
		if _, err := loadYAML("", "SENDCODE_TRUSTED_PROXIES="+wrong); err == nil || !strings.Contains(err.Error(), "SENDCODE_TRUSTED_PROXIES: ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// The golden file holds what is in force then, and a test below reads it back.
func TestNothingGiven(t *testing.T) {
	c, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "default.yaml", c.YAML())
	if !c.Loopback() || c.AdminEnabled() || len(c.Warnings) != 0 {
		t.Errorf("the default must be on loopback, with a console that has no password yet, and without warnings: %q", c.Warnings)
	}
}

func TestPurposes(t *testing.T) {
	c := must(t, `
policies: {gift: [{name: week, scope: recipient, limit: 3, window: 168h}]}
purposes: {login: , b: , gift: {policy: gift, ttl: 90s, code: {length: 8, alphabet: unambiguous}, notify: glance}}
`)
	if got := c.Purposes["login"]; got != document.Defaults[Purpose]() {
		t.Errorf("a purpose without fields: %+v", got)
	}
	want := Purpose{Policy: "gift", TTL: 90 * time.Second, Code: Code{8, "unambiguous"}, Notify: "glance"}
	if got := c.Purposes["gift"]; got != want {
		t.Errorf("gift: %+v", got)
	}
	if got := c.PurposesWithPolicy("default"); !slices.Equal(got, []string{"b", "default", "login"}) {
		t.Errorf("purposes of default: %v", got)
	}
}

func TestEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	const file = "addr: 127.0.0.1:1111\ndata_dir: /file\nmail_from: F <f@FILE.example>\nlog_level: debug\n" +
		"admin_addr: 127.0.0.1:2222\ndatabase_url: postgres://file/x\nredis_url: redis://file:1\nsmtp_url: smtp://127.0.0.1:25\n"
	c := must(t, file, "SENDCODE_ADDR=127.0.0.1:3333", "SENDCODE_REDIS_URL=redis://env:1", "SENDCODE_DATA_DIR=")
	if c.Addr != "127.0.0.1:3333" || c.RedisURL != "redis://env:1" {
		t.Errorf("the environment must win: %v", c)
	}
	if c.DataDir != "/file" || c.AdminAddr != "127.0.0.1:2222" || c.DatabaseURL != "postgres://file/x" ||
		c.SMTPURL != "smtp://127.0.0.1:25" || c.MailFrom != "F <f@FILE.example>" || c.LogLevel != slog.LevelDebug {
		t.Errorf("the file must win over defaults, an empty variable over nothing: %v", c)
	}
	if c.MailDomain() != "file.example" || c.File != "c.yaml" {
		t.Errorf("domain %q, file %q", c.MailDomain(), c.File)
	}
}

// Whatever has no value is left out.
func TestNothingInTheFile(t *testing.T) {
	want := must(t, "")
	for _, file := range []string{
		"~", "---", "# nothing", "{}", "addr:\ndata_dir:\ntemplates: ~\npolicies:\npurposes:\napps:\ntrusted_proxies:\npage:\n",
		"policies: {}\npurposes: {default: }\napps: []\ntrusted_proxies: []\npage: {app: , country: ''}\nredis_url: ''\nlog_level: ''\nsms: {origin: '', sender: ''}",
		"purposes: {default: {policy: , ttl: , code: {length: , alphabet: }, notify: }}\napps: [{name: default, title: , origins: , keys: }]",
	} {
		if got := must(t, file); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", file, got)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	for _, v := range variables {
		value := otherValues[v.key]
		if v.kind() != "file" || value == "" {
			continue
		}
		want, err := Load([]string{envName(v.key) + "=" + value}, files{}.read)
		got, fileErr := Load([]string{envName(v.key) + "_FILE=/s"}, files{"/s": "\n " + value + "\r\n"}.read)
		if err != nil || fileErr != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", v.key, err, fileErr)
		}
	}
}

// The bounds themselves are inside.
func TestBounds(t *testing.T) {
	must(t, `
policies: {default: [{name: least, scope: ip, limit: 1, window: 1s}, {name: most, scope: recipient, limit: 100000, window: 744h}]}
purposes: {least: {ttl: 30s, code: {length: 6}}, most: {ttl: 600s, code: {length: 10}}}
`)
	must(t, "", with(reachable, "SENDCODE_API_KEY=sk_12345678901234567890")...)
	must(t, "", "SENDCODE_ADMIN_ADDR=localhost:0", "SENDCODE_ADDR=localhost:0") // two free ports
}

// The first to connect to a server that the settings name is this test, not the check of its URL.
func TestNothingConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for range 50 {
		must(t, "", "SENDCODE_REDIS_URL=redis://"+l.Addr().String()+"/0?min_idle_conns=4", "SENDCODE_SMTP_URL=smtp://"+l.Addr().String(),
			"SENDCODE_DATABASE_URL=postgres://"+l.Addr().String()+"/d", "SENDCODE_ADDR="+l.Addr().String())
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
	must(t, "", "SENDCODE_SERVICE_HOST=10.0.0.1", "SENDCODE_SERVICE_PORT=80", "SENDCODE_SERVICE_PORT_HTTP=80", "SENDCODE_PORT=tcp://10.0.0.1:80",
		"SENDCODE_PORT_80_TCP=tcp://10.0.0.1:80", "SENDCODE_PORT_80_TCP_ADDR=10.0.0.1", "SENDCODE_REDIS_SERVICE_HOST=10.0.0.2",
		"SENDCODE_REDIS_PORT=tcp://10.0.0.2:6379", "SENDCODE_REDIS_PORT_6379_TCP_PROTO=tcp", "SENDCODE_TEST_REDIS=x", "PATH=/bin", "sendcode_addr=x", "ODD")
}

func TestReachableAddress(t *testing.T) {
	for yaml, page := range map[string]string{"": "", "page: {app: default}": DefaultApp} {
		if c := must(t, yaml, reachable...); c.Loopback() || c.Page.App != page || len(c.Warnings) != 0 {
			t.Errorf("loopback %v, page %q, warnings %q", c.Loopback(), c.Page.App, c.Warnings)
		}
	}
	if c := must(t, `page: {app: ""}`); c.Page.App != "" {
		t.Errorf("turned off, the page is that of %q", c.Page.App)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:0": true, "[::1]:80": true, "LOCALHOST:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.168.1.1:80": false, "localhost.example:80": false, "127.0.0.1.example:80": false,
	} {
		for _, c := range []Config{{Addr: addr}, {Addr: "127.0.0.1:1", AdminAddr: addr}} {
			if c.Loopback() != want || (Config{Addr: addr, AdminAddr: "0.0.0.0:1"}).Loopback() {
				t.Errorf("%s, console at %s", c.Addr, c.AdminAddr)
			}
		}
	}
}
