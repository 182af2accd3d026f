//go:build nightly

// Only `make nightly` runs this test, since it needs Patroni and etcd, and takes some minutes. It
// tests the files in deploy/patroni.

package parts

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// Three nodes of Postgres under Patroni fail over under load. In random order, the leader's
// Postgres is killed once, the leader with its Patroni is killed three times, an operator switches
// over, and the leader is cut off from etcd and the other nodes while clients still reach it. One
// replica's URL names all nodes. The other replica reaches the leader through HAProxy. The judge is
// that of TestProve. For each fault, the test prints how long no code was accepted.
func TestPatroni(t *testing.T) {
	files := deploy + "/patroni"
	cluster := servertest.Patroni(t, files)
	s := apptest.OnDatabase(t, cluster.URL())
	p := newProvingRun(s, "two replicas on Redis and Postgres under Patroni")
	byHosts, byHAProxy := s.Env["SENDCODE_DATABASE_URL"], cluster.Through(cluster.HAProxy(t, files))
	_, more, _ := strings.Cut(byHosts, "?")
	_, own, _ := strings.Cut(cluster.URL(), "?")
	p.databases = [2]string{byHosts, byHAProxy + strings.TrimPrefix(more, own)}
	whole := func() {
		p.Await("three nodes that are whole", func() bool { return cluster.CheckHealthy(s.Context()) == nil })
	}
	var was *servertest.PatroniNode // the leader before the fault
	another := func(ctx context.Context) {
		p.Await("another leader", func() bool { now := cluster.Leader(ctx); return now != nil && now != was })
	}
	var spans []span
	do := func(name string, fail func(ctx context.Context)) fault {
		return fault{name, func(p *provingRun, ctx context.Context) {
			was = cluster.Leader(ctx)
			began := time.Now()
			p.throughout(func() {
				fail(ctx)
				whole()
				accepted := p.accepted()
				p.Await("a code that is accepted again", func() bool { return p.accepted() > accepted })
			})
			spans = append(spans, span{name, began, time.Now()})
		}}
	}
	kill := do("kills of the leader with its Patroni", func(ctx context.Context) {
		apptest.Must(t, was.Kill())
		another(ctx)
		apptest.Must(t, was.Start())
	})
	p.start(2)
	p.underLoad(func(ctx context.Context) {
		p.fail(ctx, 0, 0, []fault{
			do("kills of the leader's Postgres", func(ctx context.Context) {
				killed := was.Postmaster()
				apptest.Must(t, was.KillPostgres())
				p.Await("a Postgres that leads again", func() bool { // for a while, Patroni reports that the killed node leads
					now := cluster.Leader(ctx)
					return now != nil && (now != was || now.Postmaster() != killed && now.Postmaster() != 0)
				})
			}),
			kill, kill, kill,
			do("switchovers", func(ctx context.Context) {
				p.Await("another leader", func() bool {
					if now := cluster.Leader(ctx); now != nil && now != was {
						return true
					}
					_ = cluster.SwitchOver(ctx) // refused until a standby has caught up
					return false
				})
			}),
			do("leaders that are cut off", func(ctx context.Context) {
				was.CutOff()
				another(ctx)
				apptest.Must(t, was.Reconnect())
			}),
		})
	})
	for _, sp := range spans {
		fmt.Printf("%6.1f s without a code that was accepted: %s\n", p.longestPause(sp).Seconds(), sp.what)
	}
	p.report()
}

// span is a fault, with the instants at which it began and ended.
type span struct {
	what         string
	began, ended time.Time
}

// throughout calls do, during which the database is away for longer than a lease. It records each
// second as one in which a process may have lost its leases or an answer between the gates.
func (p *provingRun) throughout(do func()) {
	p.crash()
	ctx, stop := context.WithCancel(p.Context())
	ticked := make(chan []time.Time)
	go func() {
		var instants []time.Time
		for ctx.Err() == nil {
			sleep(ctx, time.Second)
			instants = append(instants, time.Now())
		}
		ticked <- instants
	}()
	do()
	stop()
	p.observed.Crashes = append(p.observed.Crashes, <-ticked...)
}

func (p *provingRun) accepted() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.observed.Requests {
		if q.Status == http.StatusAccepted {
			n++
		}
	}
	return n
}

// longestPause returns the longest time in a span between two codes that were accepted.
func (p *provingRun) longestPause(s span) (longest time.Duration) {
	last := s.began
	for _, q := range p.observed.Requests { // sorted by the end of the request
		if q.Status == http.StatusAccepted && q.End.After(s.began) && !q.End.After(s.ended) {
			longest, last = max(longest, q.End.Sub(last)), q.End
		}
	}
	return longest
}
