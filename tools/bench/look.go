package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// snapshot is what has been spent before a run.
type snapshot struct {
	usages    map[string]usage
	wal       string // position
	mallocs   float64
	busy, all time.Duration // of the machine's processors
}

// look takes a snapshot. The processor time is read last.
func (b *rig) look(ctx context.Context, c contender) (s snapshot, err error) {
	if err = b.admin.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&s.wal); err != nil {
		return s, err
	}
	// A look costs allocations too: a second one says how many, and they are taken out.
	first, err := allocations(ctx, c)
	if err != nil {
		return s, err
	}
	second, err := allocations(ctx, c)
	s.mallocs = second + (second - first)
	s.busy, s.all = machineTime()
	s.usages = b.usages(c)
	return s, err
}

// spent adds to a run what was spent since a snapshot.
func (b *rig) spent(ctx context.Context, c contender, before snapshot, r *run) (err error) {
	r.cpu = b.usedSince(c, before.usages)
	if busy, all := machineTime(); all > before.all {
		for _, spent := range r.cpu {
			busy -= spent
		}
		r.foreign = max(0, float64(busy-before.busy)/float64(all-before.all))
	}
	mallocs, err := allocations(ctx, c)
	if err != nil {
		return err
	}
	r.mallocs = max(0, mallocs-before.mallocs)
	r.wal, err = b.walSince(ctx, before.wal)
	return err
}

// walSQL is what the log of Postgres holds from one position on, by the kind of record.
const walSQL = `
SELECT "resource_manager/record_type", count::float8, fpi_size::float8
FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn(), true) WHERE count > 0`

func (b *rig) walSince(ctx context.Context, position string) (w walRecords, err error) {
	var bytes float64
	if err := b.admin.QueryRow(ctx, "SELECT (pg_current_wal_flush_lsn() - $1::text::pg_lsn)::float8", position).Scan(&bytes); err != nil ||
		bytes == 0 {
		return w, err
	}
	rows, _ := b.admin.Query(ctx, walSQL, position)
	var kind string
	var count, images float64
	_, err = pgx.ForEachRow(rows, []any{&kind, &count, &images}, func() error {
		w.images += images
		switch kind { // a B-tree gets its entries one by one, or by the split of a page
		case "Btree/INSERT_LEAF", "Btree/INSERT_POST", "Btree/SPLIT_L", "Btree/SPLIT_R":
			w.entries += count
		case "Transaction/COMMIT":
			w.commits += count
		}
		return nil
	})
	w.bytes = bytes - w.images
	return w, err
}

// allocations of a program so far, as its metrics say.
func allocations(ctx context.Context, c contender) (mallocs float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.base+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("metrics: %d", answer.StatusCode)
}
