package commands_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// A second service, and each command that finds the data directory in use, fails with advice of its
// own.
func TestCommandsBesideTheService(t *testing.T) {
	cfg := config.Config{}
	cfg.DataDir = t.TempDir()
	unlock, err := config.LockDataDir(t.Context(), cfg.DataDir, 0)
	apptest.Must(t, err)
	defer func() { _ = unlock() }()
	for advice, err := range map[string]error{
		"sendcode process: stop that process": app.Run(t.Context(), cfg, app.ReloadOptions{}, slog.New(slog.DiscardHandler), io.Discard),
		"stop it, or start the new version":   commands.Migrate(t.Context(), cfg, io.Discard),
		"does this by itself":                 app.Rekey(t.Context(), cfg, io.Discard),
		"use /admin/accounts":                 commands.ChangeAccount(t.Context(), cfg, commands.AdminCommand{Do: "list"}, io.Discard),
	} {
		if err == nil || !strings.Contains(err.Error(), advice) {
			t.Errorf("not %q but %v", advice, err)
		}
	}
}
