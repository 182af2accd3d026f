package gates_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

var schedules = flag.Int("gates.losses", 100, "random schedules of sends, flushes and failovers")

var firstSchedule = flag.Uint64("gates.loss", 0, "the first of them")

// loss is one schedule: two replicas, a limiter that loses events, and one recipient.
type loss struct {
	*vtest.Rig
	seed     uint64
	rand     *rand.Rand
	server   *vtest.FakeRedis
	replicas []*vtest.Service
	last     string // the newest verification
	// a place is taken that the database does not know of, after a crash or a lost refund: it may
	// hide the loss of another for a while
	crashed bool
	done    []string // what has happened
}

func TestQuota11RandomLosses(t *testing.T) {
	// The replicas do not run, and nothing is in the database of the service that does.
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Tick = 24 * time.Hour }, func(r *vtest.Rig) {
		admitted := 0
		for seed := *firstSchedule; seed < *firstSchedule+uint64(*schedules) && !t.Failed(); seed++ {
			l := newLoss(r, seed)
			for range 30 {
				l.step()
			}
			for _, row := range r.Rows() {
				if row.Counts {
					admitted++
				}
			}
			if t.Failed() {
				t.Logf("seed %d: -gates.loss=%d -gates.losses=1\n%v", seed, seed, l.done)
			}
			synctest.Wait()
			l.NoError(l.Store.Close()) // a thousand of them are much memory
		}
		t.Logf("%d schedules from seed %d on, %d sends let in", *schedules, *firstSchedule, admitted)
	})
}

func newLoss(r *vtest.Rig, seed uint64) *loss {
	l := &loss{Rig: r, seed: seed, rand: rand.New(rand.NewPCG(seed, 11)), server: vtest.NewFakeRedis()}
	r.Limiter.Set(l.server)
	r.Store = sqlitetest.Open(r.T, time.Now) // that of the rig's own service stays as it is
	for range 2 {
		l.replicas = append(l.replicas, r.Replica(r.MailServer))
		l.lookBack(len(l.replicas)-1, time.Minute)
	}
	return l
}

// lookBack changes the longest window of one replica.
func (l *loss) lookBack(replica int, window time.Duration) {
	t := l.replicas[replica].Terms()
	t.Purposes = maps.Clone(t.Purposes)
	p := t.Purposes["default"]
	p.Policy.Rules = []quota.Rule{
		{Name: "short", Scope: quota.Recipient, Limit: 2, Window: 10 * time.Second},
		{Name: "long", Scope: quota.Recipient, Limit: 5, Window: window},
	}
	t.Purposes["default"] = p
	l.replicas[replica].Change(t)
}

func (l *loss) note(format string, args ...any) {
	l.done = append(l.done, fmt.Sprintf(format, args...))
}

func (l *loss) step() {
	i := l.rand.IntN(2)
	switch n := l.rand.IntN(20); {
	case n < 2:
		l.note("flush")
		l.server.Flush()
	case n < 5:
		lost := l.rand.IntN(4)
		l.note("fail over without %d", lost)
		_, gave := l.server.FailOver(lost)
		l.crashed = l.crashed || gave
	case n < 6:
		window := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}[l.rand.IntN(3)]
		l.note("replica %d looks back %v", i, window)
		l.lookBack(i, window)
	case n < 7 && l.seed%4 == 0:
		l.crash(i)
	case n < 10:
		l.judge(i, "a look", l.QuotaAt(l.replicas[i]))
	case n < 12 && l.last != "":
		a, err := l.replicas[i].Get(l.Context(), vtest.BackEnd, l.last)
		l.NoError(err)
		l.judge(i, "GET", a.Quota)
	default:
		l.ask(i)
	}
	time.Sleep(time.Duration(l.rand.IntN(8000)) * time.Millisecond)
	synctest.Wait()
}

// crash is a replica that died between the gates: a place that no row speaks of.
func (l *loss) crash(i int) {
	id, err := uuid.NewV7()
	l.NoError(err)
	req, _ := l.request(i)
	req.ID = string(id[:])
	d, err := l.server.Take(l.Context(), req)
	l.NoError(err)
	l.crashed = l.crashed || d.Admitted
	l.note("a crash between the gates, %v", d.Admitted)
}

// request is what a replica asks the limiter, and the same bucket in the database.
func (l *loss) request(i int) (quota.Request, store.SendBucket) {
	h, _ := l.replicas[i].Administration.HashRecipient("email", vtest.Ana)
	p := l.replicas[i].Terms().Purposes["default"]
	return quota.Request{Rules: p.Policy.Rules, Buckets: vtest.BucketsOf(p, h)},
		store.SendBucket{App: "shop", Channel: "email", Recipient: h, Purposes: p.PolicyPurposes}
}

func (l *loss) ask(i int) {
	a, err := l.replicas[i].Send(l.Context(), vtest.AskFor(vtest.Ana))
	l.NoError(err)
	if a.Admitted {
		l.last = a.View.ID
	}
	l.judge(i, fmt.Sprintf("a send, admitted %v", a.Admitted), a.Quota)
}

// judge compares what was told with what each gate would say by itself, and sometimes waits as long
// as told. What is left is at most what the database has left.
func (l *loss) judge(i int, what string, told quota.Decision) {
	l.Helper()
	l.note("%s at %d: %s left, wait %v", what, i, vtest.Remaining(told), told.RetryAfter())
	req, bucket := l.request(i)
	limited, err := l.server.Peek(l.Context(), req)
	l.NoError(err)
	h, err := l.Store.ReadHistory(l.Context(), rowrules.HistoryQuery{SendBucket: bucket, CountedWithin: quota.LongestKeep(req.Rules)})
	l.NoError(err)
	events := h.Sends(quota.LongestKeep(req.Rules))
	logged := quota.Evaluate(req.Rules, map[quota.Scope][]quota.Event{quota.Recipient: events}, h.Now)
	for n, s := range told.Rules {
		if want := max(limited.Rules[n].RetryAfter, logged.Rules[n].RetryAfter); s.RetryAfter != want {
			l.Errorf("seed %d: %s: %s waits %v; the limiter says %v, the database %v", l.seed, what, s.Name,
				s.RetryAfter, limited.Rules[n].RetryAfter,
				logged.Rules[n].RetryAfter)
		}
		if left := logged.Rules[n].Remaining(); s.Remaining() > left { // a replica with a shorter window admits more than a limit
			l.Errorf("seed %d: %s: %s has %d left, in the database %d", l.seed, what, s.Name, s.Remaining(), left)
		}
	}
	if wait := told.RetryAfter(); !l.Failed() && !l.crashed && wait > 0 && l.rand.IntN(4) == 0 {
		l.wait(i, wait)
	}
}

// wait comes 1 µs too early and is refused, and then is let in.
func (l *loss) wait(i int, wait time.Duration) {
	l.Helper()
	time.Sleep(wait - time.Microsecond)
	synctest.Wait()
	if a, err := l.replicas[i].Send(l.Context(), vtest.AskFor(vtest.Ana)); err != nil || a.Admitted {
		l.Errorf("seed %d: let in 1 µs before the end of its wait, %v", l.seed, err)
	}
	time.Sleep(time.Microsecond)
	l.note("waited %v", wait)
	if a, err := l.replicas[i].Send(l.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
		l.Errorf("seed %d: refused after the wait that was told, %v %+v", l.seed, err, a.Quota)
	}
}

// A process that stops before it would try the limiter again makes its refunds all the same: no
// other tells a place as taken whose send has failed.
func TestAStopMakesTheRefundsOfAnOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		other := r.Replica(r.MailServer)
		r.MailServer.Answer(func(ctx context.Context) error {
			r.Limiter.Around(nil)
			r.Want("while it goes out", r.QuotaAt(other).Rules[0].Used, 1) // the row's event is added to the limiter
			return vtest.NoMailbox(ctx)
		})
		r.LoseLimiter()
		r.WantStatus(r.SendTo(vtest.Ana), "failed rejected")
		r.Quit()
		r.Want("after the stop", r.QuotaAt(other).Rules[0].Used, 0)
	})
}
