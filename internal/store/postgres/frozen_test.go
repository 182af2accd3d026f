package postgres

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/migrations"
)

var writeFrozen = flag.Bool("write-frozen", false, "write testdata/frozen.sql anew: only before migration 1 is released")

const frozenFile = "testdata/frozen.sql"

// copyStatement matches the rows of one table, as pg_dump writes them.
var copyStatement = regexp.MustCompile(`(?s)COPY (public\.(\w+) \([^)]*\)) FROM stdin;\n(.*?)\\\.\n`)

// Migrate keeps all rows of a database with the first schema.
func TestMigrateFirstSchema(t *testing.T) {
	if *writeFrozen {
		writeFrozenDump(t)
	}
	url := schemaUntil(t, 1, storetest.FrozenAt)
	storetest.Equal(t, "tables without rows", copyInto(t, url, frozenFile), []string{"write_probe"})
	storetest.OK(t, Migrate(t.Context(), url, ""))
	storetest.ReadFrozen(t, frozenAt(t, url, storetest.FrozenLater).Numbered(1000))
}

// copyInto copies the rows of a file into a database, and returns the tables of which it has none.
func copyInto(t *testing.T, url, file string) (empty []string) {
	conn := connect(t, url)
	for _, c := range copyStatement.FindAllStringSubmatch(string(storetest.Must(os.ReadFile(file))(t)), -1) {
		if c[3] == "" {
			empty = append(empty, c[2])
		}
		storetest.Must(conn.PgConn().CopyFrom(t.Context(), strings.NewReader(c[3]), "COPY "+c[1]+" FROM STDIN"))(t)
	}
	return empty
}

// schemaUntil returns a database with the migrations up to number last, and with a partition for
// the sends of a dump from the instant at.
func schemaUntil(t *testing.T, last int, at time.Time) (url string) {
	url = shared.Server(t).NewDatabase(t)
	files := fstest.MapFS{}
	for _, name := range storetest.Must(fs.Glob(migrations.Postgres, "postgres/*.sql"))(t) {
		if filepath.Base(name) < fmt.Sprintf("%05d", last+1) {
			files[name] = &fstest.MapFile{Data: storetest.Must(migrations.Postgres.ReadFile(name))(t)}
		}
	}
	db := stdlib.OpenDB(*storetest.Must(pgx.ParseConfig(url))(t))
	defer db.Close()
	storetest.OK(t, migrations.Migrate(t.Context(), goose.DialectPostgres, db, files, "postgres"))
	_, err := connect(t, url).Exec(t.Context(), `CREATE TABLE sends_frozen PARTITION OF sends FOR VALUES FROM ('`+
		store.LowestID(at.Add(-day)).String()+`') TO ('`+store.LowestID(at.Add(day)).String()+`')`)
	if overlaps := new(pgconn.PgError); !errors.As(err, &overlaps) || overlaps.Code != "42P17" { // the migration has made one for that day
		storetest.OK(t, err)
	}
	return url
}

func frozenAt(t *testing.T, url string, now time.Time) *storetest.Fixture {
	db := openTest(t, url, "(SELECT '"+now.Format(time.RFC3339)+"'::timestamptz)")
	return storetest.NewFixture(db).Beside(db).Clocked(now, nil)
}

func writeFrozenDump(t *testing.T) {
	url := schemaUntil(t, 1, storetest.FrozenAt)
	early, late := frozenAt(t, url, storetest.FrozenAt), frozenAt(t, url, storetest.FrozenLater).Numbered(500)
	storetest.FillFrozen(t, early, late)
	var dump strings.Builder
	partition := regexp.MustCompile(`^sends_\d`)
	for _, c := range copyStatement.FindAllStringSubmatch(shared.Server(t).Dump(t, url), -1) {
		if c[2] != "schema_fingerprints" && c[2] != migrations.MigrationsTable && !partition.MatchString(c[2]) {
			dump.WriteString(c[0] + "\n")
		}
	}
	storetest.OK(t, os.MkdirAll(filepath.Dir(frozenFile), 0o755))
	storetest.OK(t, os.WriteFile(frozenFile, []byte(dump.String()), 0o644))
}
