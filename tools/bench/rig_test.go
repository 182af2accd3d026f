//go:build nightly

package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
	"sendcode/internal/store/postgres"
)

// The contenders beside older commits, as the tables name them.
const (
	ours       = "ours"
	far        = "ours, Postgres 1 ms away"
	fairFloor  = "fair floor"
	otpgateway = "otpgateway"
	again      = " again" // ends the name of a commit that is measured twice
)

// rig is the servers that all contenders share, and what was measured.
type rig struct {
	*testing.T
	dir        string // on the disk
	rounds     int    // how often everything is measured
	length     time.Duration
	redis      *servertest.RedisServer
	client     *redis.Client
	postgres   *servertest.PostgresServer
	admin      *pgx.Conn // of a superuser
	mails      *receiver
	contenders []*contender
	recipients atomic.Int64 // no recipient is used twice
	half       float64      // sends a second of the open loop
	results    map[cell][]figures
	skipped    string // why the peer is
	most       float64
}

// cell is what has one figure in each round.
type cell struct {
	contender, workload string
	callers             int // openLoop: none, at half load
}

const openLoop = 0

// contender is a program that is measured.
type contender struct {
	name, base string // host:port
	ask        func(workload string, o *opened) request
	knows      []string // workloads
	silent     bool     // not every mail comes
	process    *servertest.Process
	database   string    // name; empty: it has none
	list       []*opened // that it was last asked to send
}

// openRig starts the parts. settings of Postgres, each name=value, take the place of the rig's.
func openRig(t *testing.T, settings ...string) *rig {
	t.Helper()
	b := &rig{T: t, rounds: *rounds, length: *length, results: map[cell][]figures{}}
	b.recipients.Store(1_000_000)
	var err error
	b.dir, err = os.MkdirTemp(realDisk(t), "sendcode-bench-")
	b.must(err)
	t.Cleanup(func() { b.must(os.RemoveAll(b.dir)) })
	b.must(os.Chmod(b.dir, 0o755)) // Postgres may run as another user
	b.redis = servertest.Redis(t, "--dir", b.dir, "--appendonly", "yes", "--appendfsync", "everysec")
	b.client = b.redis.Client(t)
	// As by default where it matters for speed, except that no checkpoint and no autovacuum falls
	// into a run: vacuum runs before each round instead.
	b.postgres = servertest.PostgresIn(t, b.dir, append([]string{
		"fsync=on", "full_page_writes=on", "shared_buffers=1GB", "max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=1h",
		"autovacuum=off", "maintenance_work_mem=512MB", "shared_preload_libraries=pg_stat_statements",
	}, settings...)...)
	b.admin, err = pgx.Connect(t.Context(), b.postgres.AdminURL())
	b.must(err)
	t.Cleanup(func() { _ = b.admin.Close(context.Background()) })
	_, err = b.admin.Exec(t.Context(), "CREATE EXTENSION pg_walinspect; CREATE EXTENSION pg_stat_statements")
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

// realDisk is a directory on a disk, not in memory, where fsync would wait for nothing.
func realDisk(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{os.TempDir(), "/var/tmp", "."} {
		said, _ := exec.Command("df", "--output=fstype", dir).Output()
		if _, kind, _ := strings.Cut(strings.TrimSpace(string(said)), "\n"); kind != "" && kind != "tmpfs" && kind != "ramfs" {
			return dir
		}
	}
	t.Skip("the directory for temporary files is in memory: set TMPDIR to one on a disk")
	return ""
}

// run runs a program that helps.
func (ri *rig) run(dir, name string, args ...string) {
	ri.Helper()
	cmd := exec.CommandContext(ri.Context(), name, args...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		ri.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, said)
	}
}

// floorHead is at most what the head of the floor's answer has.
const floorHead = 100

// startAll builds and starts the contenders. The floor learns from this build how much it says.
func (ri *rig) startAll() {
	root, err := filepath.Abs("../..")
	ri.must(err)
	ri.run(root, "go", "build", "-buildvcs=false", "-o", ri.dir, "./cmd/sendcode", "./tools/floor")
	ri.startService(ours, filepath.Join(ri.dir, "sendcode"))
	answer, text := ri.bytesOf(ri.contenders[0])
	if *form != "file" {
		ri.startService(far, filepath.Join(ri.dir, "sendcode"))
	}
	for _, commit := range strings.FieldsFunc(*older, func(r rune) bool { return r == ',' }) {
		program, name := filepath.Join(ri.dir, "sendcode-"+commit), commit
		if _, err := os.Stat(program); err == nil {
			name += again
		} else {
			tree := filepath.Join(ri.dir, "tree-"+commit)
			ri.run(root, "git", "worktree", "add", "--detach", tree, commit)
			ri.run(tree, "go", "build", "-buildvcs=false", "-o", program, "./cmd/sendcode")
			ri.run(root, "git", "worktree", "remove", "--force", tree)
		}
		ri.startService(name, program)
	}
	url, name := ri.createDatabase()
	cmd := exec.Command(filepath.Join(ri.dir, "floor"))
	cmd.Env = []string{
		"GOGC=1000", // with its small heap about as few collections as the service has
		fmt.Sprintf("FLOOR_BYTES=%d %d", answer-floorHead, text), "FLOOR_REDIS_URL=" + ri.redisURL(),
		"FLOOR_DATABASE_URL=" + url, "FLOOR_SMTP_ADDR=" + ri.mails.Addr().String(),
	}
	floor := &contender{name: fairFloor, ask: askService, knows: []string{send, wrongCheck, rightCheck}, database: name}
	ri.start(floor, cmd)
	if a, t := ri.bytesOf(floor); a < answer || t != text { // none wins by saying less
		ri.Fatalf("the floor answers with %d bytes and mails %d, the service %d and %d", a, t, answer, text)
	}
	if *peer == "" {
		ri.skipped = "otpgateway was not measured: -perf.otpgateway names no program.\n"
		return
	}
	ri.startOTPGateway()
}

// bytesOf has a contender send one code, and returns how many bytes answer and mail have.
func (ri *rig) bytesOf(c *contender) (answer, text int) {
	x := &caller{base: c.base}
	defer x.close()
	s, err := c.one(x, send, ri.recipient(), time.Now())
	ri.must(err)
	ri.collect(s.opened)
	return x.size, int(ri.mails.size.Load())
}

// vacuum does before a round what autovacuum would otherwise do at any time during the runs.
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

// startService runs `sendcode serve` with the default settings, and those of more.
func (ri *rig) startService(name, program string, more ...string) {
	data, err := os.MkdirTemp(ri.dir, "data-")
	ri.must(err)
	on := more
	database, knows := "", workloads
	if *form != "file" {
		var url string
		url, database = ri.createDatabase()
		on = append(on, "SENDCODE_DATABASE_URL="+url)
		if *prefilled > 0 {
			ri.fill(url, data)
		}
		if name == far {
			knows = []string{send, laterLook, wrongCheck, keyedSend}
			on[len(on)-1] = "SENDCODE_DATABASE_URL=" + ri.farAway(url)
		}
	}
	if *form == "redis" {
		on = append(on, "SENDCODE_REDIS_URL="+ri.redisURL())
	}
	cmd := exec.Command(program, "serve")
	cmd.Env = append(on, "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DRAIN=0s", "SENDCODE_API_KEY="+apiKey,
		"SENDCODE_METRICS_TOKEN="+servertest.MetricsToken,
		"SENDCODE_DATA_DIR="+data, "SENDCODE_SMTP_URL=smtp://"+ri.mails.Addr().String()+"?conns=16")
	ri.start(&contender{name: name, ask: askService, knows: knows, database: database}, cmd)
}

// farAway is the address of a database by way of a link that delays each answer by 1 ms.
func (ri *rig) farAway(address string) string {
	at, err := url.Parse(address)
	ri.must(err)
	link := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), far, "127.0.0.1:0", at.Host)
	ri.must(link.Start())
	ri.Cleanup(link.Stop)
	_, err = link.Toxics.AddToxicJson(strings.NewReader(`{"type":"latency","stream":"downstream","attributes":{"latency":1}}`))
	ri.must(err)
	at.Host = link.Listen
	return at.String()
}

// startOTPGateway runs it with as many connections to the mail server as the others have.
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
	cmd.Dir = filepath.Dir(program) // where static is
	ri.start(&contender{name: otpgateway, ask: askOTPGateway, knows: []string{send, wrongCheck, rightCheck}}, cmd)
}

// serving is the line of a log that says where a program listens.
var serving = regexp.MustCompile(`(?:"serving","addr":"|page +http://|starting server.* address="?)([0-9.:]+)`)

// start runs a program until it can be reached, and ends it after the test.
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
		said, err := os.ReadFile(file.Name())
		ri.must(err)
		found := serving.FindSubmatch(said)
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

// fillSQL writes sends of recipients of their own into a table, of the 90 days before $4, each with
// a verification: $1 is the first number, $2 the last, $3 how many there are in all.
const fillSQL = `
WITH row AS (
    SELECT n, md5(n::text) AS random, $4::timestamptz - ($3 - n) * (interval '90 days' / $3::bigint) AS at
    FROM generate_series($1::bigint, $2::bigint) AS n
), verification AS (
    INSERT INTO verifications (id, app, channel, purpose, recipient, masked, sealed, holder, nonce, key_id, code_length, alphabet, locale, reference,
                               created_at, expires_at, attempts, max_attempts, sends, approved_at)
    SELECT 'old' || random, 'default', 'email', 'default', decode(random, 'hex'), 'a•••@example.com', NULL, '', decode(random, 'hex'), 'k1', 6,
           'digits', 'en', '', at, at + interval '10 minutes', 1, 5, 1, at + interval '30 s'
    FROM row
)
INSERT INTO %s (id, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, network, status,
                reason, attempt, counts, logged_at, finished_at, provider, provider_code, took)
SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(random, 1, 3) || '8' || substr(random, 4, 15))::uuid,
       'old' || random, 1, 'default', 'email', 'default', decode(random, 'hex'), 'a•••@example.com', 'example.com', '', '', 'en', '',
       '192.0.2.0/24', 'sent', '', 1, true, at, at + interval '180 ms', 'mx1.example.net', '250 2.0.0', 184000
FROM row`

// fill makes the schema of this build and the rows, and counts the hours of them, as the service
// would do beside the sends. Indexes are made when the rows are there: sorted, in a fifth of the
// time.
func (ri *rig) fill(url, data string) {
	ctx := ri.Context()
	cfg, err := config.Load([]string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + data, "SENDCODE_DATABASE_URL=" + url}, os.ReadFile)
	ri.must(err)
	ri.must(commands.Migrate(ctx, cfg, io.Discard))
	conn, err := pgx.Connect(ctx, url)
	ri.must(err)
	defer conn.Close(ctx)
	exec := func(sql string, args ...any) {
		ri.Helper()
		_, err := conn.Exec(ctx, sql, args...)
		ri.must(err)
	}
	exec(`DO $$ DECLARE past text; BEGIN FOR past IN SELECT name FROM sendcode_partitions WHERE ends < clock_timestamp() LOOP
  EXECUTE format('DROP TABLE %I', past); END LOOP; END $$`) // one takes their place
	var now, parted time.Time // the partitions that are left begin at parted
	var lowest string
	var indexes []string
	ri.must(conn.QueryRow(ctx, `SELECT clock_timestamp(), min(begins), sendcode_lowest_id(min(begins))::text,
  (SELECT array_agg(indexdef) FROM pg_indexes WHERE tablename = 'verifications' AND indexname <> 'verifications_pkey')
FROM sendcode_partitions`).Scan(&now, &parted, &lowest, &indexes))
	all := int64(*prefilled)
	old := max(0, all-int64(now.Sub(parted)/(90*24*time.Hour/time.Duration(all)))-2) // IDs are of a ms
	fill := func(table string, first, last int64) {
		ri.Helper()
		const step = 100_000
		for ; first <= last; first += step {
			exec(fmt.Sprintf(fillSQL, table), first, min(first+step-1, last), all, now)
		}
	}
	exec("CREATE TABLE sends_old (LIKE sends INCLUDING ALL EXCLUDING INDEXES)")
	exec("ALTER TABLE verifications DROP CONSTRAINT verifications_pkey")
	for _, index := range indexes {
		exec("DROP INDEX " + strings.Fields(index)[2])
	}
	fill("sends_old", 1, old)
	exec("ALTER TABLE verifications ADD PRIMARY KEY (id)")
	for _, index := range indexes {
		exec(index)
	}
	exec("ALTER TABLE sends ATTACH PARTITION sends_old FOR VALUES FROM (MINVALUE) TO ('" + lowest + "')")
	fill("sends", old+1, all)
	exec("VACUUM ANALYZE")
	db, err := postgres.Open(ctx, url, "")
	ri.must(err)
	ri.Logf("%d rows were written in %.0f s", all, time.Since(now).Seconds())
	for counted := 1; counted > 0; { // in parts, for each has a bound in time
		counted, err = db.CountHours(ctx, 10*time.Minute, 90*24*time.Hour, 50)
		ri.must(err)
	}
	ri.must(db.Close())
	_, err = ri.admin.Exec(ctx, "CHECKPOINT")
	ri.must(err)
}
