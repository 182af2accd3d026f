//go:build nightly

package bench

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/servertest"
)

const apiKey = "sk_0123456789abcdefghijABCDEFGHIJ"

// firstRecipient makes all recipients equally long.
const firstRecipient = 1_000_000

// rig is what all contenders share, the contenders, and what of one part the later ones need.
type rig struct {
	*testing.T
	plan
	dir        string // on the disk
	redis      *servertest.RedisServer
	postgres   *servertest.PostgresServer
	admin      *pgx.Conn // of a superuser
	mails      *receiver
	contenders []contender
	recipients atomic.Int64 // no recipient is used twice

	sent, half, others, takes []*entry
	capacity                  float64 // sends a second at random times that the service keeps up with
	memory                    string
	units                     units
	goals                     *goals   // of a whole run
	asked                     []*goals // all
}

func openRig(t *testing.T, p plan) *rig {
	t.Helper()
	b := &rig{T: t, plan: p}
	b.goals = b.newGoals()
	b.recipients.Store(firstRecipient)
	var err error
	b.dir, err = os.MkdirTemp(realDisk(t), "sendcode-bench-")
	b.must(err)
	b.Cleanup(func() { b.must(os.RemoveAll(b.dir)) })
	b.must(os.Chmod(b.dir, 0o755)) // Postgres may run as another user
	b.redis = servertest.Redis(t, "--dir", b.dir, "--appendonly", "yes", "--appendfsync", "everysec")
	// Postgres is set as by default where it matters for speed, but that no checkpoint falls into a
	// run.
	b.postgres = servertest.PostgresIn(t, b.dir, "fsync=on", "full_page_writes=on", "shared_buffers=1GB",
		"max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=1h", "maintenance_work_mem=512MB")
	b.admin, err = pgx.Connect(b.Context(), b.postgres.AdminURL())
	b.must(err)
	b.Cleanup(func() { _ = b.admin.Close(context.Background()) })
	b.mails, err = startReceiver()
	b.must(err)
	b.Cleanup(func() { _ = b.mails.Close() })
	_, err = b.admin.Exec(b.Context(), "CREATE EXTENSION IF NOT EXISTS pg_walinspect")
	b.must(err)
	build := exec.CommandContext(b.Context(), "go", "build", "-buildvcs=false", "-o", b.dir, "sendcode/cmd/sendcode",
		"sendcode/tools/floor")
	if said, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building: %v: %s", err, said)
	}
	return b
}

// must ends the test unless err is nil.
func (b *rig) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *rig) path(name string) string { return filepath.Join(b.dir, name) }

// startAll starts the service, has it show an answer and a mail, and starts the floors with these.
func (b *rig) startAll() {
	for _, name := range []string{ours, embedded, fairFloor, plainFloor, bareHTTP} { // in the order of the tables
		c := b.startContender(name, b.direct())
		if name == ours {
			b.takeSamples(c)
		}
		b.contenders = append(b.contenders, c)
	}
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

// child is a program that SIGTERM ends.
type child struct {
	*servertest.Process
	output *bufio.Reader
	ended  bool
}

// startProcess starts a program. log is the file with what it writes to the standard error.
func (b *rig) startProcess(name string, cmd *exec.Cmd) (c contender, log string) {
	b.Helper()
	file, err := os.CreateTemp(b.dir, "log-")
	b.must(err)
	defer file.Close()
	output, printed, err := os.Pipe()
	b.must(err)
	cmd.Stderr, cmd.Stdout = file, printed
	process, err := servertest.Run(cmd)
	b.must(errors.Join(err, printed.Close()))
	c = contender{name: name, process: &child{Process: process, output: bufio.NewReader(output)}}
	b.Cleanup(func() { b.end(c); _ = output.Close() })
	return c, file.Name()
}

// start runs a program until it prints an address.
func (b *rig) start(name string, cmd *exec.Cmd) contender {
	b.Helper()
	c, log := b.startProcess(name, cmd)
	for c.base == "" {
		line, err := c.process.output.ReadString('\n')
		if err != nil {
			said, _ := os.ReadFile(log)
			b.Fatalf("%s did not start: %v: %s", name, err, said)
		}
		_, address, _ := strings.Cut(line, "http://")
		c.base = strings.TrimRight(address, "/\n")
	}
	return c
}

// end ends a program and returns what it says at last; the second time nothing.
func (b *rig) end(c contender) (said string) {
	b.Helper()
	if c.process.ended {
		return ""
	}
	c.process.ended = true
	errSignal := c.process.Signal(syscall.SIGTERM)
	rest, err := io.ReadAll(c.process.output)
	if err := errors.Join(errSignal, err, c.process.Wait(context.Background())); err != nil {
		b.Errorf("%s: %v", c.name, err)
	}
	return string(rest)
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
	to       addresses // empty: directly
	embedded bool      // with SQLite and limits in process

	retention string // empty: the default
}

// startService runs `sendcode serve`. Its file has a limit that refuses nothing here.
func (b *rig) startService(s serviceSettings) contender {
	if s.to == (addresses{}) {
		s.to = b.direct()
	}
	if s.database == "" && !s.embedded {
		var err error
		s.database, err = b.postgres.CreateDatabase(b.Context())
		b.must(err)
	}
	if s.dir == "" {
		var err error
		s.dir, err = os.MkdirTemp(b.dir, "data-")
		b.must(err)
	}
	cmd := exec.Command(b.path("sendcode"), "serve")
	const limits = "limits: {user: [{name: minute, key: user, limit: 100000, window: 60s}]}\n" +
		"policies: {again: [{name: hour, scope: recipient, limit: 1000, window: 1h}], twice: [{name: hour, scope: recipient, limit: 2, window: 1h}]}\n" +
		"purposes: {default: {}, again: {policy: again}, twice: {policy: twice}}\n"
	settings := limits
	if s.retention != "" {
		settings += "retention: " + s.retention + "\n"
	}
	file := s.dir + ".yaml"
	b.must(os.WriteFile(file, []byte(settings), 0o600))
	cmd.Env = []string{"SENDCODE_CONFIG=" + file,
		"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DRAIN=0s", "SENDCODE_API_KEY=" + apiKey, "SENDCODE_DATA_DIR=" + s.dir,
		"SENDCODE_SMTP_URL=smtp://" + s.to.mail + "?conns=16"}
	name := embedded
	if !s.embedded {
		name = ours
		cmd.Env = append(cmd.Env, "SENDCODE_REDIS_URL=redis://"+s.to.redis+"/0",
			"SENDCODE_DATABASE_URL="+strings.Replace(s.database, b.postgres.Addr(), s.to.postgres, 1))
	}
	c, log := b.startProcess(name, cmd)
	servertest.Await(b, name, func() bool {
		said, err := os.ReadFile(log)
		b.must(err)
		if found := serving.FindSubmatch(said); found != nil {
			c.base = string(found[1])
		}
		return c.base != ""
	})
	c.database = s.database
	return c
}

// serving is the line of the service's log that says where it listens.
var serving = regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`)

// startContender starts the service or a floor, on a new database.
func (b *rig) startContender(name string, to addresses) contender {
	if name == ours || name == embedded {
		return b.startService(serviceSettings{to: to, embedded: name == embedded})
	}
	database, err := b.postgres.CreateDatabase(b.Context())
	b.must(err)
	kind, _, _ := strings.Cut(name, " ")
	cmd := exec.Command(b.path("floor"))
	cmd.Env = []string{
		"GOGC=200", // as the service has
		"FLOOR_KIND=" + kind, "FLOOR_SAMPLES=" + b.path(samplesFile), "FLOOR_REDIS_URL=redis://" + to.redis + "/0",
		"FLOOR_DATABASE_URL=" + strings.Replace(database, b.postgres.Addr(), to.postgres, 1),
		"FLOOR_SMTP_ADDR=" + to.mail,
	}
	return b.start(name, cmd)
}
