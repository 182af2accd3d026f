package commands

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sendcode/internal/run/config"
	"sendcode/internal/run/disk"
	"sendcode/internal/store/sqlite"
)

const (
	manifestFile = "manifest.json" // the last file of the archive: a truncated archive lacks it
	// largestManifest bounds the memory for a manifest, in bytes.
	largestManifest = 1 << 16
	// progressEvery is the number of bytes between two lines about the progress.
	progressEvery = 64 << 20
)

// manifest lists the files of an archive, in their order.
type manifest struct {
	At    time.Time      `json:"at"` // when the copy began
	Files []archivedFile `json:"files"`
}

type archivedFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hex
}

// BackupTo writes a tar archive (POSIX.1-2001, pax) to out. The archive has the SQLite file and
// then the manifest. If secrets is true, the file of secrets is between the two. The service may
// run meanwhile.
//
// SQLite can copy only into a file, so BackupTo first copies the database into a file in the data
// directory. The copy needs as much room as the database, and a tenth more must be free for the
// service. BackupTo unlinks the finished copy before it reads it, so that the operating system
// deletes the copy even if the process is killed.
//
// When the archive is complete, BackupTo records the time at which the backup began, unless ctx is
// done. The metrics and the doctor show this time. BackupTo writes lines about its progress to the
// parameter progress, for a person.
func BackupTo(ctx context.Context, cfg config.Config, out io.Writer, secrets bool, progress io.Writer) error {
	if cfg.DatabaseURL != "" {
		return errors.New(postgresBackup)
	}
	from := filepath.Join(cfg.DataDir, config.DatabaseFile)
	removeUnfinished(cfg.DataDir, 23*time.Hour) // an unfinished file may have filled the disk: the next daily backup removes it
	if err := checkRoomFor(from, from, 1.1); err != nil {
		return err
	}
	archived := manifest{At: time.Now().UTC()}
	archive := tar.NewWriter(out)
	add := func(name string, fill func(path string) error) error {
		dir, err := os.MkdirTemp(cfg.DataDir, unfinished) // 0700
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, name)
		if err := errors.Join(createEmptyFile(path), fill(path)); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := os.Remove(path); err != nil {
			return err
		}
		file, err := addToArchive(ctx, archive, name, f, progress)
		archived.Files = append(archived.Files, file)
		return err
	}
	err := add(config.DatabaseFile, func(path string) error { return sqlite.Backup(ctx, from, path) })
	if err == nil && secrets {
		err = add(config.SecretsFile, func(path string) error { return config.BackUpSecrets(cfg.DataDir, path) })
	}
	if err == nil {
		text, _ := json.Marshal(archived) // archived has nothing that can't be marshaled
		err = archive.WriteHeader(&tar.Header{Name: manifestFile, Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = archive.Write(text)
		}
	}
	if err = errors.Join(err, archive.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("the backup is incomplete: %w", err)
	}
	return recordBackup(cfg, archived.At)
}

// unfinished is the pattern of the directories for unfinished files in the data directory.
const unfinished = "unfinished-*.tmp"

// removeUnfinished removes files that a killed process left and that are older than age.
func removeUnfinished(dataDir string, age time.Duration) {
	left, _ := filepath.Glob(filepath.Join(dataDir, unfinished)) // the pattern is well-formed
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > age {
			_ = os.RemoveAll(dir) // the next call tries again
		}
	}
}

// interruptible is a reader whose reads fail with the context's error when the context is done.
type interruptible struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.Reader.Read(p)
}

func addToArchive(ctx context.Context, archive *tar.Writer, name string, f *os.File, progress io.Writer) (archivedFile, error) {
	info, err := f.Stat()
	if err != nil {
		return archivedFile{}, err
	}
	sum := sha256.New()
	err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()})
	for done := int64(0); err == nil && done < info.Size(); {
		n, failed := io.CopyN(io.MultiWriter(archive, sum), interruptible{ctx, f}, min(progressEvery, info.Size()-done))
		done, err = done+n, failed
		_, _ = fmt.Fprintf(progress, "%s: %s of %s\n", name, megabytes(float64(done)), megabytes(float64(info.Size())))
	}
	return archivedFile{name, info.Size(), hex.EncodeToString(sum.Sum(nil))}, err
}

// Restore reads an archive of BackupTo into the data directory, which must have no database and no
// secrets yet. The files get their final names only when all checksums match the manifest. Restore
// reads the input to its end, so that the program that writes the archive can finish.
func Restore(ctx context.Context, cfg config.Config, in io.Reader, out io.Writer) error {
	if cfg.DatabaseURL != "" {
		return errors.New("the database is Postgres, which would not use the file: leave out SENDCODE_DATABASE_URL (docs/operations.md#backup-and-restore)")
	}
	unlock, err := config.LockDataDir(ctx, cfg.DataDir, 0)
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range []string{config.DatabaseFile, config.DatabaseFile + "-wal", config.DatabaseFile + "-shm", config.SecretsFile} {
		if _, err := os.Lstat(filepath.Join(cfg.DataDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has %s already: move that file away", cfg.DataDir, name)
		}
	}
	removeUnfinished(cfg.DataDir, 0) // no backup runs without a database
	dir, err := os.MkdirTemp(cfg.DataDir, unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	breaks := &lineBreaks{Reader: interruptible{ctx, in}}
	at, names, err := readArchive(dir, bufio.NewReader(breaks))
	if err != nil && breaks.asText() {
		err = errors.New(problemText)
	}
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	slices.Reverse(names) // the secrets come first, because a start fails on a database without its secrets
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(cfg.DataDir, name)); err != nil {
			return err
		}
	}
	if err := config.SyncDir(cfg.DataDir); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has the database of %s.\n", cfg.DataDir, at.Format(time.RFC3339))
	return err
}

// formats has the first bytes of files that people confuse with an archive.
var formats = []struct{ begins, problem string }{
	{"\x1f\x8b", "it is compressed by gzip: gunzip -c FILE | sendcode restore -"},
	{"\x28\xb5\x2f\xfd", "it is compressed by zstd: zstd -dc FILE | sendcode restore -"},
	{"\xfd7zXZ", "it is compressed by xz: xz -dc FILE | sendcode restore -"},
	{"BZh", "it is compressed by bzip2: bzip2 -dc FILE | sendcode restore -"},
	{"\x04\x22\x4d\x18", "it is compressed by lz4: lz4 -dc FILE | sendcode restore -"},
	{"\x5d\x00\x00", "it is compressed by lzma: xz -dc FILE | sendcode restore -"},
	{"PK\x03\x04", "it is a zip file: unzip -p FILE | sendcode restore -"},
	{"7z\xbc\xaf\x27\x1c", "it is compressed by 7-Zip: 7z x -so FILE | sendcode restore -"},
	{"age-encryption.", "it is encrypted by age: age -d FILE | sendcode restore -"},
	{"Salted__", "it is encrypted by openssl: decrypt it first"},
	{"-----BEGIN", "it is encrypted, or text: decrypt it first"},
	{"PGDMP", "it is a dump of Postgres: restore it with pg_restore"},
	{"\xff\xfe", problemText},
	{"\xef\xbb\xbf", problemText},
	{sqliteFormat, "it is a database, not an archive: with the service stopped, put it into the data directory as " + config.DatabaseFile},
}

// problemText is the problem of a file that was written or sent as text.
const problemText = "it was changed on its way, as by a transfer in text mode or by > of PowerShell: copy it again, as binary data"

// lineBreaks counts the line breaks that are read through it, for asText.
type lineBreaks struct {
	io.Reader
	all, afterCR int
	last         byte
}

// Read implements io.Reader.
func (l *lineBreaks) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	for _, c := range p[:n] {
		if c == '\n' {
			if l.all++; l.last == '\r' {
				l.afterCR++
			}
		}
		l.last = c
	}
	return n, err
}

// asText reports whether the data went through a program that writes CRLF for each line break. The
// pages of a database have hundreds of line feeds, few of them after a carriage return.
func (l *lineBreaks) asText() bool { return l.all > 1 && l.all == l.afterCR }

const sqliteFormat = "SQLite format 3\x00" // sqlite.org/fileformat2.html section 1.2

// readArchive reads the files of an archive into dir and compares them with the manifest.
func readArchive(dir string, in *bufio.Reader) (at time.Time, names []string, err error) {
	first, _ := in.Peek(len(sqliteFormat)) // the error of a shorter file is that it has no manifest
	for _, f := range formats {
		if strings.HasPrefix(string(first), f.begins) {
			return at, nil, errors.New(f.problem)
		}
	}
	archive := tar.NewReader(in)
	var read []archivedFile
	for {
		head, err := archive.Next()
		if err != nil { // even io.EOF is an error, because the manifest must come before the end
			return at, nil, fmt.Errorf("the file is not an archive of sendcode backup, or its end is missing: %w", err)
		}
		if head.Name == manifestFile {
			break
		}
		file, err := unpackFile(dir, archive, head, names)
		if err != nil {
			return at, nil, err
		}
		read, names = append(read, file), append(names, head.Name)
	}
	var listed manifest
	if err := json.NewDecoder(io.LimitReader(archive, largestManifest)).Decode(&listed); err != nil {
		return at, nil, fmt.Errorf("the archive's manifest can't be read: %w", err)
	}
	if !slices.Equal(read, listed.Files) || !slices.Contains(names, config.DatabaseFile) {
		return at, nil, errors.New("the archive is damaged: its files do not match its manifest")
	}
	switch _, err := archive.Next(); {
	case err == nil:
		return at, nil, errors.New("the archive is damaged: it has a file after its manifest")
	case errors.Is(err, context.Canceled):
		return at, nil, err
	}
	return listed.At, names, nil
}

// unpackFile reads one file of an archive into dir. before has the names of the earlier files.
// unpackFile accepts only regular files, since BackupTo writes only these. A link has no content,
// and a sparse file may be larger than the archive.
func unpackFile(dir string, archive io.Reader, head *tar.Header, before []string) (archivedFile, error) {
	if head.Name != config.DatabaseFile && head.Name != config.SecretsFile {
		return archivedFile{}, fmt.Errorf("the archive has the file %q, which no backup has", head.Name)
	}
	sparse := slices.ContainsFunc(slices.Collect(maps.Keys(head.PAXRecords)), func(key string) bool {
		return strings.HasPrefix(key, "GNU.sparse.")
	})
	if head.Typeflag != tar.TypeReg || sparse || slices.Contains(before, head.Name) {
		return archivedFile{}, fmt.Errorf("the archive has %s twice, or not as a regular file", head.Name)
	}
	if free, _, ok := disk.Space(dir); ok && free < float64(head.Size) {
		return archivedFile{}, fmt.Errorf("the disk has %s free, and %s takes %s", megabytes(free), head.Name, megabytes(float64(head.Size)))
	}
	in, sum := bufio.NewReader(archive), sha256.New()
	first, err := in.Peek(len(sqliteFormat))
	if head.Name == config.DatabaseFile && string(first) != sqliteFormat {
		return archivedFile{}, errors.Join(fmt.Errorf("%s is not a SQLite database", head.Name), err)
	}
	err = config.WriteFile(filepath.Join(dir, head.Name), func(f *os.File) error {
		_, err := io.Copy(io.MultiWriter(f, sum), in)
		return err
	})
	return archivedFile{head.Name, head.Size, hex.EncodeToString(sum.Sum(nil))}, err
}
