package week

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

// After simulateWeek, the database has sends of both channels with every outcome, refusals by
// several rules, and audit entries. The service starts on this database and prints its usual
// banner.
func TestDemo(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		servertest.OK(t, err)
	}
	dir := t.TempDir()
	cfg, err := simulateWeek(t.Context(), []string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_REDIS_URL=redis://127.0.0.1:1"}, dir)
	must(err)
	file, err := sqlite.Open(t.Context(), filepath.Join(dir, config.DatabaseFile), time.Now)
	must(err)
	seen := map[string]int{}
	filter := store.Filter{From: time.Now().Add(-length - time.Minute), Limit: store.MaxPageRows}
	for {
		rows, err := file.Store().Sends(t.Context(), filter)
		must(err)
		for _, s := range rows {
			seen[string(s.Channel)]++
			seen[string(s.Status)]++
			seen[s.Reason]++
			seen["by "+s.BlockedBy]++
		}
		if len(rows) < filter.Limit {
			break
		}
		last := rows[len(rows)-1]
		filter.Before = &store.Cursor{At: last.LoggedAt, ID: last.ID}
	}
	for _, what := range []string{
		"email", "sms", "sent", "failed", "unknown", "delivered", "undelivered", "refused", "rejected", "suppressed",
		"by minute", "by hour", "by client", "by checks",
	} {
		if seen[what] == 0 {
			t.Errorf("nothing is %q: %v", what, seen)
		}
	}
	entries, err := file.Store().AuditEntries(t.Context(), store.AuditFilter{Limit: 10})
	if err != nil || len(entries) < 2 {
		t.Errorf("%d audit entries: %v", len(entries), err)
	}
	must(file.Close())

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	banner := servertest.Text{}
	must(app.Run(ctx, cfg, app.ReloadOptions{}, slog.New(slog.DiscardHandler), io.MultiWriter(&banner, stopper(stop))))
	for _, open := range []string{
		"/mailbox?k=", "/metrics   with the token ", "programs on this machine", "curl -i 'http://127.0.0.1:",
		`<send-code public-key="pk_`,
	} {
		if !strings.Contains(banner.String(), open) {
			t.Errorf("the banner does not say %q: %s", open, banner.String())
		}
	}
}

// stopper ends the service at its first output.
type stopper func()

func (s stopper) Write(text []byte) (int, error) { s(); return len(text), nil }

// simulateWeek fails for an address that other machines can reach. It ignores variables other than
// SENDCODE_ADDR.
func TestDemoReadsTheAddress(t *testing.T) {
	_, err := simulateWeek(t.Context(), []string{"SENDCODE_ADDR=192.0.2.1:80", "SENDCODE_DRAIN=never"}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "192.0.2.1:80 can be reached from other machines") {
		t.Error(err)
	}
}
