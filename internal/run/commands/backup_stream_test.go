package commands_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite"
)

const database = "SQLite format 3\x00"

// archiveOf returns an archive with this head before each content, or with the head alone if there
// is no content. The archive lacks the blocks of zeros at its end.
func archiveOf(head *tar.Header, contents ...string) io.Reader {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	if len(contents) == 0 {
		_ = archive.WriteHeader(head)
	}
	for _, content := range contents {
		head.Size = int64(len(content))
		_ = archive.WriteHeader(head)
		_, _ = io.WriteString(archive, content)
	}
	_ = archive.Flush()
	return &out
}

// sparse returns an archive of a database of 3 GiB, of which the archive has only 16 bytes.
func sparse() io.Reader {
	content := "1\n0\n16\n" + strings.Repeat("\x00", 505) + database // a sparse file: the map of its pieces, then the pieces
	raw, _ := io.ReadAll(archiveOf(&tar.Header{Name: config.DatabaseFile, PAXRecords: map[string]string{
		"NUL.sparse.major": "1", "NUL.sparse.minor": "0", "NUL.sparse.realsize": "3221225472",
	}}, content)) // package tar writes no sparse files
	return bytes.NewReader(bytes.ReplaceAll(raw, []byte("NUL.sparse."), []byte("GNU.sparse.")))
}

// An archive that a running service wrote can be restored as a whole service. An archive that was
// cut or changed is refused, and leaves no file but the lock. A backup is not recorded if its
// reader went away or if it was interrupted.
func TestBackupStream(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy("    - {name: hour, scope: recipient, limit: 1, window: 1h}\n").Start(1)
	s.Is("the first", s.Ask(0, apptest.Ana), http.StatusAccepted)
	cfg := s.Config()
	old := filepath.Join(cfg.DataDir, "unfinished-1.tmp")
	apptest.Must(t, errors.Join(os.Mkdir(old, 0o700), os.Chtimes(old, time.Time{}, time.Now().Add(-24*time.Hour))))
	closed := errors.New("closed")
	if err := commands.BackupTo(t.Context(), cfg, failingWriter{closed}, true, io.Discard); !errors.Is(err, closed) {
		t.Error(err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	whenAsked := writerFunc(func(p []byte) (int, error) { interrupt(); return len(p), nil })
	if err := commands.BackupTo(interrupted, cfg, io.Discard, true, whenAsked); !errors.Is(err, context.Canceled) {
		t.Error("interrupted:", err)
	}
	if at := config.LastBackup(cfg.DataDir); !at.IsZero() {
		t.Error("a backup whose reader had gone, or that was interrupted, is recorded", at)
	}
	var archive, progress bytes.Buffer
	apptest.Must(t, commands.BackupTo(t.Context(), cfg, &archive, true, &progress))
	recorded := config.LastBackup(cfg.DataDir)
	if time.Since(recorded) > time.Hour || !strings.Contains(progress.String(), "sendcode.db: ") {
		t.Errorf("recorded at %v, progress %q", recorded, &progress)
	}
	if err := commands.Restore(t.Context(), cfg, &archive, io.Discard); !errors.Is(err, config.ErrDataDirInUse) {
		t.Error("beside the service:", err)
	}
	s.Stop(0)
	s.Replicas = nil
	whole := archive.Bytes()
	if err := commands.Restore(t.Context(), cfg, &archive, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "has sendcode.db already") {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(cfg.DataDir, "unfinished-*"))
	if err != nil || len(left) > 0 {
		t.Error("left:", left, err)
	}

	foreign := new(bytes.Buffer)
	other := tar.NewWriter(foreign)
	apptest.Must(t, errors.Join(other.WriteHeader(&tar.Header{Name: "../" + config.DatabaseFile}), other.Close()))
	manifest := bytes.Index(whole, []byte("manifest.json"))
	changed := bytes.Clone(whole)
	changed[len(changed)/3] ^= 1
	after := bytes.NewBuffer(bytes.Clone(whole[:len(whole)-2*512])) // without the two blocks of zeros at the end
	other = tar.NewWriter(after)
	apptest.Must(t, errors.Join(other.WriteHeader(&tar.Header{Name: config.DatabaseFile}), other.Close()))
	cfg.DataDir = filepath.Join(t.TempDir(), "restored")
	young := filepath.Join(cfg.DataDir, "unfinished-2.tmp") // as left by a restore that was killed
	apptest.Must(t, os.MkdirAll(young, 0o700))
	if err := commands.Restore(interrupted, cfg, bytes.NewReader(whole), io.Discard); !errors.Is(err, context.Canceled) {
		t.Error("an interrupted restore:", err)
	}
	for want, in := range map[string]io.Reader{
		"or its end is missing: EOF":       bytes.NewReader(whole[:manifest]),
		"unexpected EOF":                   bytes.NewReader(whole[:len(whole)/2]),
		"manifest can't be read":           bytes.NewReader(whole[:manifest+520]),
		"files do not match its manifest":  bytes.NewReader(changed),
		"not an archive of sendcode":       strings.NewReader(""),
		"which no backup has":              foreign,
		"a file after its manifest":        after,
		iotest.ErrTimeout.Error():          iotest.TimeoutReader(bytes.NewReader(whole)),
		"nothing was restored: the file":   strings.NewReader(strings.Repeat("not a tar ", 200)),
		"gunzip -c FILE":                   strings.NewReader("\x1f\x8b\x08 and more than a few bytes"),
		"xz -dc FILE":                      strings.NewReader("\xfd7zXZ\x00 and more than a few bytes"),
		"bzip2 -dc FILE":                   strings.NewReader("BZh91AY&SY and more than a few bytes"),
		"zstd -dc FILE":                    strings.NewReader("\x28\xb5\x2f\xfd and more than a few bytes"),
		"unzip -p FILE":                    strings.NewReader("PK\x03\x04 and more than a few bytes"),
		"age -d FILE":                      strings.NewReader("age-encryption.org/v1 and more"),
		"with pg_restore":                  strings.NewReader("PGDMP and more than a few bytes"),
		"as by a transfer in text mode":    bytes.NewReader(bytes.ReplaceAll(whole, []byte("\n"), []byte("\r\n"))),
		"or by > of PowerShell":            strings.NewReader("\xff\xfes\x00e\x00n\x00d\x00c\x00o\x00d\x00e\x00"),
		"not an archive: with the service": strings.NewReader("SQLite format 3\x00 and more"),
		"twice, or not as a regular file": archiveOf(&tar.Header{
			Name: config.DatabaseFile, Typeflag: tar.TypeLink, Linkname: config.SecretsFile,
		}, ""),
		"has sendcode.db twice":    archiveOf(&tar.Header{Name: config.DatabaseFile}, database, database),
		"as a regular file":        sparse(),
		"is not a SQLite database": archiveOf(&tar.Header{Name: config.DatabaseFile}, "an empty file, nearly"),
		"sendcode.db takes":        archiveOf(&tar.Header{Name: config.DatabaseFile, Size: 1 << 55}),
	} {
		if err := commands.Restore(t.Context(), cfg, in, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not %q but %v", want, err)
		}
		if files, err := os.ReadDir(cfg.DataDir); err != nil || len(files) != 1 || files[0].Name() != "lock" {
			t.Errorf("%s: left %v, %v", want, files, err)
		}
	}

	for _, name := range []string{"sendcode.db", "sendcode.db-wal", "sendcode.db-shm", "secrets.yaml"} {
		there := filepath.Join(cfg.DataDir, name)
		apptest.Must(t, os.WriteFile(there, nil, 0o600))
		if err := commands.Restore(t.Context(), cfg, bytes.NewReader(whole), io.Discard); err == nil ||
			!strings.Contains(err.Error(), "has "+name+" already") {
			t.Error(name, err)
		}
		apptest.Must(t, os.Remove(there))
	}
	elsewhere := cfg
	elsewhere.DatabaseURL = "postgres://db/sendcode"
	if err := commands.Restore(t.Context(), elsewhere, bytes.NewReader(whole), io.Discard); err == nil ||
		!strings.Contains(err.Error(), "the database is Postgres") {
		t.Error(err)
	}

	inTheWay := filepath.Join(cfg.DataDir, config.SecretsFile, "made meanwhile")
	late := io.MultiReader(readerFunc(func([]byte) (int, error) {
		return 0, cmp.Or(os.MkdirAll(inTheWay, 0o700), io.EOF)
	}), bytes.NewReader(whole))
	err = commands.Restore(t.Context(), cfg, late, io.Discard)
	if _, there := os.Stat(filepath.Join(cfg.DataDir, config.DatabaseFile)); err == nil || !errors.Is(there, fs.ErrNotExist) {
		t.Errorf("a database without its secrets: %v, %v", err, there)
	}
	apptest.Must(t, os.RemoveAll(filepath.Dir(inTheWay)))

	var output strings.Builder
	end := bytes.NewReader(whole)
	apptest.Must(t, commands.Restore(t.Context(), cfg, end, &output))
	if left := end.Len(); left > 0 {
		t.Errorf("%d bytes of the archive are not read, so its writer fails", left)
	}
	if !strings.HasPrefix(output.String(), cfg.DataDir+" has the database of "+recorded.UTC().Format("2006-01-02T15:04:05Z")) {
		t.Error(output.String())
	}
	db, err := sqlite.OpenPool("file:"+filepath.Join(cfg.DataDir, config.DatabaseFile)+"?mode=ro", 1)
	apptest.Must(t, err)
	same(t, db, "PRAGMA integrity_check", "ok")
	apptest.Must(t, db.Close())
	s.Env["SENDCODE_DATA_DIR"] = cfg.DataDir
	restored, err := s.New(s.Config())
	apptest.Must(t, err)
	s.Serve(restored)
	s.Is("after the restore", s.Ask(0, apptest.Ana), http.StatusTooManyRequests)
}

type writerFunc func([]byte) (int, error)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// failingWriter stands for a pipe whose reader is gone: each write fails with err.
type failingWriter struct{ err error }

// Write implements io.Writer.
func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
