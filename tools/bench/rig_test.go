//go:build nightly

package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// These are the names of the contenders in the tables, except older commits.
const (
	ours       = "ours"
	fairFloor  = "fair floor"
	otpgateway = "otpgateway"
)

// rig has the servers that all contenders share, and the results.
type rig struct {
	*testing.T
	dir        string // a directory on the disk
	redis      *servertest.RedisServer
	client     *redis.Client
	postgres   *servertest.PostgresServer
	admin      *pgx.Conn // connection of a superuser
	mails      *receiver
	contenders []*contender
	recipients atomic.Int64 // no recipient is used twice
	results    map[cell][]figures
}

// cell identifies a figure of the table. Each round measures it once.
type cell struct {
	contender, workload string
	callers             int
}

// contender is a measured program.
type contender struct {
	name, base string // base is host:port
	newRequest func(workload string, o *opened) request
	knows      []string // the workloads that it can run
	process    *servertest.Process
	database   string    // name of its database; empty: it has none
	list       []*opened // the codes of its last run that was no flood
}

func openRig(t *testing.T) *rig {
	t.Helper()
	b := &rig{T: t, results: map[cell][]figures{}}
	b.recipients.Store(1_000_000)
	var err error
	b.dir, err = os.MkdirTemp("/var/tmp", "sendcode-bench-") // on a disk, because fsync costs nothing in memory
	b.must(err)
	t.Cleanup(func() { b.must(os.RemoveAll(b.dir)) })
	b.must(os.Chmod(b.dir, 0o755)) // Postgres may run as another user
	b.redis = servertest.Redis(t, "--dir", b.dir, "--appendonly", "yes", "--appendfsync", "everysec")
	b.client = b.redis.Client(t)
	// Commits wait for the disk, as they do by default. During a run there is no checkpoint, and
	// full pages are never in the WAL. There is no autovacuum either: vacuum runs before each round
	// instead.
	b.postgres = servertest.PostgresIn(t, b.dir,
		"fsync=on", "full_page_writes=off", "shared_buffers=1GB", "max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=1h",
		"autovacuum=off", "shared_preload_libraries=pg_stat_statements")
	b.admin, err = pgx.Connect(t.Context(), b.postgres.AdminURL())
	b.must(err)
	t.Cleanup(func() { _ = b.admin.Close(context.Background()) })
	_, err = b.admin.Exec(t.Context(), "CREATE EXTENSION pg_stat_statements")
	b.must(err)
	pair, err := tls.LoadX509KeyPair(servertest.NewAuthority(t).Issue(t))
	b.must(err)
	b.mails = &receiver{tls: &tls.Config{Certificates: []tls.Certificate{pair}}}
	for _, l := range []*net.Listener{&b.mails.Listener, &b.mails.secured} {
		*l, err = net.Listen("tcp", "127.0.0.1:0")
		b.must(err)
		t.Cleanup(func() { _ = (*l).Close() })
	}
	go b.mails.serve(b.mails.Listener)
	go b.mails.serve(b.mails.secured)
	return b
}

// must ends the test unless err is nil.
func (ri *rig) must(err error) {
	ri.Helper()
	servertest.OK(ri, err)
}

func (ri *rig) recipient() *opened { return &opened{n: ri.recipients.Add(1)} }

func (ri *rig) run(dir, name string, args ...string) {
	ri.Helper()
	cmd := exec.CommandContext(ri.Context(), name, args...)
	cmd.Dir = dir
	if output, err := cmd.CombinedOutput(); err != nil {
		ri.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, output)
	}
}

// floorHead is the greatest length of the headers in the floor's answer.
const floorHead = 90

// startAll builds and starts the contenders. The floor gets the lengths of its answer and mail from
// this build.
func (ri *rig) startAll() {
	root, err := filepath.Abs("../..")
	ri.must(err)
	ri.run(root, "go", "build", "-buildvcs=false", "-o", ri.dir, "./cmd/sendcode", "./tools/floor")
	ri.startService(ours, filepath.Join(ri.dir, "sendcode"))
	answer, text := ri.bytesOf(ri.contenders[0])
	for _, commit := range strings.FieldsFunc(*older, func(r rune) bool { return r == ',' }) {
		program, tree := filepath.Join(ri.dir, "sendcode-"+commit), filepath.Join(ri.dir, "tree-"+commit)
		ri.run(root, "git", "worktree", "add", "--detach", tree, commit)
		ri.run(tree, "go", "build", "-buildvcs=false", "-o", program, "./cmd/sendcode")
		ri.run(root, "git", "worktree", "remove", "--force", tree)
		ri.startService(commit, program)
		c := ri.contenders[len(ri.contenders)-1]
		x := &caller{base: c.base}
		if _, err := c.one(x, send, ri.recipient()); err != nil {
			c.newRequest = newOlderServiceRequest
		}
		x.close()
	}
	url, name := ri.createDatabase()
	cmd := exec.Command(filepath.Join(ri.dir, "floor"))
	cmd.Env = []string{
		"GOGC=1000", // with its small heap, this gives about as few collections as the service has
		fmt.Sprintf("FLOOR_BYTES=%d %d", answer-floorHead, text), "FLOOR_REDIS_URL=" + ri.redisURL(),
		"FLOOR_DATABASE_URL=" + url, "FLOOR_SMTP_ADDR=" + ri.mails.Addr().String(),
	}
	floor := &contender{name: fairFloor, newRequest: newServiceRequest, knows: []string{send, check}, database: name}
	ri.start(floor, cmd)
	if a, t := ri.bytesOf(floor); a < answer || t != text { // no contender wins by shorter texts
		ri.Fatalf("the floor answers with %d bytes and mails %d, the service %d and %d", a, t, answer, text)
	}
	if *peer != "" {
		ri.startOTPGateway()
	}
}

// bytesOf makes a contender send one code. It returns the lengths of the answer and of the mail.
func (ri *rig) bytesOf(c *contender) (answer, text int) {
	x := &caller{base: c.base}
	defer x.close()
	s, err := c.one(x, send, ri.recipient())
	ri.must(err)
	ri.collect(s.opened)
	return x.size, int(ri.mails.size.Load())
}

// vacuum does the work of autovacuum before a round, so that it does not happen during the runs.
func (ri *rig) vacuum() {
	for _, c := range ri.contenders {
		if c.database == "" {
			continue
		}
		cfg := ri.admin.Config().Copy()
		cfg.Database = c.database
		conn, err := pgx.ConnectConfig(ri.Context(), cfg)
		ri.must(err)
		_, err = conn.Exec(ri.Context(), "VACUUM ANALYZE")
		ri.must(errors.Join(err, conn.Close(ri.Context())))
	}
}

// redisURL gives each contender a database of its own.
func (ri *rig) redisURL() string {
	return fmt.Sprintf("redis://%s/%d", ri.redis.Addr(), len(ri.contenders))
}

func (ri *rig) createDatabase() (url, name string) {
	url = ri.postgres.NewDatabase(ri)
	config, err := pgx.ParseConfig(url)
	ri.must(err)
	return url, config.Database
}

// startService runs `sendcode serve` with the default settings, but with 16 connections to the mail
// server and an immediate stop.
func (ri *rig) startService(name, program string) {
	data, err := os.MkdirTemp(ri.dir, "data-")
	ri.must(err)
	url, database := ri.createDatabase()
	cmd := exec.Command(program, "serve")
	cmd.Env = []string{
		"SENDCODE_DATABASE_URL=" + url, "SENDCODE_REDIS_URL=" + ri.redisURL(), "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DRAIN=0s",
		"SENDCODE_API_KEY=" + apiKey, "SENDCODE_METRICS_TOKEN=" + servertest.MetricsToken, "SENDCODE_DATA_DIR=" + data,
		"SENDCODE_SMTP_URL=smtp://" + ri.mails.Addr().String() + "?conns=16",
	}
	ri.start(&contender{name: name, newRequest: newServiceRequest, knows: workloads, database: database}, cmd)
}

// startOTPGateway runs otpgateway with the same number of connections to the mail server as the
// others.
func (ri *rig) startOTPGateway() {
	host, mailPort, err := net.SplitHostPort(ri.mails.secured.Addr().String())
	ri.must(err)
	_, redisPort, err := net.SplitHostPort(ri.redis.Addr())
	ri.must(err)
	file := filepath.Join(ri.dir, "otpgateway.toml")
	ri.must(os.WriteFile(file, fmt.Appendf(nil, `[app]
address = "127.0.0.1:%d"
server_timeout = "60s"
otp_ttl = 300
otp_max_attempts = 5
otp_max_generate = 3
root_url = "http://127.0.0.1"
[store.redis]
host = "%s"
port = "%s"
[auth.bench]
namespace = "bench"
secret = "secret"
[providers.smtp]
enabled = true
subject = "Your code"
template = "static/smtp.tpl"
from_email = "no-reply@localhost"
host = "%[2]s"
port = %[4]s
auth_protocol = "none"
max_conns = 16
timeout = "60s"
tls_type = "STARTTLS"
tls_skip_verify = true
`, servertest.FreePort(ri), host, redisPort, mailPort), 0o600))
	program, err := filepath.Abs(*peer)
	ri.must(err)
	cmd := exec.Command(program, "--config", file)
	cmd.Dir = filepath.Dir(program) // the folder that contains static
	ri.start(&contender{name: otpgateway, newRequest: newOTPGatewayRequest, knows: []string{send, check}}, cmd)
}

// serving matches the log line with the address on which a program listens.
var serving = regexp.MustCompile(`(?:"serving","addr":"|page +http://|starting server.* address="?)([0-9.:]+)`)

// start starts a program, waits until it can be reached, and ends it after the test.
func (ri *rig) start(c *contender, cmd *exec.Cmd) {
	ri.Helper()
	file, err := os.CreateTemp(ri.dir, "log-")
	ri.must(err)
	defer file.Close()
	cmd.Stderr, cmd.Stdout = file, file
	c.process, err = servertest.Run(cmd)
	ri.must(err)
	ri.Cleanup(func() { c.process.End(syscall.SIGTERM, settle) })
	ri.contenders = append(ri.contenders, c)
	servertest.Await(ri, c.name, func() bool {
		logText, err := os.ReadFile(file.Name())
		ri.must(err)
		found := serving.FindSubmatch(logText)
		if found == nil {
			return false
		}
		c.base = string(found[1])
		conn, err := net.Dial("tcp", c.base)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
