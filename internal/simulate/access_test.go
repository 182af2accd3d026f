package simulate

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"sendcode/internal/store/sqlite"
)

// fate is the outcome of waiting for a call's turn.
type fate int

const (
	onTime    fate = iota
	tooLate        // its caller gave up
	cut            // the replica died, and the call had no effect
	cutTooFar      // the replica died, and the call had an effect
)

// turn waits until a call may go on: for its latency, and while its replica is frozen. Nothing else happens at that instant.
func (r *Replica) turn(ctx context.Context, label string, slow bool) fate {
	if r.isDead() {
		return cut
	}
	source := r.sourceOf(ctx, label)
	f := r.sleep(ctx, latency(source, slow))
	for f != cut && until(r.thaws()) { // a frozen process does not notice that it is late
		f = r.sleep(context.WithoutCancel(ctx), time.Until(r.thaws())+latency(source, false))
		if f == onTime && ctx.Err() != nil {
			f = tooLate
		}
	}
	if f == cut && source.IntN(2) == 0 {
		return cutTooFar
	}
	return f
}

// sourceOf is the randomness of one call.
func (r *Replica) sourceOf(ctx context.Context, label string) *rand.Rand {
	label = r.name + " " + label + " " + labelOf(ctx)
	return source(r.world.plan.Seed, label+" "+strconv.Itoa(r.world.nth(label)))
}

// latency returns some milliseconds, and sometimes much more.
func latency(r *rand.Rand, slow bool) time.Duration {
	d := time.Duration(100_000 + r.IntN(3_000_000))
	switch {
	case slow:
		d += time.Duration(r.Int64N(int64(5 * time.Second)))
	case r.IntN(16) == 0:
		d += time.Duration(r.Int64N(int64(300 * time.Millisecond)))
	}
	return d
}

func (r *Replica) sleep(ctx context.Context, d time.Duration) fate {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return onTime
	case <-ctx.Done():
		return tooLate
	case <-r.died:
		return cut
	}
}

// access is the hook of a replica's log.
func (r *Replica) access(ctx context.Context, method string, at sqlite.Stage) sqlite.Fault {
	if at == sqlite.Committing {
		return r.commit(ctx, method)
	}
	if r.isDead() {
		return sqlite.Down
	}
	w := r.world
	for {
		f := r.turn(ctx, method, w.wrong(LogSlow))
		busy := w.underCommit()
		switch {
		case f == cut || f == tooLate:
			return sqlite.Down
		case w.wrong(LogAway):
			w.count("log away")
			return sqlite.Down
		case f == cutTooFar || busy == nil:
			w.note("%s log %s", r.name, method)
			return sqlite.None
		}
		select { // another one holds the lock
		case <-busy:
		case <-ctx.Done():
		case <-r.died:
		}
	}
}

// underCommit returns a channel that is closed when the current commit has ended; nil if there is none.
func (w *world) underCommit() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committing
}

func (w *world) setCommitting(c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committing = c
}

// commit runs between the statements of a call and its commit.
func (r *Replica) commit(ctx context.Context, method string) (fault sqlite.Fault) {
	w := r.world
	if r.isDead() {
		return sqlite.None // it was cut too far
	}
	ended := make(chan struct{})
	w.setCommitting(ended)
	defer func() {
		w.setCommitting(nil)
		close(ended)
		w.note("%s log %s commits: %d", r.name, method, fault)
	}()
	source := r.sourceOf(ctx, method+" commit")
	f := r.sleep(ctx, latency(source, w.wrong(LogSlow)))
	switch {
	case f != onTime && source.IntN(2) == 0:
		w.count("commit cut: " + method)
		return sqlite.Vague
	case f != onTime:
		w.count("commit heard too late: " + method)
		return sqlite.Lost
	}
	k := r.nextCommit(method)
	if k != "" {
		w.count(string(k) + ": " + method)
	}
	switch k {
	case CommitFails:
		return sqlite.Down
	case CommitUnheard:
		return sqlite.Lost
	case CommitVague:
		return sqlite.Vague
	}
	return sqlite.None
}
