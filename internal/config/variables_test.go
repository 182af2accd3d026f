package config

import (
	"slices"
	"strings"
	"testing"
)

// outside are the variables that an address that others can reach needs beside the generated ones.
var outside = []string{"SENDCODE_SMTP_URL=resend://:re_hiddenhiddenhidden@api.resend.com",
	"SENDCODE_ORIGINS=https://shop.example, https://www.shop.example"}

// What `sendcode key --kind env` prints is all that a deployment needs, beside its addresses, and
// is accepted.
func TestOnlyVariables(t *testing.T) {
	environ := slices.Concat(outside, strings.Fields(GenerateSecretVariables()), []string{"PORT=10000",
		"SENDCODE_CONFIG_YAML=  policies:\n    default: [{name: day, scope: recipient, limit: 3, window: 24h}]\n"})
	c, err := Load(environ, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	app := c.Apps[0]
	is(t, "addr", c.Addr, ":10000")
	is(t, "origins", app.Origins, []string{"https://shop.example", "https://www.shop.example"})
	is(t, "the file", c.File+c.policy("default").Rules[0].Name, "day")
	if !app.hasPublicKey() || !app.hasSecretKey() || !c.AdminEnabled() || c.Loopback() || len(app.Keys) != 2 {
		t.Errorf("%+v", app.Keys)
	}
	if shown := c.YAML(); strings.Contains(shown, "public_key,") ||
		!strings.Contains(shown, "origins: ['https://shop.example'") &&
			!strings.Contains(shown, `origins: ["https://shop.example"`) {
		t.Error(shown)
	}
	next, err := Load(append(environ, "SENDCODE_ORIGINS=https://new.example"), files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "what a reload leaves to a restart", c.RestartChanges(next), []string(nil))
	is(t, "origins after a reload", c.WithReloadable(next).Apps[0].Origins, []string{"https://new.example"})
}

// PORT is for platforms: what names an address itself beats it.
func TestPort(t *testing.T) {
	is(t, "with SENDCODE_ADDR", must(t, "", "PORT=1", "SENDCODE_ADDR=127.0.0.1:2").Addr, "127.0.0.1:2")
	is(t, "with a file", must(t, "addr: 127.0.0.1:3", "PORT=1").Addr, "127.0.0.1:3")
	is(t, "empty", must(t, "", "PORT= ").Addr, "127.0.0.1:8080")
	for _, c := range []struct{ environ, want string }{
		{"PORT=80", "SENDCODE_SECRET_KEYS: must be given, because :80 can be reached"},
		{"PORT=0", "PORT: is not within"}, {"PORT=tcp://10.0.0.1:80", "PORT: is not within"},
		{"PORT=65536", "PORT: is not within"},
	} {
		if _, err := loadYAML("", c.environ); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.environ, err)
		}
	}
}

func TestMistakesInVariables(t *testing.T) {
	const public = "pk_hiddenhiddenhiddenhidden"
	for environ, want := range map[string]string{
		"SENDCODE_PUBLIC_KEY=" +
			public: "SENDCODE_ORIGINS: and SENDCODE_PUBLIC_KEY go together",
		"SENDCODE_ORIGINS=https://a.example": "SENDCODE_ORIGINS: and SENDCODE_PUBLIC_KEY go together",
		"SENDCODE_ORIGINS=https://*.example\nSENDCODE_PUBLIC_KEY=" +
			public: "SENDCODE_ORIGINS: must be one exact origin",
		"SENDCODE_ORIGINS=https://a.example,\nSENDCODE_PUBLIC_KEY=" +
			public: "SENDCODE_ORIGINS: must be an origin",
		"SENDCODE_ORIGINS=https://a.example\nSENDCODE_PUBLIC_KEY=sk_hiddenhiddenhiddenhidden":       "SENDCODE_PUBLIC_KEY: must be pk_",
		"SENDCODE_ORIGINS=https://a.example\nSENDCODE_PUBLIC_KEY=pk_hidden":                         "SENDCODE_PUBLIC_KEY: must be pk_",
		"SENDCODE_CONFIG_YAML=apps: [{nam: x}]":                                                     "SENDCODE_CONFIG_YAML:1: apps[0].nam",
		"SENDCODE_CONFIG_YAML=apps: [":                                                              "SENDCODE_CONFIG_YAML: is not YAML",
		"SENDCODE_CONFIG_YAML=api_key: sk_hiddenhidden":                                             "SENDCODE_CONFIG_YAML:1: api_key: is a secret",
		"SENDCODE_CONFIG_YAML=apps: [{name: x, keys: [{id: public_key, kind: public, sha256: a}]}]": "is the id of SENDCODE_PUBLIC_KEY",
	} {
		_, err := Load(strings.Split(environ, "\n"), files{}.read)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", environ, err)
		}
	}
	if _, err := loadYAML("", "SENDCODE_CONFIG_YAML=apps: []"); err == nil ||
		!strings.Contains(err.Error(), "SENDCODE_CONFIG_YAML: is given beside SENDCODE_CONFIG") {
		t.Errorf("%v", err)
	}
}
