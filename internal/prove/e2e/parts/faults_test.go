package parts

import (
	"context"
	"strings"
	"syscall"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// fault is something that fails, and is whole again when do returns.
type fault struct {
	name string
	do   func(*proof, context.Context)
}

var (
	ofProcesses = []fault{{"kills", (*proof).kill}, {"stops", (*proof).stop}, {"freezes", (*proof).freeze}}
	ofRedis     = []fault{{"flushes", func(p *proof, _ context.Context) { p.Flush() }}, {"stalls", (*proof).stall},
		{"failovers to an empty Redis", (*proof).empty}}
	ofTheRest = []fault{{"restarts of Postgres", (*proof).restart}, {"cuts of the links", (*proof).cutLinks}}
)

// fail has each fault happen once, in some order, again and again for a while. On a busy machine it
// lasts longer, until each has happened.
func (p *proof) fail(ctx context.Context, least time.Duration, faults []fault) {
	p.Helper()
	var order []int
	for n, began := 0, time.Now(); n < len(faults) || time.Since(began) < least; n++ {
		if n%len(faults) == 0 {
			order = p.random.Perm(len(faults))
		}
		f := faults[order[n%len(faults)]]
		f.do(p, ctx)
		p.happened[f.name]++
		p.pause(ctx, 300, 1000)
	}
}

// pause waits for some milliseconds.
func (p *proof) pause(ctx context.Context, least, more int) {
	sleep(ctx, time.Duration(least+p.random.IntN(more))*time.Millisecond)
}

// some returns one of the replicas, and its place.
func (p *proof) some() (*apptest.Process, int) {
	i := p.random.IntN(len(p.replicas))
	return p.replicas[i], i
}

// leave has clients ask the other replica instead of one, as a load balancer does.
func (p *proof) leave(i int) { p.put(i, p.replicas[(i+1)%len(p.replicas)]) }

func (p *proof) put(i int, r *apptest.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas[i] = r
}

// crash notes that a process died, or may have lost its leases or an answer between the gates.
func (p *proof) crash() { p.seen.Crashes = append(p.seen.Crashes, time.Now()) }

func (p *proof) kill(context.Context) {
	r, i := p.some()
	r.Kill()
	p.crash()
	p.leave(i)
	p.put(i, p.Spawn())
}

// stop ends a process by SIGTERM: all that it was asked it answers, and nothing comes twice.
func (p *proof) stop(context.Context) {
	r, i := p.some()
	p.leave(i)
	apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGTERM))
	hung := time.AfterFunc(servertest.Patience, func() { _ = r.Cmd.Process.Kill() })
	defer hung.Stop()
	if err := r.Cmd.Wait(); err != nil {
		p.Errorf("a process that was stopped ended with %v", err)
	}
	p.put(i, p.Spawn())
}

func (p *proof) freeze(ctx context.Context) {
	r, _ := p.some()
	r.Freeze(p.T)
	p.pause(ctx, 1000, 1000)
	apptest.Must(p.T, r.Cmd.Process.Signal(syscall.SIGCONT))
}

func (p *proof) stall(ctx context.Context) {
	apptest.Must(p.T, p.Redis.Pause())
	p.pause(ctx, 1000, 2000)
	resumed := time.Now()
	apptest.Must(p.T, p.Redis.Resume())
	p.seen.Stalls = append(p.seen.Stalls, resumed, time.Now()) // Redis answers again between them
}

func (p *proof) empty(ctx context.Context) {
	p.Redis.Stop()
	p.pause(ctx, 200, 1)
	apptest.Must(p.T, p.Redis.Start())
}

func (p *proof) restart(context.Context) {
	p.crash() // on a busy machine it takes longer than a lease
	apptest.Must(p.T, p.Postgres.Restart())
	p.crash()
}

// toxics are what goes wrong with a link: it is slow, breaks off in the middle of a request or of
// an answer, is cut into small pieces, or is reset.
var toxics = []string{
	`{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":60,"jitter":50}}`,
	`{"name":"down","type":"reset_peer","stream":"downstream","attributes":{"timeout":20}}`,
	`{"name":"part","type":"limit_data","stream":"upstream","attributes":{"bytes":700}}`,
	`{"name":"slices","type":"slicer","stream":"downstream","attributes":{"average_size":40,"size_variation":20,"delay":300}}`,
	`{"name":"up","type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`,
	`{"name":"reply","type":"limit_data","stream":"downstream","attributes":{"bytes":300}}`,
}

// cutLinks has each link suffer in some way, one after the other.
func (p *proof) cutLinks(ctx context.Context) {
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
