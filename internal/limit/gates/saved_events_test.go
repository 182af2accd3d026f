package gates_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// keptProcess is a process whose limiter's events are saved.
type keptProcess struct {
	*vtest.Process
	*sqlitetest.DB
	saved  *gates.SavedEvents
	killed atomic.Bool
	stop   func()
}

// SaveLimiterEvents implements gates.EventDatabase. For a process that was killed it writes
// nothing.
func (p *keptProcess) SaveLimiterEvents(ctx context.Context, writer int64, changes []store.LimiterEvent) error {
	if p.killed.Load() {
		return errors.New("killed")
	}
	return p.DB.SaveLimiterEvents(ctx, writer, changes)
}

// LimiterEvents implements gates.EventDatabase. It reads from the first number on, so each read
// returns all events.
func (p *keptProcess) LimiterEvents(ctx context.Context, reader, _ int64, limit int, yield func(store.LimiterEvent) error) error {
	return p.DB.LimiterEvents(ctx, reader, -1, limit, yield)
}

func newSavedEvents(r *vtest.Rig, db gates.EventDatabase, ahead func() time.Duration, now func() time.Time) *gates.SavedEvents {
	return gates.NewSavedEvents(db, ahead, now, r.Settings.Vault.SealBucket, r.Settings.Vault.OpenBucket, r.Logger)
}

// startKept starts a process on the rig's database, on a clock that is ahead of the bubble's.
// toDatabase is the parameter ahead of NewSavedEvents.
func startKept(r *vtest.Rig, ahead time.Duration, toDatabase func() time.Duration) *keptProcess {
	r.Helper()
	p := &keptProcess{DB: r.Store}
	p.saved = newSavedEvents(r, p, toDatabase, func() time.Time { return time.Now().Add(ahead) })
	p.Process = vtest.New(r.Settings, core.Dependencies{DB: r.Store, Limiter: p.saved.Limiter(), SavedEvents: p.saved, Logger: r.Logger})
	p.Limits.SetLimits(applimits.Set{
		"exports": {{Rule: quota.Rule{Name: "day", Limit: 2, Window: 24 * time.Hour}, Keys: []string{"user"}}},
	})
	r.NoError(p.saved.Load(r.Context()))
	p.stop = p.Background()
	return p
}

// networkRules sets rules of scopes that only the limiter counts, and a rule on recipients, which
// the rows of sends count.
func networkRules(s *vtest.Settings) {
	s.Tick = 0
	s.Breaker = quota.Rule{Name: policy.BreakerName, Scope: policy.BreakerScope, Limit: 9, Window: 2 * time.Hour}
	vtest.WithRules(quota.Rule{Name: "network", Scope: quota.IP, Limit: 5, Window: time.Hour},
		quota.Rule{Name: "app", Scope: quota.App, Limit: 6, Per: quota.Day},
		quota.Rule{Name: "recipient", Scope: quota.Recipient, Limit: 4, Window: time.Hour})(s)
}

// failedChecks is the request that counts a failed check of the back end's network.
var failedChecks = quota.Request{
	ID: "1", Rules: []quota.Rule{{Name: "checks", Scope: quota.IP, Limit: 2, Window: time.Hour}},
	Buckets: buckets.NetworkFailedChecks("shop", vtest.BackEnd.IP, "email"),
}

// states returns the state of each rule as a look shows it: the rules of sends, of a limit and of
// failed checks.
func (p *keptProcess) states(r *vtest.Rig) (all []string) {
	r.Helper()
	a, err := p.Service.Quota(r.Context(), vtest.BackEnd, "email", "next@example.com", "")
	r.NoError(err)
	limit, err := p.Limits.Apply(r.Context(), applimits.Request{
		Operation: applimits.Peek, App: "shop", Limit: "exports",
		Keys: map[string]string{"user": "42"},
	})
	r.NoError(err)
	checks, err := p.Gates.PeekOrLocal(r.Context(), failedChecks)
	r.NoError(err)
	for _, s := range slices.Concat(a.Quota.Rules, limit.Rules, checks.Rules) {
		all = append(all, fmt.Sprint(s.Name, " ", s.Used, " ", s.RetryAfter, " ", s.ResetAfter))
	}
	return all
}

// use takes a place of each rule that the method states shows.
func (p *keptProcess) use(r *vtest.Rig, n int) {
	r.Helper()
	a, err := p.Service.Send(r.Context(), vtest.AskFor(fmt.Sprintf("%d@example.com", n)))
	r.NoError(err)
	r.Want("admitted", a.Admitted, true)
	_, err = p.Limits.Apply(r.Context(), applimits.Request{
		Operation: applimits.Take, App: "shop", Limit: "exports",
		Keys: map[string]string{"user": "42"},
	})
	r.NoError(err)
	check := failedChecks
	check.ID = fmt.Sprint(n)
	_, err = p.Gates.TakeOrLocal(r.Context(), check)
	r.NoError(err)
}

// A process that stops loses no event of the rules that only its limiter counts; a process that is
// killed loses at most the last second. The next process returns the same waits.
func TestSavedEventsOutliveTheProcess(t *testing.T) {
	type end struct {
		pause      time.Duration // since the last event
		kill, lost bool          // lost: the last event of each rule is lost
	}
	vtest.EachInBubble(t, map[string]end{
		"stopped":                {},
		"killed a second later":  {gates.KeepEvery + time.Millisecond, true, false},
		"killed within a second": {0, true, true},
	}, networkRules, func(r *vtest.Rig, c end) {
		p := startKept(r, 0, nil)
		for n := range 4 {
			r.Sleep(time.Minute)
			p.use(r, n)
		}
		r.Sleep(gates.KeepEvery)
		want := p.states(r)
		if p.use(r, 4); !c.lost {
			want = p.states(r)
		}
		r.Sleep(c.pause)
		if p.killed.Store(c.kill); c.pause > 0 {
			want = p.states(r)
		}
		p.stop()
		next := startKept(r, 0, nil)
		defer next.stop()
		r.Want("states", next.states(r), want)
		a, err := next.Service.Send(r.Context(), vtest.AskFor("next@example.com"))
		r.NoError(err)
		r.Want("admitted", a.Admitted, c.lost)
	})
}

// Refunded and reset events stay so after a restart, an instant in the future counts as now, events
// of windows of a few seconds are not saved, and no name of a bucket is stored in the clear.
func TestSavedEventsAreWhatCounts(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		p := startKept(r, time.Hour, nil) // the clock is set back before the next start
		limiter := p.saved.Limiter()
		rule := func(window time.Duration) []quota.Rule {
			return []quota.Rule{{Name: "rule", Scope: quota.IP, Limit: 9, Window: window}}
		}
		take := func(id, network string, window time.Duration) {
			_, err := limiter.Take(r.Context(),
				quota.Request{ID: id, Rules: rule(window), Buckets: map[quota.Scope]string{quota.IP: network}})
			r.NoError(err)
		}
		for _, network := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			take("one", network, 2*time.Hour)
			take("two", network, 2*time.Hour)
		}
		take("short", "192.0.2.4", 10*time.Second)
		take("also in a row", "shop:email:p:recipient:h", 2*time.Hour)
		r.NoError(limiter.Refund(r.Context(), "two", "192.0.2.1"))
		r.NoError(p.saved.Flush(r.Context()))
		r.NoError(limiter.Refund(r.Context(), "one", "192.0.2.2"))
		take("before the reset", "192.0.2.3", 2*time.Hour)
		r.NoError(limiter.Reset(r.Context(), "192.0.2.3"))
		take("three", "192.0.2.3", 2*time.Hour)
		p.stop()
		var kept []byte
		r.NoError(r.Store.LimiterEvents(r.Context(), 0, -1, 100, func(e store.LimiterEvent) error {
			kept = append(kept, e.Bucket...)
			return nil
		}))
		r.Want("an address in the names", bytes.Contains(kept, []byte("192.0")), false)
		next := startKept(r, 0, nil)
		defer next.stop()
		for network, used := range map[string]int{"192.0.2.1": 1, "192.0.2.2": 1, "192.0.2.3": 1, "192.0.2.4": 0, "shop:email:p:recipient:h": 0} {
			d, err := next.saved.Limiter().Peek(r.Context(),
				quota.Request{Rules: rule(2 * time.Hour), Buckets: map[quota.Scope]string{quota.IP: network}})
			r.NoError(err)
			vtest.Equal(r, network+": Used", d.Rules[0].Used, used)
			vtest.Equal(r, network+": hours until nothing counts", int(d.Rules[0].ResetAfter.Hours()), min(used, 1)*2)
		}
	})
}

// Replicas without Redis read each other's events within two seconds. When a Redis is added, it
// gets the events, and the database then has none.
func TestSavedEventsAreSharedAndMove(t *testing.T) {
	vtest.InBubbleIdle(t, networkRules, func(r *vtest.Rig) {
		a, b := startKept(r, 0, vtest.NotAhead), startKept(r, 0, vtest.NotAhead)
		a.use(r, 1)
		before := b.states(r)
		r.Sleep(2*gates.KeepEvery + time.Millisecond)
		want := a.states(r)
		r.Want("states of the other", b.states(r), want)
		r.Want("the same as before", slices.Equal(before, want), false)
		a.stop()
		b.stop()
		redis := quota.NewMemory(func() time.Time { return time.Now().Add(30 * time.Minute) }) // with another clock than the replicas
		// first the send in three buckets, the event of the limit and the failed check; then
		// nothing
		for _, n := range []int{5, 0} {
			moved, err := newSavedEvents(r, r.Store, nil, time.Now).MoveTo(r.Context(), redis)
			r.NoError(err)
			r.Want("moved", moved, n)
		}
		d, err := redis.Peek(r.Context(), failedChecks)
		r.NoError(err)
		vtest.Equal(r, "failed checks: Used", d.Rules[0].Used, 1)
		vtest.Equal(r, "failed checks: ResetAfter", d.Rules[0].ResetAfter, time.Hour-1001*time.Millisecond)
	})
}

// After a change of the index key, events whose names were encrypted with the old key are not
// counted, and the process starts.
func TestSavedEventsOfAnotherIndexKey(t *testing.T) {
	vtest.InBubbleIdle(t, networkRules, func(r *vtest.Rig) {
		old := startKept(r, 0, nil)
		unused := old.states(r)
		old.use(r, 1)
		old.stop()
		r.Settings.Vault.IndexKey = []byte("another index key of 32 bytes or more")
		next := startKept(r, 0, nil)
		r.Want("states", next.states(r), unused)
		r.Want("told", strings.Contains(r.Printed.String(), `another index key encrypted their names" count=5 `), true)
		next.use(r, 2)
		next.stop()
		redis := quota.NewMemory(time.Now)
		for _, read := range []int{10, 0} { // five events of each key; then none
			moved, err := newSavedEvents(r, r.Store, nil, time.Now).MoveTo(r.Context(), redis)
			r.NoError(err)
			r.Want("read", moved, read)
		}
		d, err := redis.Peek(r.Context(), failedChecks)
		r.NoError(err)
		r.Want("failed checks", d.Rules[0].Used, 1)
	})
}

// otherReads is a database of one event that reports when events are read.
type otherReads struct {
	gates.EventDatabase
	event   store.LimiterEvent
	after   int64 // the parameter after of the last read
	read    chan struct{}
	deleted func()
}

func (o *otherReads) LimiterEvents(_ context.Context, _, after int64, _ int, yield func(store.LimiterEvent) error) error {
	o.after = after
	select {
	case o.read <- struct{}{}:
	default:
	}
	if after >= o.event.Seq {
		return nil
	}
	return yield(o.event)
}

func (o *otherReads) DeleteLimiterEvents(context.Context, int64) error { o.deleted(); return nil }

// While events are moved, no other read runs: events that Load read would be deleted without being
// moved.
func TestSavedEventsMoveBeforeTheyAreDeleted(t *testing.T) {
	open := func(sealed []byte) (string, error) { return string(sealed), nil }
	now := time.Now()
	db := &otherReads{
		event: store.LimiterEvent{Bucket: []byte("b"), ID: "1", At: now, Until: now.Add(time.Hour)},
		read:  make(chan struct{}, 1),
	}
	kept := gates.NewSavedEvents(db, nil, time.Now, func(b string) []byte { return []byte(b) }, open, nil)
	var loading sync.WaitGroup
	db.deleted = func() {
		<-db.read // the read of MoveTo
		loading.Go(func() { _ = kept.Load(t.Context()) })
		for range 10_000 {
			runtime.Gosched()
		}
		servertest.Same(t, "reads meanwhile", len(db.read), 0)
	}
	moved, err := kept.MoveTo(t.Context(), quota.NewMemory(time.Now))
	loading.Wait()
	servertest.OK(t, err)
	servertest.Same(t, "moved", moved, 1)
}

type failingRecord struct {
	*quota.Memory
	err error
}

func (f failingRecord) Record(context.Context, string, time.Duration, []quota.AgedEvent) error {
	return f.err
}

// manyEvents is a database whose read gives the events with the numbers below n, and then returns
// err.
type manyEvents struct {
	gates.EventDatabase
	n       int
	err     error
	deleted bool
}

func (m *manyEvents) LimiterEvents(_ context.Context, _, after int64, _ int, yield func(store.LimiterEvent) error) error {
	for i := after + 1; i < int64(m.n); i++ {
		now := time.Now()
		if err := yield(store.LimiterEvent{Bucket: []byte("b"), ID: "1", At: now, Until: now.Add(time.Hour), Seq: i}); err != nil {
			return err
		}
	}
	return m.err
}

func (m *manyEvents) DeleteLimiterEvents(context.Context, int64) error { m.deleted = true; return nil }

// Events are deleted only if all were read, and all were recorded elsewhere.
func TestSavedEventsAreDeletedOnlyOnceMoved(t *testing.T) {
	open := func(sealed []byte) (string, error) { return string(sealed), nil }
	away := errors.New("away")
	for name, c := range map[string]struct {
		n          int
		read, call error // errors of the database and of the limiter
		deletes    bool
	}{
		"moved":                                  {n: 3, deletes: true},
		"nothing to move":                        {},
		"the database is away":                   {n: 3, read: away},
		"the database is away from the start":    {read: away},
		"the limiter is away":                    {n: 3, call: away},
		"the limiter is away in the first group": {n: 30_000, call: away},
	} {
		db := &manyEvents{n: c.n, err: c.read}
		kept := gates.NewSavedEvents(db, nil, time.Now, func(b string) []byte { return []byte(b) }, open, nil)
		var limiter gates.Limiter = quota.NewMemory(time.Now)
		if c.call != nil {
			limiter = failingRecord{quota.NewMemory(time.Now), c.call}
		}
		_, err := kept.MoveTo(t.Context(), limiter)
		failed := c.read != nil || c.call != nil
		servertest.Same(t, name+": failed", errors.Is(err, away), failed)
		servertest.Same(t, name+": deleted", db.deleted, c.deletes)
	}
}

// Each read begins after the last event of the read before. The process's own events are not
// counted again.
func TestSavedEventsAreReadOnce(t *testing.T) {
	open := func(sealed []byte) (string, error) { return string(sealed), nil }
	now := time.Now()
	db := &otherReads{event: store.LimiterEvent{Bucket: []byte("b"), ID: "1", At: now, Until: now.Add(time.Hour), Seq: 7, Own: true}}
	kept := gates.NewSavedEvents(db, nil, time.Now, func(b string) []byte { return []byte(b) }, open, nil)
	servertest.OK(t, errors.Join(kept.Load(t.Context()), kept.Load(t.Context())))
	d, err := kept.Limiter().Peek(t.Context(), quota.Request{
		Rules:   []quota.Rule{{Name: "rule", Scope: quota.IP, Limit: 9, Window: time.Hour}},
		Buckets: map[quota.Scope]string{quota.IP: "b"},
	})
	servertest.OK(t, err)
	servertest.Same(t, "read after", db.after, 7)
	servertest.Same(t, "counted", d.Rules[0].Used, 0)
}

// While the database is away, at most 200,000 changes wait. Further changes are dropped, and the
// log has their number once a minute.
func TestSavedEventsLogWhatIsDropped(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		kept := newSavedEvents(r, r.Store, nil, time.Now)
		events := make([]quota.AgedEvent, 200)
		for i := range events {
			events[i].ID = fmt.Sprint(i)
		}
		for n := range 1001 {
			r.NoError(kept.Limiter().Record(r.Context(), fmt.Sprint("network ", n), time.Hour, events))
		}
		r.Sleep(time.Minute)
		r.NoError(kept.Limiter().Record(r.Context(), "network", time.Hour, events[:1]))
		const line = "limiter's changes not saved"
		logged := r.Printed.String()
		vtest.Equal(r, "lines", strings.Count(logged, line), 2)
		vtest.Equal(r, "lines", strings.Contains(logged, "count=1 "), true)
		vtest.Equal(r, "lines", strings.Contains(logged, "count=200 "), true)
	})
}
