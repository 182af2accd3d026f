package servertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	role     = "sendcode" // not a superuser, as in production; may create databases
	database = "sendcode"
)

// createRole creates the role, and gives it the empty database postgres that initdb has made, under
// another name. A new database would be 300 more files to copy.
var createRole = []string{
	"CREATE ROLE " + role + " LOGIN CREATEDB",
	"ALTER DATABASE postgres RENAME TO " + database,
	"ALTER DATABASE " + database + " OWNER TO " + role,
}

// initArgs sets the locale C, so that the sort order is the same on all machines.
var initArgs = []string{"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--wal-segsize=1"}

// makeCluster copies the data directory from an original in CacheDir, because initdb takes seconds
// and a copy takes a tenth of a second. Each version of Postgres has its own original. The first
// process that needs an original makes it, while others wait for the lock.
func (s *PostgresServer) makeCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := errors.Join(os.Mkdir(s.data(), 0o700), s.owner.give(s.place.dir), s.owner.give(s.data())); err != nil {
		return err
	}
	version, err := exec.Command(filepath.Join(s.bin, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("postgres --version: %w", err)
	}
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	recipe := sha256.Sum256(fmt.Appendf(nil, "%s%q%q", version, initArgs, createRole))
	cachedCluster := filepath.Join(cache, fmt.Sprintf("postgres-data-%x", recipe[:6]))
	lock := flock.New(cachedCluster + lockSuffix)
	const poll = 50 * time.Millisecond
	if _, err := lock.TryLockContext(ctx, poll); err != nil {
		return fmt.Errorf("wait for the cached cluster: %w", err)
	}
	defer lock.Close()
	if _, err := os.Stat(cachedCluster); err != nil {
		if err := s.initCluster(ctx, cachedCluster); err != nil {
			return err
		}
	}
	return copyTree(cachedCluster, s.data(), s.owner)
}

// CacheDir returns the directory for files that take long to make, in the user's cache directory.
// If the user has no home, or can't write there, the directory is beside those of the servers.
func CacheDir() (string, error) {
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "sendcode")
		if os.MkdirAll(dir, 0o700) == nil && mayWrite(dir) {
			return dir, nil
		}
	}
	base, err := baseDirIn(fastTempDir())
	dir := filepath.Join(base, "sendcode")
	return dir, errors.Join(err, os.MkdirAll(dir, 0o700))
}

func mayWrite(dir string) bool {
	file, err := os.CreateTemp(dir, "write-")
	return err == nil && errors.Join(file.Close(), os.Remove(file.Name())) == nil
}

// initCluster initializes a data directory, with the role and its database. It does so in the
// server's place and copies the result to the cache, because the user that runs Postgres may not be
// able to write there. The copy is renamed to cachedCluster when it is complete and on the disk.
// Otherwise files could be empty after a power loss, and every later test would fail.
func (s *PostgresServer) initCluster(ctx context.Context, cachedCluster string) error {
	dir, half := filepath.Join(s.place.dir, "made"), cachedCluster+".half"
	if err := s.initdb(ctx, dir, "--no-sync"); err != nil { // the copy is synced instead
		return err
	}
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o700)); err != nil {
		return err
	}
	if err := copyTree(dir, half, owner{}); err != nil {
		return err
	}
	if err := finish(ctx, owner{}.command(half, filepath.Join(s.bin, "initdb"), "--sync-only", "-D", half)); err != nil {
		return err
	}
	return errors.Join(os.Rename(half, cachedCluster), os.RemoveAll(dir))
}

// makeKeptCluster makes a cluster at s.keptDir, unless there is one. The directory gets this name
// when the cluster is complete.
func (s *PostgresServer) makeKeptCluster(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.keptDir, "PG_VERSION")); err == nil {
		return s.owner.give(s.place.dir)
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	half := s.keptDir + ".half"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o700), s.owner.give(half), s.owner.give(s.place.dir)); err != nil {
		return err
	}
	if err := s.initdb(ctx, half); err != nil {
		return err
	}
	return os.Rename(half, s.keptDir)
}

// initdb initializes a data directory, with the role and its database.
func (s *PostgresServer) initdb(ctx context.Context, dir string, options ...string) error {
	args := slices.Concat(initArgs, options, []string{"-D", dir})
	if err := finish(ctx, s.owner.command(s.place.dir, filepath.Join(s.bin, "initdb"), args...)); err != nil {
		return err
	}
	// In single-user mode, Postgres reads SQL on stdin, one statement on each line, without a
	// server and a port.
	single := s.owner.command(s.place.dir, filepath.Join(s.bin, "postgres"), "--single", "-D", dir, "template1")
	single.Stdin = strings.NewReader(strings.Join(createRole, "\n") + "\n")
	return finish(ctx, single)
}

// finish runs cmd and waits for its end. If ctx ends first, it kills cmd. The error has cmd's
// stderr, and its stdout unless cmd.Stdout is set.
func finish(ctx context.Context, cmd *exec.Cmd) error {
	var output strings.Builder
	cmd.Stderr = &output
	if cmd.Stdout == nil {
		cmd.Stdout = &output
	}
	process, err := Run(cmd)
	if err != nil {
		return err
	}
	if err := process.Wait(ctx); err != nil {
		process.Kill()
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, output.String())
	}
	return nil
}
