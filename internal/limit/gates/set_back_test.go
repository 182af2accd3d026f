package gates_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

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

// playSetBack plays a schedule and returns what was wrong.
func playSetBack(r *vtest.Rig, seed uint64) string {
	x := &setBack{Rig: r, rand: rand.New(rand.NewPCG(seed, 12)), server: vtest.NewFakeRedis()}
	r.Store = sqlitetest.Open(r.T, time.Now)
	defer func() {
		time.Sleep(time.Minute) // what is under way ends
		synctest.Wait()
		r.NoError(r.Store.Close())
	}()
	r.Limiter.Set(x.server)
	x.svc = r.Replica(r.MailServer)
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

func TestEachGateIsEnoughAlone(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { vtest.WithRules(narrow...)(s); s.Tick = 24 * time.Hour }, func(r *vtest.Rig) {
		for seed := range uint64(*schedules) {
			if wrong := playSetBack(r, seed); wrong != "" {
				t.Error(wrong)
				return
			}
		}
	})
}
