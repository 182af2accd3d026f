package parts

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"sendcode/internal/deliver/outbox"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/apptest"
)

// fault is a fault of a part. When do returns, the part works again.
type fault struct {
	name string
	do   func(*provingRun, context.Context)
}

var (
	ofProcesses = []fault{{"kills", (*provingRun).kill}, {"stops", (*provingRun).stop}, {"freezes", (*provingRun).freeze}}
	ofRedis     = []fault{
		{"flushes", func(p *provingRun, _ context.Context) { p.Flush() }},
		{"stalls", (*provingRun).stall},
		{"failovers to an empty Redis", (*provingRun).empty},
	}
	ofNodes = []fault{
		{"flushes of a node", ofNode(func(p *provingRun, _ context.Context) { p.Flush() })},
		{"stalls of a node", ofNode((*provingRun).stall)},
		{"times with a node away", ofNode((*provingRun).nodeAway)},
	}
	cutLinks   = fault{"cuts of the links", (*provingRun).cutLinks}
	ofPostgres = []fault{{"restarts of Postgres", (*provingRun).restart}, cutLinks}
	ofNights   = []fault{
		{"kills on a full disk", (*provingRun).fill},
		{"kills of all replicas", (*provingRun).killAll},
		{"locks of the tables", (*provingRun).lock},
		{"changes of policies", (*provingRun).reload},
	}
)

// fail makes the faults happen in random order, again and again. It ends when the time least has
// passed, the clients have got as many answers as requests says, and each fault has happened.
func (p *provingRun) fail(ctx context.Context, least time.Duration, requests int, faults []fault) {
	p.Helper()
	var order []int
	for n, began := 0, time.Now(); n < len(faults) || time.Since(began) < least || p.answered() < requests; n++ {
		if n%len(faults) == 0 {
			order = p.random.Perm(len(faults))
		}
		f := faults[order[n%len(faults)]]
		began := time.Now()
		f.do(p, ctx)
		p.happened[f.name]++
		p.order = append(p.order, fmt.Sprintf("%s to %s: %s", began.Format(instants), time.Now().Format(instants), f.name))
		p.pause(ctx, 300, 1000)
	}
}

// instants is the format of the times that a run prints.
const instants = "15:04:05.000"

func (p *provingRun) answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.observed.Requests) - p.cut
}

// pause waits for least milliseconds and, at random, up to more milliseconds on top.
func (p *provingRun) pause(ctx context.Context, least, more int) {
	sleep(ctx, time.Duration(least+p.random.IntN(more))*time.Millisecond)
}

// spawn starts the program of replica i.
func (p *provingRun) spawn(i int) *apptest.Process {
	cmd := p.Program("serve")
	if p.programs[i] != "" {
		cmd.Path = p.programs[i]
	}
	if p.databases[i] != "" {
		cmd.Env = append(cmd.Env, "SENDCODE_DATABASE_URL="+p.databases[i]) // of two values, the last one counts
	}
	r := p.SpawnCommand(cmd)
	p.logs = append(p.logs, r.Log)
	return r
}

// outages returns the spans in which replicas did not reach Redis, according to their logs. A
// failed call may have begun up to gates.LimiterTimeout before its line. A span that has not ended
// in a log is left out: the replica died in it, and so repeated no refund.
func (p *provingRun) outages() (away [][2]time.Time) {
	for _, log := range p.logs {
		var since time.Time
		for line := range strings.Lines(log.String()) {
			var entry struct {
				Time time.Time
				Msg  string
			}
			if json.Unmarshal([]byte(line), &entry) != nil { // a line of a panic's stack
				continue
			}
			switch {
			case strings.HasPrefix(entry.Msg, "Redis away"):
				since = entry.Time
			case entry.Msg == "Redis back":
				away = append(away, [2]time.Time{since.Add(-gates.LimiterTimeout - p.observed.Ahead), entry.Time.Add(-p.observed.Ahead)})
			}
		}
	}
	return away
}

// randomReplica returns one of the replicas, and its index.
func (p *provingRun) randomReplica() (*apptest.Process, int) {
	i := p.random.IntN(len(p.replicas))
	return p.replicas[i], i
}

// redirectFrom sends the requests for replica i to the other replica, as a load balancer does.
func (p *provingRun) redirectFrom(i int) { p.setReplica(i, p.replicas[(i+1)%len(p.replicas)]) }

func (p *provingRun) setReplica(i int, r *apptest.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas[i] = r
}

// crash records the present as an instant at which a process died, or may have lost its leases or
// an answer between the gates.
func (p *provingRun) crash() { p.observed.Crashes = append(p.observed.Crashes, time.Now()) }

// killAndRecord kills a process, which dies between the two recorded instants. Meanwhile other
// processes may answer.
func (p *provingRun) killAndRecord(r *apptest.Process) {
	p.crash()
	r.Kill()
	p.crash()
}

func (p *provingRun) kill(context.Context) {
	r, i := p.randomReplica()
	p.killAndRecord(r)
	p.redirectFrom(i)
	p.setReplica(i, p.spawn(i))
}

// killAll kills every process. For a moment no process answers.
func (p *provingRun) killAll(ctx context.Context) {
	for _, r := range p.replicas {
		p.killAndRecord(r)
	}
	p.pause(ctx, 100, 1000)
	for i := range p.replicas {
		p.setReplica(i, p.spawn(i))
	}
}

// fill takes the last free space of the database's disk, and then kills a process.
func (p *provingRun) fill(ctx context.Context) {
	apptest.Must(p.T, p.disk.Fill())
	p.pause(ctx, 500, 1000)
	r, i := p.randomReplica()
	p.killAndRecord(r)
	apptest.Must(p.T, p.disk.MakeRoom())
	p.redirectFrom(i)
	p.setReplica(i, p.spawn(i))
}

// lock locks two tables of Postgres, or the SQLite file, for a while.
func (p *provingRun) lock(ctx context.Context) {
	driver, statement := "sqlite", "SELECT 1"
	at := "file:" + filepath.Join(p.Env["SENDCODE_DATA_DIR"], "sendcode.db") + "?_txlock=immediate&_pragma=busy_timeout(60000)"
	if p.Postgres != nil {
		driver, statement, at = "pgx", "LOCK TABLE sends, verifications IN ACCESS EXCLUSIVE MODE", p.Postgres.AdminURL()
	}
	db, err := sql.Open(driver, at)
	apptest.Must(p.T, err)
	defer db.Close()
	for locked := false; !locked && ctx.Err() == nil; { // Postgres may end the transaction because of a deadlock
		tx, err := db.BeginTx(ctx, nil)
		apptest.Must(p.T, err)
		if _, err = tx.ExecContext(ctx, statement); err == nil {
			locked = true
			p.pause(ctx, 1000, 2000)
		}
		apptest.Must(p.T, tx.Rollback())
	}
}

// reload puts other policies in force, with one place less or one more than before.
func (p *provingRun) reload(context.Context) {
	began := time.Now()
	p.fewer = !p.fewer
	p.configure()
	for _, r := range p.replicas {
		apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGHUP))
		p.Await("other policies to be in force", func() bool {
			a, err := p.At(r.Base, http.MethodPost, "/v1/quota", `{"channel":"email","to":"nobody@example.com"`+known+`}`)
			return err == nil && len(a.Quota.Rules) == 2 && a.Quota.Rules[1].Limit == p.limit()
		})
	}
	p.observed.Changes = append(p.observed.Changes, [2]time.Time{began, time.Now()})
}

// stop ends a process by SIGTERM, and starts it again.
func (p *provingRun) stop(context.Context) {
	_, i := p.randomReplica()
	p.restartReplica(i)
}

// restartReplica ends a process by SIGTERM, and starts the program of this replica. The process
// answers all its requests, and no message comes twice.
func (p *provingRun) restartReplica(i int) {
	r := p.replicas[i]
	p.redirectFrom(i)
	apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGTERM))
	hung := time.AfterFunc(servertest.Patience, func() { _ = r.Cmd.Process.Kill() })
	defer hung.Stop()
	if err := r.Cmd.Wait(); err != nil {
		p.Errorf("a process that was stopped ended with %v", err)
	}
	p.setReplica(i, p.spawn(i))
}

func (p *provingRun) freeze(ctx context.Context) {
	r, _ := p.randomReplica()
	began := time.Now()
	r.Freeze(p.T)
	p.pause(ctx, 1000, 1000)
	apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGCONT))
	if ended := time.Now(); ended.Sub(began) > outbox.DefaultLease/2 { // on a busy machine, a freeze may last longer than a lease
		p.observed.Crashes = append(p.observed.Crashes, began, ended)
	}
}

// away records that Redis was away since began. After a failed call, a refund is repeated within
// three seconds, even if no outage is logged. If a part of a Cluster was away, it takes up to ten
// seconds more.
func (p *provingRun) away(began time.Time) {
	repeated := 3 * time.Second
	if p.Nodes != nil && p.Sentinel == nil {
		repeated += 10 * time.Second
	}
	p.observed.Away = append(p.observed.Away, [2]time.Time{began, time.Now().Add(repeated)})
}

func (p *provingRun) stall(ctx context.Context) {
	defer p.away(time.Now())
	apptest.Must(p.T, p.Redis.Pause())
	p.pause(ctx, 1000, 2000)
	resumed := time.Now()
	apptest.Must(p.T, p.Redis.Resume())
	p.observed.Stalls = append(p.observed.Stalls, resumed, time.Now()) // Redis answers again between these instants
}

func (p *provingRun) empty(ctx context.Context) {
	defer p.away(time.Now())
	p.Redis.Stop()
	p.pause(ctx, 200, 1)
	apptest.Must(p.T, p.Redis.Start())
}

// ofNode returns a function that calls do for one node of the Cluster.
func ofNode(do func(*provingRun, context.Context)) func(*provingRun, context.Context) {
	return func(p *provingRun, ctx context.Context) {
		p.Redis = p.Nodes[p.random.IntN(len(p.Nodes))]
		do(p, ctx)
	}
}

// nodeAway stops a node, so that the database and the replicas decide for a third of the keys. Then
// the node comes back empty.
func (p *provingRun) nodeAway(ctx context.Context) {
	defer p.away(time.Now())
	p.Redis.Stop()
	p.pause(ctx, 3000, 3000)
	apptest.Must(p.T, p.Redis.Start())
}

func (p *provingRun) restart(context.Context) {
	p.crash() // on a busy machine, the outage may last longer than a lease
	apptest.Must(p.T, p.Postgres.Restart())
	p.crash()
}

// toxics are the faults of a link: it is slow, breaks in the middle of a request or of an answer,
// cuts the stream into small pieces, or is reset.
var toxics = []string{
	`{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":60,"jitter":50}}`,
	`{"name":"down","type":"reset_peer","stream":"downstream","attributes":{"timeout":20}}`,
	`{"name":"part","type":"limit_data","stream":"upstream","attributes":{"bytes":700}}`,
	`{"name":"slices","type":"slicer","stream":"downstream","attributes":{"average_size":40,"size_variation":20,"delay":300}}`,
	`{"name":"up","type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`,
	`{"name":"reply","type":"limit_data","stream":"downstream","attributes":{"bytes":300}}`,
}

// cutLinks makes each link fail in some way, one link after another.
func (p *provingRun) cutLinks(ctx context.Context) {
	defer p.away(time.Now())
	for _, i := range p.random.Perm(len(p.links)) {
		p.crash()
		_, err := p.links[i].Toxics.AddToxicJson(strings.NewReader(toxics[p.random.IntN(len(toxics))]))
		apptest.Must(p.T, err)
		p.pause(ctx, 200, 300)
		p.links[i].Toxics.ResetToxics(ctx)
		p.crash()
		p.pause(ctx, 100, 100)
	}
}
