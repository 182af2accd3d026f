package sqlite

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sendcode/internal/store/storetest"
)

var writeFrozen = flag.Bool("write-frozen", false, "write testdata/frozen.db.gz anew: only before migration 1 is released")

const frozenFile = "testdata/frozen.db.gz"

// A file from before the first release of a later migration opens, and has all that was written.
func TestOpenFileOfFirstSchema(t *testing.T) {
	if *writeFrozen {
		writeFrozenFile(t)
	}
	packed := storetest.Must(os.Open(frozenFile))(t)
	defer packed.Close()
	content := storetest.Must(io.ReadAll(storetest.Must(gzip.NewReader(packed))(t)))(t)
	path := storetest.TempFile(t)
	storetest.OK(t, os.WriteFile(path, content, 0o600))
	file := storetest.Must(sql.Open("sqlite", path))(t)
	for _, table := range tablesOf(t, file) {
		var rows int
		storetest.OK(t, file.QueryRow("SELECT count(*) FROM "+table).Scan(&rows))
		if rows == 0 && table != "write_probe" {
			t.Errorf("the file has no row of %s", table)
		}
	}
	storetest.OK(t, file.Close())
	db := openSQLite(t, path, &storetest.TestClock{At: storetest.FrozenLater})
	storetest.ReadFrozen(t, storetest.NewFixture(db).Clocked(storetest.FrozenLater, nil).Numbered(1000))
}

func tablesOf(t *testing.T, file *sql.DB) (names []string) {
	rows := storetest.Must(file.Query(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`))(t)
	defer rows.Close()
	for rows.Next() {
		var name string
		storetest.OK(t, rows.Scan(&name))
		names = append(names, name)
	}
	storetest.OK(t, rows.Err())
	return names
}

func writeFrozenFile(t *testing.T) {
	path, small := storetest.TempFile(t), filepath.Join(t.TempDir(), "small.db")
	early := openSQLite(t, path, &storetest.TestClock{At: storetest.FrozenAt})
	late := openSQLite(t, path, &storetest.TestClock{At: storetest.FrozenLater})
	storetest.FillFrozen(t, storetest.NewFixture(early).Beside(early).Clocked(storetest.FrozenAt, nil),
		storetest.NewFixture(late).Clocked(storetest.FrozenLater, nil).Numbered(500))
	storetest.Must(late.writer.Exec(`VACUUM INTO '` + small + `'`))(t)
	var packed bytes.Buffer
	w := storetest.Must(gzip.NewWriterLevel(&packed, gzip.BestCompression))(t)
	storetest.Must(w.Write(storetest.Must(os.ReadFile(small))(t)))(t)
	storetest.OK(t, w.Close())
	storetest.OK(t, os.MkdirAll(filepath.Dir(frozenFile), 0o755))
	storetest.OK(t, os.WriteFile(frozenFile, packed.Bytes(), 0o644))
}
