//go:build nightly

package bench

import (
	"errors"
	"io"
	"os"
	"time"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/store/postgres"
	"sendcode/tools/rows"
)

// measureRows has services on databases of several sizes take turns.
func (b *rig) measureRows() string {
	var all []*entry
	for _, size := range b.sizes {
		c := b.onRows(size)
		name := number(float64(size))
		all = append(all, &entry{name: name + " rows", cells: []string{name}, measure: func() run {
			return b.sends(c, b.unitCallers(), b.length)
		}})
	}
	b.inTurns(all)
	ofFirst := func(runs []run) float64 { return median(runs, costOfSend) / median(all[0].runs, costOfSend) }
	g := table([]string{"rows"}, all, rates("sends/s"), medians("the program, µs", cpu(inProgram)),
		medians(inPostgres, cpu(inPostgres)),
		medians(inRedis, cpu(inRedis)), medians("WAL, bytes", walBytes),
		column{"all three ÷ first", func(runs []run) string { return number(ofFirst(runs)) }})
	goals := b.newGoals()
	goals.most("processor time of a send on most rows ÷ on fewest", 1.15, ofFirst(all[len(all)-1].runs), "")
	return "Sends of 64 callers, with rows of the last 90 days (`make bench-rows`).\n\n" + g.String() + "\n" +
		goals.String()
}

// onRows starts a service on a database with so many rows.
func (b *rig) onRows(size int) contender {
	return b.startService(serviceSettings{database: b.filled(size, func(string) {})})
}

// filled makes a database with so many rows, and those that more adds, of which nothing waits to be
// written.
func (b *rig) filled(size int, more func(database string)) (database string) {
	database, err := b.postgres.CreateDatabase(b.Context())
	b.must(err)
	cfg, err := config.Load([]string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + b.path("data-fill"),
		"SENDCODE_DATABASE_URL=" + database}, os.ReadFile)
	b.must(err)
	b.must(app.Migrate(b.Context(), cfg, io.Discard))
	b.must(rows.Fill(b.Context(), database, size))
	more(database)
	db, err := postgres.Open(b.Context(), database, "")
	b.must(err)
	// which the service would do beside the sends
	_, err = db.CountHours(b.Context(), 10*time.Minute, 90*24*time.Hour, 10_000)
	b.must(errors.Join(err, db.Close()))
	_, err = b.admin.Exec(b.Context(), "CHECKPOINT")
	b.must(err)
	return database
}
