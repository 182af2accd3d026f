package servertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// pgDataCache keeps one initialized Postgres data directory for each version of
// Postgres in the user's cache directory, and copies it for each test server:
// initdb takes seconds, a copy a tenth of one.
type pgDataCache struct {
	bin   string // directory of the programs
	owner owner
	dir   string // the data directory; whole, if it is there
}

const (
	role     = "sendcode" // not a superuser, as in production; may create databases
	database = "sendcode"
)

// createRole creates the role, and renames an empty database of initdb for it: a new
// database would be 300 more files to copy.
var createRole = []string{
	"CREATE ROLE " + role + " LOGIN CREATEDB",
	"ALTER DATABASE postgres RENAME TO " + database,
	"ALTER DATABASE " + database + " OWNER TO " + role,
}

// initArgs: without sync, since after a crash the cache is rebuilt; with locale
// C, for the same sort order on all machines.
var initArgs = []string{
	"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1",
}

func newPgDataCache(bin string, o owner) (*pgDataCache, error) {
	version, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("postgres --version: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil { // no HOME
		if cache, err = baseDir(); err != nil {
			return nil, err
		}
	}
	recipe := sha256.Sum256(fmt.Appendf(nil, "%s%q%q", version, initArgs, createRole))
	dir := filepath.Join(cache, "sendcode", fmt.Sprintf("postgres-data-%x", recipe[:6]))
	return &pgDataCache{bin: bin, owner: o, dir: dir}, os.MkdirAll(filepath.Dir(dir), 0o700)
}

// copyTo copies the data directory to the empty directory dst of the owner. It first makes it if it
// is missing, and waits for other processes that do so.
func (c *pgDataCache) copyTo(ctx context.Context, dst string) error {
	lock := flock.New(c.dir + lockSuffix)
	const poll = 50 * time.Millisecond
	if _, err := lock.TryLockContext(ctx, poll); err != nil {
		return fmt.Errorf("wait for the cached cluster: %w", err)
	}
	defer lock.Close()
	if _, err := os.Stat(c.dir); err != nil {
		if err := c.build(ctx); err != nil {
			return err
		}
	}
	return copyTree(c.dir, dst, c.owner)
}

// build initializes a data directory in a temporary directory of the owner and copies it to the
// cache, where perhaps only this user may write. It gets its name when it is whole.
func (c *pgDataCache) build(ctx context.Context) (err error) {
	p, err := claim()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.release()) }()
	if err := c.owner.give(p.dir); err != nil {
		return err
	}
	made := filepath.Join(p.dir, "data")
	if err := c.bootstrapCluster(ctx, p.dir, made); err != nil {
		return err
	}
	half := c.dir + ".half"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o700)); err != nil {
		return err
	}
	if err := copyTree(made, half, owner{}); err != nil {
		return err
	}
	return os.Rename(half, c.dir)
}

// bootstrapCluster runs initdb on dataDir, then creates the role and its database
// in single-user mode.
func (c *pgDataCache) bootstrapCluster(ctx context.Context, workDir, dataDir string) error {
	initdb := c.owner.command(workDir, filepath.Join(c.bin, "initdb"), append(initArgs, "-D", dataDir)...)
	if err := finish(ctx, initdb); err != nil {
		return err
	}
	// Single-user mode: SQL on stdin, a statement a line, no server and no port.
	single := c.owner.command(workDir, filepath.Join(c.bin, "postgres"), "--single", "-F", "-D", dataDir, "template1")
	single.Stdin = strings.NewReader(strings.Join(createRole, "\n") + "\n")
	return finish(ctx, single)
}

// finish runs cmd and waits for its end; it kills cmd if ctx ends first. The error
// has cmd's stderr, and its stdout unless cmd.Stdout is set.
func finish(ctx context.Context, cmd *exec.Cmd) error {
	var said strings.Builder
	cmd.Stderr = &said
	if cmd.Stdout == nil {
		cmd.Stdout = &said
	}
	process, err := Run(cmd)
	if err != nil {
		return err
	}
	if err := process.Wait(ctx); err != nil {
		process.Kill()
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, said.String())
	}
	return nil
}
