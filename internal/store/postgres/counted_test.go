package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// Rows that are gone were counted; who is erased takes their domain with them; old hours go.
func TestPostgresCountsForItself(t *testing.T) {
	f := newPostgresFixture(t)
	log := f.DB.(*DB)
	rows := func(table string) (n int) {
		storetest.OK(t, log.read(t.Context(), func(conn *pgxpool.Conn) error {
			return conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n)
		}))
		return n
	}
	begin := f.Now.Truncate(time.Hour)
	storetest.Traffic(t, f, 6)
	alone := f.Admit(t, f.Intent(7000, func(in *store.Intent) { in.Send.To = "q•••@quentin.example" }))
	f.End(t, alone.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true})
	storetest.OK(t, log.Refunded(t.Context(), store.Held{ID: alone.Send.ID, Attempt: 1}))
	f.Pass(2 * time.Hour)
	end := f.Now.Truncate(time.Hour).Add(-time.Hour)
	q := store.StatsQuery{From: begin, To: end, Each: time.Hour}
	want := storetest.Must(f.Stats(t.Context(), q))(t)
	n := storetest.Must(f.CountHours(t.Context(), f.Now.Sub(begin)+time.Hour, 1000))(t)
	if hours := rows("hours"); n < 6 || hours != n {
		t.Fatalf("%d hours counted, %d there", n, hours)
	}
	storetest.OK(t, f.Erase(t.Context(), alone.Send.Recipient, time.Hour,
		store.AuditEntry{ID: alone.Send.ID, Who: "ann", Role: "owner", What: "erase", Outcome: store.AuditDone}))
	domains := storetest.Must(f.Domains(t.Context(), q))(t)
	for _, d := range domains {
		if d.Domain == "quentin.example" {
			t.Error("an erased recipient's domain is left")
		}
	}
	if len(domains) == 0 || rows(`hour_domains WHERE domain = 'quentin.example'`) != 0 {
		t.Errorf("domains %v", domains)
	}
	if n := rows(`hour_codes WHERE value = 'quentin.example'`); n != 0 || rows(`hour_codes WHERE dimension = 'domain'`) == 0 {
		t.Errorf("%d rows of codes still have the erased recipient's domain", n)
	}
	codes := storetest.Must(f.ApprovalsBy(t.Context(), q, store.ByCountry))(t)
	storetest.Must(log.pool.Exec(context.Background(), `DELETE FROM sends`))(t)
	storetest.Equal(t, "codes by country once the rows are gone", storetest.Must(f.ApprovalsBy(t.Context(), q, store.ByCountry))(t), codes)
	got := storetest.Must(f.Stats(t.Context(), q))(t)
	storetest.ReplaceIfNear(t, &got, want)
	storetest.Equal(t, "once the rows are gone", got, want)
	storetest.Must(f.CountHours(t.Context(), time.Hour, 1))(t)
	for _, table := range []string{"hours", "hour_tallies", "hour_times", "hour_domains", "hour_codes"} {
		if n := rows(table + ` WHERE hour < '` + end.Add(-2*time.Hour).Format(time.RFC3339) + `'`); n != 0 {
			t.Errorf("%s still has %d rows that are too old", table, n)
		}
	}
}
