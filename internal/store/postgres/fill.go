package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/migrations"
)

// FileQuery reads a SQLite file, like QueryContext of its pool.
type FileQuery func(ctx context.Context, statement string, args ...any) (*sql.Rows, error)

// notCopied are tables that Fill leaves out, and why.
var notCopied = map[string]string{
	migrations.MigrationsTable: "each database has its own migrations",
	"schema_fingerprints":      "they belong to the migrations",
	"leases":                   "they end within minutes, and no replica runs",
	"write_probe":              "it has no rows",
}

// rebuilt are tables whose rows are computed: those of minute_index by Fill, the hourly counts by
// CountHours in the background afterwards. Until an hour is counted, statistics read its sends.
var rebuilt = append([]string{"minute_index"}, sqldb.AllHourTableNames...)

// maxFillClockDifference bounds the difference between the clocks of the file's machine and of the
// database. The copied rows have times on the file's clock, such as a code's expiry, which come
// earlier or later by the difference.
const maxFillClockDifference = 5 * time.Second

const fillMinutesSQL = `
INSERT INTO minute_index (field, value, minute) SELECT DISTINCT m.field, m.value, date_trunc('minute', s.logged_at) FROM sends s
  CROSS JOIN LATERAL (VALUES ('provider', s.provider), ('receipt', s.receipt)) AS m (field, value)
  WHERE m.field = 'provider' AND m.value <> '' OR m.value = 'delivered' ON CONFLICT DO NOTHING`

// Fill copies the rows of a SQLite file into the database at url, which must be migrated and empty.
// The URL must log in as the owner of the tables, and no other process may use the file meanwhile.
// Sends in flight are due immediately afterwards.
//
// It is one transaction, so that the database is still empty after an error. Fill calls report
// after each table. Before the commit it compares the numbers of rows and the secret keys' check
// values (store.KeyCheckValues) of both databases, then calls beforeCommit, whose error prevents
// the commit. If the commit fails but may have happened, the error wraps fault.Uncertain.
func Fill(ctx context.Context, url string, from FileQuery, report func(table string, rows int64), beforeCommit func() error) error {
	parsed, err := parseURL(url)
	if err != nil {
		return err
	}
	apply := deferSettings(parsed.ConnConfig)
	conn, err := pgx.ConnectConfig(ctx, parsed.ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := apply(ctx, conn); err != nil {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	f := fill{tx: tx, from: from, report: report}
	if err := f.run(ctx); err != nil {
		return err // the deferred Close rolls back
	}
	if err := beforeCommit(); err != nil {
		return err
	}
	return wrapWriteError(tx.Commit(ctx))
}

type fill struct {
	tx     pgx.Tx
	from   FileQuery
	report func(table string, rows int64)
}

func (f *fill) run(ctx context.Context) error {
	if _, err := f.tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '10s', true),
  set_config('synchronous_commit', 'on', true)`); err != nil {
		return err
	}
	tables, err := f.tables(ctx)
	if err != nil {
		return err
	}
	if err := f.checkTarget(ctx, append(slices.Clone(rebuilt), tables...)); err != nil {
		return err
	}
	if err := f.makePartitions(ctx); err != nil {
		return err
	}
	for _, table := range tables {
		if err := f.copyTable(ctx, table); err != nil {
			return fmt.Errorf("store: table %s: %w", table, err)
		}
	}
	for _, statement := range []string{
		fillMinutesSQL,
		`UPDATE outbox SET due_at = clock_timestamp() WHERE due_at > clock_timestamp()`,
		`ANALYZE ` + strings.Join(tables, ", "),
	} {
		if _, err := f.tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return f.checkEqual(ctx, "check values of keys",
		`SELECT coalesce(group_concat(x, ' '), '') FROM (SELECT name || hex(value) AS x FROM key_checks ORDER BY name)`,
		`SELECT coalesce(string_agg(name || upper(encode(value, 'hex')), ' ' ORDER BY name COLLATE "C"), '') FROM key_checks`)
}

// tables returns the file's tables that are copied.
func (f *fill) tables(ctx context.Context) ([]string, error) {
	all, err := f.fileTexts(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name`)
	return slices.DeleteFunc(all, func(name string) bool {
		return notCopied[name] != "" || slices.Contains(rebuilt, name)
	}), err
}

// fileTexts returns the first column of a query on the file.
func (f *fill) fileTexts(ctx context.Context, query string) (all []string, err error) {
	rows, err := f.from(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text.String)
	}
	return all, rows.Err()
}

// checkTarget locks the tables against writers. It fails if one has a row, or if the clocks of the
// database and of this machine differ by more than maxFillClockDifference.
func (f *fill) checkTarget(ctx context.Context, tables []string) error {
	if _, err := f.tx.Exec(ctx, "LOCK TABLE "+strings.Join(tables, ", ")+" IN EXCLUSIVE MODE"); err != nil {
		return err
	}
	var nonEmpty []string
	for _, table := range tables {
		var hasRows bool
		if err := f.tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table+")").Scan(&hasRows); err != nil {
			return err
		}
		if hasRows {
			nonEmpty = append(nonEmpty, table)
		}
	}
	if len(nonEmpty) > 0 {
		return fmt.Errorf("store: the database is not empty, and nothing was copied (rows in %s): name an empty one",
			strings.Join(nonEmpty, ", "))
	}
	var now time.Time
	if err := f.tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return err
	}
	if off := time.Until(now); off.Abs() > maxFillClockDifference {
		return fmt.Errorf("store: the clocks of Postgres and this machine differ by %v, and each wait would change by as much: set both by NTP",
			off.Round(time.Second))
	}
	return nil
}

// makePartitions makes partitions from the week of the file's oldest send on. A new database has
// empty ones from a month ago on. If the send is older, makePartitions drops them first.
func (f *fill) makePartitions(ctx context.Context) error {
	oldest, err := f.fileTexts(ctx, `SELECT min(id) FROM sends`)
	if err != nil || oldest[0] == "" {
		return err
	}
	id, err := uuid.Parse(oldest[0])
	if err != nil {
		return err
	}
	at := store.TimeOfID(id)
	monday := at.Truncate(24*time.Hour).AddDate(0, 0, -(int(at.Weekday())+6)%7)
	rows, _ := f.tx.Query(ctx, `SELECT name FROM sendcode_partitions WHERE @monday < (SELECT min(begins) FROM sendcode_partitions)`,
		pgx.NamedArgs{"monday": monday})
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return err
	}
	year, week := monday.ISOWeek()
	first := fmt.Sprintf("sends_%04d_w%02d", year, week)
	for _, statement := range []string{
		"DROP TABLE " + strings.Join(names, ", "),
		"CREATE TABLE " + first + " (LIKE sends INCLUDING ALL) WITH (fillfactor = 50)",
		fmt.Sprintf("ALTER TABLE sends ATTACH PARTITION %s FOR VALUES FROM ('%v') TO ('%v')", first, store.LowestID(monday),
			store.LowestID(monday.AddDate(0, 0, 7))),
		"SELECT sendcode_make_partitions()",
	} {
		if _, err := f.tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// copyTable copies a table's rows from the file. It fails if the columns or the numbers of rows
// differ.
func (f *fill) copyTable(ctx context.Context, table string) error {
	described, _ := f.tx.Query(ctx, "SELECT * FROM "+table+" LIMIT 0")
	described.Close()
	if err := described.Err(); err != nil {
		return err
	}
	types := map[string]uint32{}
	for _, d := range described.FieldDescriptions() {
		types[d.Name] = d.DataTypeOID
	}
	names := slices.Sorted(maps.Keys(types))
	fileColumns, err := f.fileTexts(ctx, "SELECT name FROM pragma_table_info('"+table+"') ORDER BY name")
	if err != nil {
		return err
	}
	if !slices.Equal(fileColumns, names) {
		return errors.New("it has other columns in the file")
	}
	// identity columns are left out, since each database numbers its own rows
	numbered, _ := f.tx.Query(ctx, `SELECT attname::text FROM pg_attribute WHERE attrelid = @table::regclass AND attidentity <> ''`,
		pgx.NamedArgs{"table": table})
	skipped, err := pgx.CollectRows(numbered, pgx.RowTo[string])
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(skipped, name) })
	rows, err := f.from(ctx, `SELECT "`+strings.Join(names, `", "`)+`" FROM `+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	values, destinations := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		destinations[i] = &values[i]
	}
	n, err := f.tx.CopyFrom(ctx, pgx.Identifier{table}, names, pgx.CopyFromFunc(func() ([]any, error) {
		if !rows.Next() {
			return nil, rows.Err()
		}
		if err := rows.Scan(destinations...); err != nil {
			return nil, err
		}
		for i, name := range names {
			if values[i], err = fromFile(types[name], values[i]); err != nil {
				return nil, err
			}
		}
		return values, nil
	}))
	if err = errors.Join(err, rows.Close()); err != nil {
		return err
	}
	f.report(table, n)
	return f.checkEqual(ctx, "number of rows", "SELECT count(*) FROM "+table, "SELECT count(*)::text FROM "+table)
}

// fromFile converts a value of the file for a column of Postgres. oid is the OID of the column's
// type. migrations/sqlite says how the file represents instants, IDs and truth values.
func fromFile(oid uint32, value any) (any, error) {
	switch v := value.(type) {
	case []byte:
		if len(v) == 0 {
			return []byte{}, nil // the driver returns nil for empty bytes, which pgx would write as NULL
		}
	case int64:
		switch oid {
		case pgtype.TimestamptzOID:
			return time.UnixMicro(v), nil
		case pgtype.BoolOID:
			return v != 0, nil
		}
	case string:
		switch oid {
		case pgtype.UUIDOID:
			id, err := uuid.Parse(v)
			return [16]byte(id), err
		case pgtype.DateOID:
			return time.Parse(time.DateOnly, v)
		}
	}
	return value, nil
}

// checkEqual fails unless both queries return the same text.
func (f *fill) checkEqual(ctx context.Context, what, fileSQL, targetSQL string) error {
	want, err := f.fileTexts(ctx, fileSQL)
	if err != nil {
		return err
	}
	var got string
	if err := f.tx.QueryRow(ctx, targetSQL).Scan(&got); err != nil {
		return err
	}
	if got != want[0] {
		return fmt.Errorf("store: the copy differs from the file, and nothing was copied: %s: %s, not %s", what, got, want[0])
	}
	return nil
}
