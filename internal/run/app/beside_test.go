package app

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"sendcode/internal/run/config"
)

// Each command that finds the SQLite file in use says what to do in its own case, and so does a service
// that does not wait for it.
func TestCommandsBesideTheService(t *testing.T) {
	cfg := config.Config{}
	cfg.DataDir = t.TempDir()
	unlock, err := config.LockDataDir(t.Context(), cfg.DataDir, 0)
	must(t, err)
	defer func() { _ = unlock() }()
	_, started := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	for advice, err := range map[string]error{
		"sendcode process: stop that one":   started,
		"stop it, or start the new version": Migrate(t.Context(), cfg, io.Discard),
		"does this by itself":               Rekey(t.Context(), cfg, io.Discard),
		"use /admin/accounts":               ChangeAccount(t.Context(), cfg, AccountChange{Do: "list"}, io.Discard),
	} {
		if err == nil || !strings.Contains(err.Error(), advice) {
			t.Errorf("not %q but %v", advice, err)
		}
	}
}
