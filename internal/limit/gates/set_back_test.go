package gates_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// setBack is one schedule of a database and a limiter that lose data, each while the other has it.
type setBack struct {
	*vtest.Rig
	rand     *rand.Rand
	server   *vtest.FakeRedis
	svc      *vtest.Service
	admitted []time.Time
	// the limiter's clock was set back: it counts an event that only it has from when it first saw
	// it then
	stepped bool
	// when the database last lost rows: until they have left their windows the limiter is the only
	// gate
	lost time.Time
	done []string
}

var narrow = []quota.Rule{
	{Name: "short", Scope: quota.Recipient, Limit: 2, Window: 10 * time.Second},
	{Name: "long", Scope: quota.Recipient, Limit: 5, Window: time.Minute},
}

// playSetBack plays a schedule and returns what was wrong; put changes the parts of the service.
func playSetBack(r *vtest.Rig, seed uint64,
	put func(gates.Limiter, core.Database) (gates.Limiter, core.Database)) string {
	x := &setBack{Rig: r, rand: rand.New(rand.NewPCG(seed, 12)), server: vtest.NewFakeRedis()}
	r.Store = sqlitetest.Open(r.T, time.Now)
	defer func() {
		time.Sleep(time.Minute) // what is under way ends
		synctest.Wait()
		r.NoError(r.Store.Close())
	}()
	limiter, db := put(x.server, r.Store)
	r.Limiter.Set(limiter)
	x.svc = r.ReplicaOn(db, r.MailServer, r.Carrier)
	for range 40 {
		if wrong := x.step(); wrong != "" {
			return fmt.Sprintf("seed %d: %s\n%v", seed, wrong, x.done)
		}
		time.Sleep(time.Duration(x.rand.IntN(4000)) * time.Millisecond)
		synctest.Wait()
	}
	return ""
}

func (x *setBack) step() (wrong string) {
	switch n := x.rand.IntN(20); {
	case n < 3:
		by := time.Duration(x.rand.IntN(40)) * time.Second
		x.note("database set back by %v", by)
		x.NoError(x.Store.SetBack(time.Now().Add(-by)))
		x.lost = time.Now()
	case n < 6 && time.Since(x.lost) > time.Minute:
		x.note("limiter flushed")
		x.server.Flush()
		x.QuotaAt(x.svc)
	case n < 7 && len(x.admitted) > 0:
		by := time.Duration(1+x.rand.IntN(20)) * time.Second
		x.note("limiter's clock set back by %v in the next look", by)
		x.stepped = true
		x.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Peek" {
				x.Limiter.Around(nil)
				x.server.Step(-by)
			}
			return do()
		})
		fallthrough
	case n < 10:
		told := x.QuotaAt(x.svc).RetryAfter()
		x.Limiter.Around(nil)
		x.note("a look: %v", told)
		if exact := x.wait(); told < exact || told > exact && !x.stepped {
			return fmt.Sprintf("told %v, and the wait is %v", told, exact)
		}
	default:
		a, err := x.svc.Send(x.Context(), vtest.AskFor(vtest.Ana))
		x.NoError(err)
		x.note("a send: %v, %v", a.Admitted, a.Quota.RetryAfter())
		exact := x.wait()
		if a.Admitted && exact > 0 || !a.Admitted && exact == 0 && !x.stepped {
			return fmt.Sprintf("admitted %v, and the wait is %v", a.Admitted, exact)
		}
		if a.Admitted {
			x.admitted = append(x.admitted, time.Now())
		}
	}
	return ""
}

func (x *setBack) note(format string, args ...any) {
	x.done = append(x.done, fmt.Sprintf(format, args...))
}

// wait returns the exact wait by all that was admitted.
func (x *setBack) wait() (longest time.Duration) {
	for _, r := range narrow {
		if n := len(x.admitted); n >= r.Limit {
			longest = max(longest, time.Until(x.admitted[n-r.Limit].Add(r.Window)))
		}
	}
	return longest
}

func asTheyAre(l gates.Limiter, db core.Database) (gates.Limiter, core.Database) { return l, db }

func TestEachGateIsEnoughAlone(t *testing.T) {
	inBubbles(t, func(r *vtest.Rig) {
		for seed := range uint64(*schedules) {
			if wrong := playSetBack(r, seed, asTheyAre); wrong != "" {
				t.Error(wrong)
				return
			}
		}
	})
}

func inBubbles(t *testing.T, f func(*vtest.Rig)) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { vtest.WithRules(narrow...)(s); s.Tick = 24 * time.Hour }, f)
}

// Bugs, put back: one of 100 schedules finds each.
func TestBugsOfTheGatesAreFound(t *testing.T) {
	for name, put := range map[string]func(gates.Limiter, core.Database) (gates.Limiter, core.Database){
		"nothing is added": func(l gates.Limiter, db core.Database) (gates.Limiter, core.Database) { return recordsNothing{l}, db },
		"events are added with another age": func(l gates.Limiter, db core.Database) (gates.Limiter, core.Database) {
			return recordsOlder{l}, db
		},
		"only the rows are told": func(l gates.Limiter, db core.Database) (gates.Limiter, core.Database) {
			return showsNothing{l}, db
		},
	} {
		inBubbles(t, func(r *vtest.Rig) {
			for seed := range uint64(100) {
				if wrong := playSetBack(r, seed, put); wrong != "" {
					t.Logf("%s: found by %.200s", name, wrong)
					return
				}
			}
			t.Errorf("%s: no schedule found it", name)
		})
	}
}

type recordsNothing struct{ gates.Limiter }

func (recordsNothing) Record(context.Context, string, time.Duration, []quota.AgedEvent) error {
	return nil
}

type recordsOlder struct{ gates.Limiter }

func (l recordsOlder) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error {
	for i := range events {
		events[i].Age += time.Second
	}
	return l.Limiter.Record(ctx, bucket, keep, events)
}

// showsNothing is a limiter that decides, and whose looks show nothing.
type showsNothing struct{ gates.Limiter }

func (l showsNothing) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := l.Limiter.Peek(ctx, r)
	for i := range d.Rules {
		d.Rules[i].Used, d.Rules[i].ResetAfter, d.Rules[i].RetryAfter = 0, 0, 0
	}
	return d, err
}
