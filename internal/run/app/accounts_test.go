package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/run/config"
)

// A command that makes the database makes its keys too, or the service would find a database whose
// keys are lost.
func TestTheServiceStartsAfterACommandThatMadeTheDatabase(t *testing.T) {
	cfg, err := config.Load([]string{"SENDCODE_DATA_DIR=" + t.TempDir()}, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	add := AccountChange{Do: "add", Name: "mei", Role: "operator", Reason: "on call"}
	if err := ChangeAccount(t.Context(), cfg, add, io.Discard); err != nil {
		t.Fatal(err)
	}
	given := cfg // as in a shell that does not have the service's keys: accounts need none
	if err := ChangeAccount(t.Context(), given, AccountChange{Do: "list"}, io.Discard); err != nil {
		t.Error(err)
	}
	a := newApp(cfg, nil, time.Now)
	if err := a.openDataDir(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
}

// The list has the accounts and tokens that settings make, before those of the database.
func TestTheListHasTheAccountsOfTheSettings(t *testing.T) {
	const tokens = "admin: {tokens: [{id: ci, role: operator, sha256: " +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]}"
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"a generated password": {nil, "admin owner open settings|token:ci operator open settings|mei reader open"},
		"a password and a token": {[]string{"SENDCODE_ADMIN_PASSWORD=correct horse battery",
			"SENDCODE_ADMIN_TOKEN=tok_0123456789abcdefghij"},
			"admin owner open settings|token reader open settings|token:ci operator open settings|mei reader open"},
	} {
		if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(append(c.environ, "SENDCODE_CONFIG="+file, "SENDCODE_DATA_DIR="+t.TempDir()),
			os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		add := AccountChange{Do: "add", Name: "mei", Role: "reader", Reason: "on call"}
		if err := ChangeAccount(t.Context(), cfg, add, io.Discard); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := ChangeAccount(t.Context(), cfg, AccountChange{Do: "list"}, &out); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			fields := strings.Fields(line)
			if fields[3] != "settings" {
				fields = fields[:3] // when it was made differs
			}
			got = append(got, strings.Join(fields, " "))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
