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

func (s *setBack) step() (wrong string) {
	switch n := s.rand.IntN(20); {
	case n < 3:
		by := time.Duration(s.rand.IntN(40)) * time.Second
		s.note("database set back by %v", by)
		s.NoError(s.Store.SetBack(time.Now().Add(-by)))
		s.lost = time.Now()
	case n < 6 && time.Since(s.lost) > time.Minute:
		s.note("limiter flushed")
		s.server.Flush()
		s.QuotaAt(s.svc)
	case n < 7 && len(s.admitted) > 0:
		by := time.Duration(1+s.rand.IntN(20)) * time.Second
		s.note("limiter's clock set back by %v in the next look", by)
		s.stepped = true
		s.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Peek" {
				s.Limiter.Around(nil)
				s.server.Step(-by)
			}
			return do()
		})
		fallthrough
	case n < 10:
		told := s.QuotaAt(s.svc).RetryAfter()
		s.Limiter.Around(nil)
		s.note("a look: %v", told)
		if exact := s.wait(); told < exact || told > exact && !s.stepped {
			return fmt.Sprintf("told %v, and the wait is %v", told, exact)
		}
	default:
		a, err := s.svc.Send(s.Context(), vtest.AskFor(vtest.Ana))
		s.NoError(err)
		s.note("a send: %v, %v", a.Admitted, a.Quota.RetryAfter())
		exact := s.wait()
		if a.Admitted && exact > 0 || !a.Admitted && exact == 0 && !s.stepped {
			return fmt.Sprintf("admitted %v, and the wait is %v", a.Admitted, exact)
		}
		if a.Admitted {
			s.admitted = append(s.admitted, time.Now())
		}
	}
	return ""
}

func (s *setBack) note(format string, args ...any) {
	s.done = append(s.done, fmt.Sprintf(format, args...))
}

// wait returns the exact wait by all that was admitted.
func (s *setBack) wait() (longest time.Duration) {
	for _, r := range narrow {
		if n := len(s.admitted); n >= r.Limit {
			longest = max(longest, time.Until(s.admitted[n-r.Limit].Add(r.Window)))
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
