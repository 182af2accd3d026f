package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/servertest"
)

const apiKey = "sk_0123456789abcdefghijABCDEFGHIJ"

// firstRecipient makes all recipients equally long.
const firstRecipient = 1_000_000

// rig is what all contenders share, the contenders, and what of one part the later ones need.
type rig struct {
	dir        string // on the disk
	redis      *servertest.RedisServer
	postgres   *servertest.PostgresServer
	admin      *pgx.Conn // of a superuser
	mails      *receiver
	contenders []contender
	recipients atomic.Int64 // no recipient is used twice
	progress   io.Writer
	closers    []func() error

	sent   []*entry // of sends
	checks []run
	goals  *grid
}

func openRig(ctx context.Context, progress io.Writer) (_ *rig, err error) {
	b := &rig{progress: progress, goals: newGoals()}
	b.recipients.Store(firstRecipient)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	parent, err := realDisk(ctx)
	if err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp(parent, "sendcode-bench-"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(b.dir) })
	if err := os.Chmod(b.dir, 0o755); err != nil { // Postgres may run as another user
		return nil, err
	}
	if b.redis, err = servertest.StartRedis(ctx, "--dir", b.dir, "--appendonly", "yes", "--appendfsync", "everysec"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.redis.Close)
	// Postgres is set as by default where it matters for speed, but that no checkpoint falls into a run.
	b.postgres, err = servertest.StartPostgresIn(ctx, b.dir, "fsync=on", "full_page_writes=on", "shared_buffers=1GB",
		"max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=1h", "maintenance_work_mem=512MB")
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.postgres.Close)
	if b.admin, err = pgx.Connect(ctx, b.postgres.AdminURL()); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return b.admin.Close(context.Background()) })
	if b.mails, err = startReceiver(); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.mails.Close)
	_, err = b.admin.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_walinspect")
	return b, err
}

func (b *rig) close() (err error) {
	for _, end := range slices.Backward(b.closers) {
		err = errors.Join(err, end())
	}
	b.closers = nil
	return err
}

func (b *rig) path(name string) string { return filepath.Join(b.dir, name) }

// startAll starts the service, has it show an answer and a mail, and starts the floors with these.
func (b *rig) startAll(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", b.path("floor"), "sendcode/tools/floor")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the floor: %w: %s", err, said)
	}
	for _, name := range []string{ours, fairFloor, plainFloor, bareHTTP} { // in the order of the tables
		c, err := b.startContender(ctx, name, b.direct())
		if err == nil && name == ours {
			err = b.takeSamples(c)
		}
		if err != nil {
			return err
		}
		b.contenders = append(b.contenders, c)
	}
	return nil
}

// contender is a program that is measured.
type contender struct {
	name    string
	base    string // host:port
	process *child

	database string // URL
}

func (b *rig) contender(name string) contender {
	return b.contenders[slices.IndexFunc(b.contenders, func(c contender) bool { return c.name == name })]
}

// child is a program that ends when its input does.
type child struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// end closes the input and returns what the program says at last; the second time nothing.
func (c *child) end() (said []byte, err error) {
	if c.cmd.ProcessState != nil {
		return nil, nil
	}
	closed := c.input.Close()
	said, err = io.ReadAll(c.output)
	return said, errors.Join(closed, err, c.cmd.Wait())
}

func (c *child) close() error {
	_, err := c.end()
	return err
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// start runs a program whose first line is its address.
func (b *rig) start(name string, cmd *exec.Cmd) (c contender, err error) {
	log, err := os.CreateTemp(b.dir, "log-")
	if err != nil {
		return c, err
	}
	defer log.Close()
	cmd.Stderr = log
	x := &child{cmd: cmd}
	if x.input, err = cmd.StdinPipe(); err != nil {
		return c, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return c, err
	}
	if err := cmd.Start(); err != nil {
		return c, err
	}
	b.closers = append(b.closers, x.close)
	x.output = bufio.NewReader(output)
	address, err := x.output.ReadString('\n')
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return c, fmt.Errorf("%s did not start: %w: %s", name, err, said)
	}
	return contender{name: name, base: strings.TrimPrefix(strings.TrimSpace(address), "http://"), process: x}, nil
}

// self runs this program as one of its commands.
func self(args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	return exec.Command(program, args...), err
}

// addresses are where a program finds its servers.
type addresses struct{ redis, postgres, mail string }

func (b *rig) direct() addresses {
	return addresses{redis: b.redis.Addr(), postgres: b.postgres.Addr(), mail: b.mails.Addr().String()}
}

// serviceSettings are those in which services of one bench differ.
type serviceSettings struct {
	dir      string    // of its data; empty: a new one
	database string    // URL; empty: a new one
	profile  string    // file
	to       addresses // empty: directly
	more     []string  // of its environment
}

// startService runs the service as a child: by environment alone, as the binary does. Its file has a limit that refuses nothing here.
func (b *rig) startService(ctx context.Context, s serviceSettings) (contender, error) {
	if s.to == (addresses{}) {
		s.to = b.direct()
	}
	if s.database == "" {
		var err error
		if s.database, err = b.postgres.CreateDatabase(ctx); err != nil {
			return contender{}, err
		}
	}
	if s.dir == "" {
		var err error
		if s.dir, err = os.MkdirTemp(b.dir, "data-"); err != nil {
			return contender{}, err
		}
	}
	cmd, err := self(serveCommand, s.profile)
	if err != nil {
		return contender{}, err
	}
	const limits = "limits: {user: [{name: minute, key: user, limit: 100000, window: 60s}]}\n"
	if err := os.WriteFile(b.path("limits.yaml"), []byte(limits), 0o600); err != nil {
		return contender{}, err
	}
	cmd.Env = append(s.more, "SENDCODE_CONFIG="+b.path("limits.yaml"),
		"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_API_KEY="+apiKey, "SENDCODE_DATA_DIR="+s.dir,
		"SENDCODE_REDIS_URL=redis://"+s.to.redis+"/0",
		"SENDCODE_DATABASE_URL="+strings.Replace(s.database, b.postgres.Addr(), s.to.postgres, 1),
		"SENDCODE_SMTP_URL=smtp://"+s.to.mail+"?conns=16")
	c, err := b.start(ours, cmd)
	c.database = s.database
	return c, err
}

// startContender starts the service or a floor, on a new database.
func (b *rig) startContender(ctx context.Context, name string, to addresses) (contender, error) {
	if name == ours {
		return b.startService(ctx, serviceSettings{to: to})
	}
	database, err := b.postgres.CreateDatabase(ctx)
	if err != nil {
		return contender{}, err
	}
	kind, _, _ := strings.Cut(name, " ")
	cmd := exec.Command(b.path("floor"))
	cmd.Env = []string{
		"GOGC=400", // as the service has
		"FLOOR_KIND=" + kind, "FLOOR_SAMPLES=" + b.path(samplesFile), "FLOOR_REDIS_URL=redis://" + to.redis + "/0",
		"FLOOR_DATABASE_URL=" + strings.Replace(database, b.postgres.Addr(), to.postgres, 1), "FLOOR_SMTP_ADDR=" + to.mail,
	}
	return b.start(name, cmd)
}
