package parts

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

// initdb takes seconds, copying what it made a tenth of one. So one cluster for
// each version of Postgres is kept in the user's cache directory and copied.
type clusterCache struct {
	bin   string // directory of the programs
	owner owner
	dir   string // <cache>/data is the cluster, <cache>/sum its checksum
}

const (
	role     = "sendcode" // not a superuser, as in production; may create databases
	database = "sendcode"
)

// setUp makes the role, and its database out of one that initdb leaves empty:
// a further one would be 300 more files to copy.
var setUp = []string{
	"CREATE ROLE " + role + " LOGIN CREATEDB",
	"ALTER DATABASE postgres RENAME TO " + database,
	"ALTER DATABASE " + database + " OWNER TO " + role,
}

// No sync: a machine that crashes while this runs loses a cache. Locale C: the
// same order everywhere, whatever locales the machine has.
var initArgs = []string{
	"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1",
}

func newClusterCache(bin string, o owner) (*clusterCache, error) {
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
	recipe := sha256.Sum256(fmt.Appendf(nil, "%s%q%q", version, initArgs, setUp))
	dir := filepath.Join(cache, "sendcode", fmt.Sprintf("postgres-%x", recipe[:6]))
	return &clusterCache{bin: bin, owner: o, dir: dir}, os.MkdirAll(filepath.Dir(dir), 0o700)
}

// copyTo fills the empty directory dst, which belongs to the owner, with a
// cluster. Where the cache is absent or damaged, it is made anew first.
func (c *clusterCache) copyTo(ctx context.Context, dst string) error {
	lock := flock.New(c.dir + lockSuffix)
	const poll = 50 * time.Millisecond
	if _, err := lock.TryLockContext(ctx, poll); err != nil {
		return fmt.Errorf("wait for the cached cluster: %w", err)
	}
	defer lock.Close()
	if c.copyIntact(dst) == nil {
		return nil
	}
	if err := c.rebuild(ctx); err != nil {
		return err
	}
	if err := empty(dst); err != nil {
		return err
	}
	return c.copyIntact(dst)
}

func (c *clusterCache) copyIntact(dst string) error {
	want, err := os.ReadFile(c.sumPath())
	if err != nil {
		return err
	}
	got, err := copyTree(c.dataPath(), dst, c.owner)
	if err == nil && got != string(want) {
		err = errors.New("the cached cluster is damaged")
	}
	return err
}

func (c *clusterCache) dataPath() string { return filepath.Join(c.dir, "data") }
func (c *clusterCache) sumPath() string  { return filepath.Join(c.dir, "sum") }

// rebuild makes the cluster where the owner may write and copies it into the
// cache, where perhaps only we may. The checksum is written last: a rebuild cut
// short leaves a cache that is not taken for whole.
func (c *clusterCache) rebuild(ctx context.Context) (err error) {
	p, err := claim()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.release()) }()
	if err := c.owner.give(p.dir); err != nil {
		return err
	}
	made := filepath.Join(p.dir, "data")
	if err := c.initialise(ctx, p.dir, made); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(c.dir), os.MkdirAll(c.dataPath(), 0o700)); err != nil {
		return err
	}
	sum, err := copyTree(made, c.dataPath(), owner{})
	if err != nil {
		return err
	}
	return os.WriteFile(c.sumPath(), []byte(sum), 0o600)
}

func (c *clusterCache) initialise(ctx context.Context, dir, data string) error {
	initdb := c.owner.command(dir, filepath.Join(c.bin, "initdb"), append(initArgs, "-D", data)...)
	if err := finish(ctx, initdb); err != nil {
		return err
	}
	// Single-user mode: SQL on stdin, a statement a line, no server and no port.
	single := c.owner.command(dir, filepath.Join(c.bin, "postgres"), "--single", "-F", "-D", data, "template1")
	single.Stdin = strings.NewReader(strings.Join(setUp, "\n") + "\n")
	return finish(ctx, single)
}

// finish runs cmd to its end; the error shows what cmd said, unless the caller
// has set where its output goes.
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

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
