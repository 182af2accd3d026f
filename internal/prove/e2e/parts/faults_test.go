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
	do   func(*proof, context.Context)
}

var (
	ofProcesses = []fault{{"kills", (*proof).kill}, {"stops", (*proof).stop}, {"freezes", (*proof).freeze}}
	ofRedis     = []fault{
		{"flushes", func(p *proof, _ context.Context) { p.Flush() }},
		{"stalls", (*proof).stall},
		{"failovers to an empty Redis", (*proof).empty},
	}
	ofNodes = []fault{
		{"flushes of a node", ofNode(func(p *proof, _ context.Context) { p.Flush() })},
		{"stalls of a node", ofNode((*proof).stall)},
		{"times with a node away", ofNode((*proof).nodeAway)},
	}
	cutLinks   = fault{"cuts of the links", (*proof).cutLinks}
	ofPostgres = []fault{{"restarts of Postgres", (*proof).restart}, cutLinks}
	ofNights   = []fault{
		{"kills on a full disk", (*proof).fill},
		{"kills of all replicas", (*proof).killAll},
		{"locks of the tables", (*proof).lock},
		{"changes of policies", (*proof).reload},
	}
)

// fail makes the faults happen in random order, again and again. It ends when the time least has
// passed, the clients have got as many answers as requests says, and each fault has happened.
func (p *proof) fail(ctx context.Context, least time.Duration, requests int, faults []fault) {
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

func (p *proof) answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen.Requests) - p.cut
}

// pause waits for least milliseconds and, at random, up to more milliseconds on top.
func (p *proof) pause(ctx context.Context, least, more int) {
	sleep(ctx, time.Duration(least+p.random.IntN(more))*time.Millisecond)
}

// spawn starts the program of replica i.
func (p *proof) spawn(i int) *apptest.Process {
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
func (p *proof) outages() (away [][2]time.Time) {
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
				away = append(away, [2]time.Time{since.Add(-gates.LimiterTimeout - p.seen.Ahead), entry.Time.Add(-p.seen.Ahead)})
			}
		}
	}
	return away
}

// some returns one of the replicas, and its index.
func (p *proof) some() (*apptest.Process, int) {
	i := p.random.IntN(len(p.replicas))
	return p.replicas[i], i
}

// leave sends the requests for replica i to the other replica, as a load balancer does.
func (p *proof) leave(i int) { p.put(i, p.replicas[(i+1)%len(p.replicas)]) }

func (p *proof) put(i int, r *apptest.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas[i] = r
}

// crash records the present as an instant at which a process died, or may have lost its leases or
// an answer between the gates.
func (p *proof) crash() { p.seen.Crashes = append(p.seen.Crashes, time.Now()) }

// end kills a process, which dies between the two recorded instants. Meanwhile other processes may
// answer.
func (p *proof) end(r *apptest.Process) {
	p.crash()
	r.Kill()
	p.crash()
}

func (p *proof) kill(context.Context) {
	r, i := p.some()
	p.end(r)
	p.leave(i)
	p.put(i, p.spawn(i))
}

// killAll kills every process. For a moment no process answers.
func (p *proof) killAll(ctx context.Context) {
	for _, r := range p.replicas {
		p.end(r)
	}
	p.pause(ctx, 100, 1000)
	for i := range p.replicas {
		p.put(i, p.spawn(i))
	}
}

// fill takes the last free space of the database's disk, and then kills a process.
func (p *proof) fill(ctx context.Context) {
	apptest.Must(p.T, p.disk.Fill())
	p.pause(ctx, 500, 1000)
	r, i := p.some()
	p.end(r)
	apptest.Must(p.T, p.disk.MakeRoom())
	p.leave(i)
	p.put(i, p.spawn(i))
}

// lock locks two tables of Postgres, or the SQLite file, for a while.
func (p *proof) lock(ctx context.Context) {
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
func (p *proof) reload(context.Context) {
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
	p.seen.Changes = append(p.seen.Changes, [2]time.Time{began, time.Now()})
}

// stop ends a process by SIGTERM, and starts it again.
func (p *proof) stop(context.Context) {
	_, i := p.some()
	p.restartReplica(i)
}

// restartReplica ends a process by SIGTERM, and starts the program of this replica. The process
// answers all its requests, and no message comes twice.
func (p *proof) restartReplica(i int) {
	r := p.replicas[i]
	p.leave(i)
	apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGTERM))
	hung := time.AfterFunc(servertest.Patience, func() { _ = r.Cmd.Process.Kill() })
	defer hung.Stop()
	if err := r.Cmd.Wait(); err != nil {
		p.Errorf("a process that was stopped ended with %v", err)
	}
	p.put(i, p.spawn(i))
}

func (p *proof) freeze(ctx context.Context) {
	r, _ := p.some()
	began := time.Now()
	r.Freeze(p.T)
	p.pause(ctx, 1000, 1000)
	apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGCONT))
	if ended := time.Now(); ended.Sub(began) > outbox.DefaultLease/2 { // on a busy machine, a freeze may last longer than a lease
		p.seen.Crashes = append(p.seen.Crashes, began, ended)
	}
}

// away records that Redis was away since began. After a failed call, a refund is repeated within
// three seconds, even if no outage is logged. If a part of a Cluster was away, it takes up to ten
// seconds more.
func (p *proof) away(began time.Time) {
	repeated := 3 * time.Second
	if p.Nodes != nil && p.Sentinel == nil {
		repeated += 10 * time.Second
	}
	p.seen.Away = append(p.seen.Away, [2]time.Time{began, time.Now().Add(repeated)})
}

func (p *proof) stall(ctx context.Context) {
	defer p.away(time.Now())
	apptest.Must(p.T, p.Redis.Pause())
	p.pause(ctx, 1000, 2000)
	resumed := time.Now()
	apptest.Must(p.T, p.Redis.Resume())
	p.seen.Stalls = append(p.seen.Stalls, resumed, time.Now()) // Redis answers again between these instants
}

func (p *proof) empty(ctx context.Context) {
	defer p.away(time.Now())
	p.Redis.Stop()
	p.pause(ctx, 200, 1)
	apptest.Must(p.T, p.Redis.Start())
}

// ofNode returns a function that calls do for one node of the Cluster.
func ofNode(do func(*proof, context.Context)) func(*proof, context.Context) {
	return func(p *proof, ctx context.Context) {
		p.Redis = p.Nodes[p.random.IntN(len(p.Nodes))]
		do(p, ctx)
	}
}

// nodeAway stops a node, so that the database and the replicas decide for a third of the keys. Then
// the node comes back empty.
func (p *proof) nodeAway(ctx context.Context) {
	defer p.away(time.Now())
	p.Redis.Stop()
	p.pause(ctx, 3000, 3000)
	apptest.Must(p.T, p.Redis.Start())
}

func (p *proof) restart(context.Context) {
	p.crash() // on a busy machine, the outage lasts longer than a lease
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
func (p *proof) cutLinks(ctx context.Context) {
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
