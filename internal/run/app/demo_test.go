package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"sendcode/internal/run/demo"
	"sendcode/internal/store"
)

// A demonstration has a week with life in it: sends of both channels with every outcome, refusals
// of several rules, and actions of administrators; and its service starts on what was played.
func TestDemo(t *testing.T) {
	t.Parallel()
	a, err := newDemo(t.Context(), []string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_REDIS_URL=redis://127.0.0.1:1"},
		t.TempDir(), slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { must(t, a.close()) })
	var banner strings.Builder
	a.printBanner(&banner)
	for _, open := range []string{"/mailbox?k=" + a.cfg.MailboxKey() + "   every code",
		"/metrics   with the token " + a.cfg.TrialMetricsToken(), "this machine alone",
		"API key   " + a.cfg.APIKey.Reveal(), "curl -i http://127.0.0.1:", `<send-code public-key="pk_`} {
		if !strings.Contains(banner.String(), open) {
			t.Errorf("the banner does not say %q: %s", open, &banner)
		}
	}
	seen := map[string]int{}
	filter := store.Filter{From: time.Now().Add(-demo.WeekLength - time.Minute), Limit: store.MaxPageRows}
	for {
		rows, err := a.db.Sends(t.Context(), filter)
		must(t, err)
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
	entries, err := a.db.AuditEntries(t.Context(), store.AuditFilter{Limit: 10})
	if err != nil || len(entries) < 2 {
		t.Errorf("%d audit entries: %v", len(entries), err)
	}
}
