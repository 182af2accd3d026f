package config

import (
	"net"
	"testing"

	"sendcode/internal/base/document"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
)

// The golden file has the settings that are in force if none is given.
func TestLoadWithNothingGiven(t *testing.T) {
	c, err := Load(nil, files{}.read)
	servertest.OK(t, err)
	golden.File(t, "testdata/default.yaml", c.YAML())
	if !c.Loopback() || c.AdminLoginEnabled() || len(c.Warnings) != 0 {
		t.Errorf("the default must be on loopback, with a console that has no password yet, and without warnings: %q", c.Warnings)
	}
}

func TestPurposes(t *testing.T) {
	c := must(t, "purposes: {login: , b: }\npolicies: {gift: [{name: week, scope: recipient, limit: 3, window: 168h}]}")
	wantEqual(t, "a purpose without fields", c.Purposes["login"], document.Defaults[purpose]())
	wantEqual(t, "purposes of default", c.purposesWithPolicy("default"), []string{"b", "default", "login"})
	c = must(t, "mail_from: F <f@FILE.example>")
	wantEqual(t, "domain", c.MailDomain(), "file.example")
	wantEqual(t, "file", c.File, "c.yaml")
}

// A key without a value counts as missing.
func TestLoadKeysWithoutAValue(t *testing.T) {
	want := must(t, "")
	for _, file := range []string{
		"~", "---", "# nothing", "{}", "addr:\ndata_dir:\ntemplates: ~\npolicies:\npurposes:\napps:\ntrusted_proxies:\npage:\n",
		"policies: {}\npurposes: {default: }\napps: []\ntrusted_proxies: []\npage: {app: }\nredis_url: ''\nlog_level: ''\npublic_url: ''",
		"purposes: {default: {policy: , ttl: , code: {length: , alphabet: }, notify: }}\napps: [{name: default, title: , origins: , keys: }]",
	} {
		got := must(t, file)
		got.fileText, got.fileSettings = want.fileText, want.fileSettings
		wantEqual(t, file, got, want)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	for name, value := range map[string]string{"SENDCODE_API_KEY": goodKey, "SENDCODE_DATABASE_URL": "postgres://u:p@h/d"} {
		got, err := Load([]string{name + "_FILE=/s"}, files{"/s": "\n " + value + "\r\n"}.read)
		want, _ := Load([]string{name + "=" + value}, nil)
		wantEqual(t, name, got, want)
		wantEqual(t, name, err, nil)
	}
}

// Load connects to no server that a setting names. The test's own connection is the first that the
// listener accepts.
func TestLoadConnectsToNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(t, err)
	defer func() { _ = l.Close() }()
	at := l.Addr().String()
	for range 50 {
		must(t, "", "SENDCODE_REDIS_URL=redis://"+at+"/0?min_idle_conns=4", "SENDCODE_SMTP_URL=smtp://"+at,
			"SENDCODE_DATABASE_URL=postgres://"+at+"/d", "SENDCODE_ADDR="+at)
	}
	own, err := net.Dial("tcp", at)
	servertest.OK(t, err)
	defer func() { _ = own.Close() }()
	first, err := l.Accept()
	servertest.OK(t, err)
	defer func() { _ = first.Close() }()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("Load has connected to the server in a URL")
	}
}
