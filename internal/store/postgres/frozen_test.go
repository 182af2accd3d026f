package postgres

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/migrations"
)

var writeFrozen = flag.Bool("write-frozen", false, "write testdata/frozen.sql anew: only before migration 1 is released")

const frozenFile = "testdata/frozen.sql"

// copied is the rows of one table, as pg_dump writes them.
var copied = regexp.MustCompile(`(?s)COPY (public\.(\w+) \([^)]*\)) FROM stdin;\n(.*?)\\\.\n`)

// A database with the first schema and its rows is migrated and has all that was written.
func TestMigrateFirstSchema(t *testing.T) {
	if *writeFrozen {
		writeFrozenDump(t)
	}
	url := firstSchema(t)
	conn := connect(t, url)
	var empty []string
	for _, c := range copied.FindAllStringSubmatch(string(storetest.Must(os.ReadFile(frozenFile))(t)), -1) {
		if c[3] == "" {
			empty = append(empty, c[2])
		}
		storetest.Must(conn.PgConn().CopyFrom(t.Context(), strings.NewReader(c[3]), "COPY "+c[1]+" FROM STDIN"))(t)
	}
	storetest.Equal(t, "tables without rows", empty, []string{"write_probe"})
	storetest.OK(t, Migrate(t.Context(), url, ""))
	storetest.ReadFrozen(t, frozenAt(t, url, storetest.FrozenLater).Numbered(1000))
}

// firstSchema returns a database with migration 1 alone, and a partition for the dump's sends.
func firstSchema(t *testing.T) (url string) {
	url = shared.Server(t).NewDatabase(t)
	const first = "postgres/00001_schema.sql"
	text := storetest.Must(migrations.Postgres.ReadFile(first))(t)
	db := stdlib.OpenDB(*storetest.Must(pgx.ParseConfig(url))(t))
	defer db.Close()
	storetest.OK(t, migrations.Migrate(t.Context(), goose.DialectPostgres, db, fstest.MapFS{first: {Data: text}}, "postgres"))
	exec(t, connect(t, url), `CREATE TABLE sends_frozen PARTITION OF sends FOR VALUES FROM ('`+
		store.LowestID(storetest.FrozenAt.Add(-day)).String()+`') TO ('`+store.LowestID(storetest.FrozenAt.Add(day)).String()+`')`)
	return url
}

func frozenAt(t *testing.T, url string, now time.Time) *storetest.Fixture {
	db := openTest(t, url, "(SELECT '"+now.Format(time.RFC3339)+"'::timestamptz)")
	return storetest.NewFixture(db).Beside(db).Clocked(now, nil)
}

func writeFrozenDump(t *testing.T) {
	url := firstSchema(t)
	early, late := frozenAt(t, url, storetest.FrozenAt), frozenAt(t, url, storetest.FrozenLater).Numbered(500)
	storetest.FillFrozen(t, early, late)
	storetest.Must(late.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, 10))(t)
	var dump strings.Builder
	partition := regexp.MustCompile(`^sends_\d`)
	for _, c := range copied.FindAllStringSubmatch(shared.Server(t).Dump(t, url), -1) {
		if c[2] != "schema_fingerprints" && c[2] != migrations.MigrationsTable && !partition.MatchString(c[2]) {
			dump.WriteString(c[0] + "\n")
		}
	}
	storetest.OK(t, os.MkdirAll(filepath.Dir(frozenFile), 0o755))
	storetest.OK(t, os.WriteFile(frozenFile, []byte(dump.String()), 0o644))
}
