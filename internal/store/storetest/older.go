package storetest

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// OlderSend is a send with its verification as the version wrote it that UPGRADING.md names.
type OlderSend struct {
	id           uuid.UUID
	recipient    recipient.Hash
	app, purpose string
	loggedAt     time.Time
	status       store.Status
	counts       bool
	attempts     int
}

// OlderSends reads what is there before this version migrates it; loggedAt is SQL for the send's instant in µs since 1970.
func OlderSends(t *testing.T, db *sql.DB, loggedAt string) (sends []OlderSend) {
	t.Helper()
	rows := Must(db.QueryContext(t.Context(), `
SELECT s.id, s.recipient, s.app, s.purpose, `+loggedAt+`, s.status, s.counts, v.attempts
FROM sends s JOIN verifications v ON v.id = s.verification_id ORDER BY s.logged_at, s.id`))(t)
	defer rows.Close()
	for rows.Next() {
		var s OlderSend
		var hash []byte
		var at int64
		OK(t, rows.Scan(&s.id, &hash, &s.app, &s.purpose, &at, &s.status, &s.counts, &s.attempts))
		s.recipient, s.loggedAt = recipient.Hash(hash), time.UnixMicro(at).UTC()
		sends = append(sends, s)
	}
	OK(t, rows.Err())
	return sends
}

// RowCounts returns how many rows each table has; tables is SQL for their names.
func RowCounts(t *testing.T, db *sql.DB, tables string) map[string]int {
	t.Helper()
	var names string
	OK(t, db.QueryRowContext(t.Context(), tables).Scan(&names))
	counts := map[string]int{}
	for _, name := range strings.Fields(names) {
		var n int
		OK(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+name).Scan(&n))
		counts[name] = n
	}
	return counts
}

// KeepsRows fails the test if a table has fewer rows than before.
func KeepsRows(t *testing.T, before, after map[string]int) {
	t.Helper()
	for table, n := range before {
		if after[table] < n {
			t.Errorf("of %d rows of %s %d are left", n, table, after[table])
		}
	}
}

// OlderLater returns when the older version was dead and each lease of its sends had ended.
func OlderLater(sends []OlderSend) time.Time { return sends[len(sends)-1].loggedAt.Add(time.Minute) }

// ReadOlder compares what this version reads, by a fixture on the clock OlderLater, with what the older version wrote: each
// send with its state and its wrong checks, what counts for each recipient, and that each send that was under way is taken over.
func ReadOlder(t *testing.T, f *Fixture, sends []OlderSend) {
	counted, under := map[recipient.Hash][]time.Time{}, map[uuid.UUID]bool{}
	of := map[recipient.Hash]OlderSend{}
	states := map[store.Status]int{}
	for _, s := range sends {
		story := Must(f.SendDetails(t.Context(), s.id))(t)
		Equal(t, "send", []any{story.Send.Status, story.Send.Counts, story.Send.LoggedAt, story.Verification.Attempts},
			[]any{s.status, s.counts, s.loggedAt, s.attempts})
		of[s.recipient] = s
		states[s.status]++
		if s.counts {
			counted[s.recipient] = append(counted[s.recipient], s.loggedAt)
		}
		if s.status == store.Sending || s.status == store.Queued {
			under[s.id] = true
		}
	}
	for _, status := range []store.Status{store.Sent, store.Failed, store.Sending} {
		if states[status] == 0 {
			t.Errorf("no send is %s: the data show nothing of it", status)
		}
	}
	for hash, s := range of {
		begun := f.MustBegin(t, f.Intent(0, WithRules(Rule(1, 24*time.Hour)), func(in *store.Intent) {
			in.Send.App, in.Send.Purpose, in.Send.Recipient, in.Purposes = s.app, s.purpose, hash, []string{s.purpose}
		}))
		var at []time.Time
		for _, e := range begun.History {
			at = append(at, e.At)
		}
		Equal(t, "what counts", at, counted[hash])
		Equal(t, "admitted", begun.Admitted, len(at) == 0)
	}
	taken := 0
	for _, w := range f.MustTakeOver(t, 1000) {
		if under[w.Send.ID] {
			taken++
		}
	}
	Equal(t, "sends taken over", taken, len(under))
}
