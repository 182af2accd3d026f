package config

import (
	"slices"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// outside has the variables that a service needs, in addition to the generated ones, if other
// machines can reach it.
var outside = []string{
	"SENDCODE_SMTP_URL=resend://:re_hiddenhiddenhidden@api.resend.com",
	"SENDCODE_ORIGINS=https://shop.example, https://www.shop.example",
}

// In addition to the variables in outside, a deployment needs only those that `sendcode key --kind
// env` prints. Load accepts them.
func TestLoadFromVariablesAlone(t *testing.T) {
	environ := slices.Concat(outside, strings.Fields(GenerateSecretVariables()), []string{
		"PORT=10000",
		"SENDCODE_CONFIG_YAML=  policies:\n    default: [{name: day, scope: recipient, limit: 3, window: 24h}]\n",
	})
	c, err := Load(environ, files{}.read)
	servertest.OK(t, err)
	app := c.Apps[0]
	wantEqual(t, "addr", c.Addr, ":10000")
	wantEqual(t, "origins", app.Origins, []string{"https://shop.example", "https://www.shop.example"})
	wantEqual(t, "the file", c.File+c.policy("default").Rules[0].Name, "day")
	if !app.hasPublicKey() || !app.hasSecretKey() || !c.AdminLoginEnabled() || !c.AdminToken.IsSet() || c.Loopback() || len(app.Keys) != 2 {
		t.Errorf("%+v", app.Keys)
	}
	if shown := c.YAML(); strings.Contains(shown, "public_key,") || !strings.Contains(shown, "origins: ['https://shop.example'") &&
		!strings.Contains(shown, `origins: ["https://shop.example"`) {
		t.Error(shown)
	}
	next, err := Load(append(environ, "SENDCODE_ORIGINS=https://new.example"), files{}.read)
	servertest.OK(t, err)
	wantEqual(t, "what a reload leaves to a restart", c.RestartChanges(next), []string(nil))
	wantEqual(t, "origins after a reload", c.WithReloadable(next).Apps[0].Origins, []string{"https://new.example"})
}
