//go:build nightly

package bench

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// snapshot is what has been spent before a run.
type snapshot struct {
	usages    map[string]usage
	wal       string // position
	mallocs   float64
	busy, all time.Duration // of the machine's processors
}

// look takes a snapshot. The processor time is read last.
func (b *rig) look(c contender) (s snapshot) {
	b.must(b.admin.QueryRow(b.Context(), "SELECT pg_current_wal_flush_lsn()::text").Scan(&s.wal))
	// A look costs allocations too: a second one says how many, and they are taken out.
	first, second := b.allocations(c), b.allocations(c)
	s.mallocs = second + (second - first)
	s.busy, s.all = machineTime()
	s.usages = b.usages(c)
	return s
}

// spent adds to a run what was spent since a snapshot.
func (b *rig) spent(c contender, before snapshot, r *run) {
	r.cpu = used(before.usages, b.usages(c))
	if busy, all := machineTime(); all > before.all {
		for _, spent := range r.cpu {
			busy -= spent
		}
		r.foreign = max(0, float64(busy-before.busy)/float64(all-before.all))
	}
	r.mallocs = max(0, b.allocations(c)-before.mallocs)
	r.wal = b.walSince(before.wal)
}

// walSQL is what the log of Postgres holds from one position on, by the kind of record.
const walSQL = `
SELECT "resource_manager/record_type", count::float8, fpi_size::float8
FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn(), true) WHERE count > 0`

func (b *rig) walSince(position string) (w walRecords) {
	var bytes float64
	b.must(b.admin.QueryRow(b.Context(), "SELECT (pg_current_wal_flush_lsn() - $1::text::pg_lsn)::float8",
		position).Scan(&bytes))
	if bytes == 0 {
		return w
	}
	rows, _ := b.admin.Query(b.Context(), walSQL, position)
	var kind string
	var count, images float64
	_, err := pgx.ForEachRow(rows, []any{&kind, &count, &images}, func() error {
		w.images += images
		switch kind { // a B-tree gets its entries one by one, or by the split of a page
		case "Btree/INSERT_LEAF", "Btree/INSERT_POST", "Btree/SPLIT_L", "Btree/SPLIT_R":
			w.entries += count
		case "Transaction/COMMIT":
			w.commits += count
		}
		return nil
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok &&
		strings.HasPrefix(refused.Message, "could not find a valid record") {
		return w // a part of the first record was flushed, up to the end of a page
	}
	b.must(err)
	w.bytes = bytes - w.images
	return w
}

var mallocs = regexp.MustCompile(`(?m)^go_memstats_mallocs_total (\S+)$`)

// allocations of a program so far, as its metrics say.
func (b *rig) allocations(c contender) float64 {
	answer, err := http.Get("http://" + c.base + "/metrics") // in chunks, which a caller cannot read
	b.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	b.must(err)
	found := mallocs.FindSubmatch(text)
	if found == nil {
		b.Fatalf("%s has no metrics of its memory", c.name)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	b.must(err)
	return n
}
