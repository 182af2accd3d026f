package commands_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// The list has the accounts and tokens of the settings before those of the database. A command that
// makes the database makes its keys too, since the service would otherwise find a database without
// its keys.
func TestTheListHasTheAccountsOfTheSettings(t *testing.T) {
	const tokens = "admin: {tokens: [{id: ci, role: operator, sha256: " +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]}"
	for want, environ := range map[string][]string{
		"admin owner open settings|token:ci operator open settings|mei reader open": nil, // a generated password
		"admin owner open settings|token reader open settings|token:ci operator open settings|mei reader open": {
			"SENDCODE_ADMIN_PASSWORD=correct horse battery", "SENDCODE_ADMIN_TOKEN=tok_0123456789abcdefghij",
		},
	} {
		cfg, err := config.Load(append(environ, "SENDCODE_CONFIG_YAML="+tokens, "SENDCODE_DATA_DIR="+t.TempDir()), os.ReadFile)
		apptest.Must(t, err)
		apptest.Must(t, commands.ChangeAccount(t.Context(), cfg,
			commands.AdminCommand{Do: "add", Name: "mei", Role: "reader", Reason: "on call"}, io.Discard))
		var out strings.Builder
		apptest.Must(t, commands.ChangeAccount(t.Context(), cfg, commands.AdminCommand{Do: "list"}, &out))
		var got []string
		for line := range strings.Lines(out.String()) {
			fields := strings.Fields(line)
			if fields[3] != "settings" {
				fields = fields[:3] // the time of creation differs
			}
			got = append(got, strings.Join(fields, " "))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q, want %q", got, want)
		}
		_, err = cfg.LoadOrCreateSecrets(cfg.DataDir)
		apptest.Must(t, err)
	}
}
