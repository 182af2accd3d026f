package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// A value that few rows have, or none, is found by the index of its column, although nearly all rows have another one: also by the plan
// that is made once for all values.
func TestPostgresRareFilters(t *testing.T) {
	log := openTest(t, newDatabase(t), serverClock)
	f := storetest.NewFixture(log)
	for n := range 3 {
		send := f.Admit(t, f.Intent(n, func(in *store.Intent) {
			in.Send.To = []string{"a•••@example.com", "a•••@rare.example", "+49 151•••021"}[n]
			in.Send.Country = []string{"", "", "DE"}[n]
		}))
		f.End(t, send.Send.ID, store.Outcome{Status: store.Sent})
	}
	storetest.OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(4, func(s *store.Send) { s.BlockedBy = "minute" })}))
	exec := func(statement string) {
		t.Helper()
		storetest.Must(log.pool.Exec(t.Context(), statement))(t)
	}
	exec(copySends("logged_at - n * interval '1 ms'") + `, generate_series(1, 10000) n WHERE s.domain = 'example.com' OR s.country = 'DE' OR s.blocked_by <> ''`)
	exec(`ANALYZE sends`)
	conn := storetest.Must(log.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	mark := &store.Mark{At: time.Now().Add(time.Hour)}
	for name, filter := range map[string]store.Filter{
		"domain": {Domain: "rare.example"}, "no such domain": {Domain: "nothing.example"},
		"domain after":  {Domain: "rare.example", After: &store.Mark{At: time.Unix(0, 0)}},
		"domain before": {Domain: "nothing.example", Before: mark}, "domain of an app": {Domain: "nothing.example", App: "shop"},
		"domain and status": {Domain: "nothing.example", Status: store.Sent},
		"rule":              {BlockedBy: "nothing"}, "rule before": {BlockedBy: "nothing", Before: mark}, "country": {Country: "TV"},
		"country of a time": {Country: "TV", From: time.Now().Add(-day), To: time.Now()},
	} {
		filter.Limit = 50
		query, args := postgresFilter{sqldb.SendFilter{Filter: filter}}.postgresQuery()
		if pages := genericPages(t, conn, query, args); pages > 100 {
			t.Errorf("%s: %d pages", name, pages)
		}
		rows := storetest.Must(f.Sends(t.Context(), filter))(t)
		want := 0
		if filter.Domain == "rare.example" {
			want = 1
		}
		storetest.Equal(t, name, len(rows), want)
	}
}

// genericPages is how many pages a query touches by the plan that is made for all values.
func genericPages(t *testing.T, conn *pgxpool.Conn, query string, args []any) int {
	t.Helper()
	values := make([]string, len(args))
	for i, a := range args {
		values[i] = fmt.Sprintf("'%v'", a)
		if at, ok := a.(time.Time); ok {
			values[i] = "'" + at.Format(time.RFC3339Nano) + "'"
		}
	}
	for _, statement := range []string{`SET plan_cache_mode = force_generic_plan`, `DEALLOCATE ALL`, `PREPARE filter AS ` + query} {
		storetest.Must(conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol))(t)
	}
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	storetest.OK(t, conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE filter(`+strings.Join(values, ", ")+`)`,
		pgx.QueryExecModeSimpleProtocol).Scan(&plan))
	return plan[0].Plan.Hit + plan[0].Plan.Read
}
