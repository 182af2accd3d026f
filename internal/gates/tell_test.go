package gates_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/app/core"
	"sendcode/internal/delivery"
	"sendcode/internal/fault"
	"sendcode/internal/gates"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

var (
	secondAndHourRules = []quota.Rule{
		{Name: "second", Scope: quota.Recipient, Limit: 1, Window: time.Second},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	}
	secondAndHour = vtest.WithRules(secondAndHourRules...)
)

func TestQuota11EveryAnswerIsTrueAfterAFlush(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		other := r.Replica(r.MailServer)
		for range 3 {
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		r.EmptyLimiter()
		r.WantQuota("a look on the other replica", r.QuotaAt(other), "[1 2]", 0)
		r.WantCounted("after the look", 3)
		r.EmptyLimiter()
		r.WantQuota("the 4th", r.SendTo(vtest.Ana).Quota, "[0 1]", time.Second)
		r.WantCounted("after the 4th", 4)
		r.Sleep(time.Second)
		r.EmptyLimiter()
		a := r.SendTo(vtest.Ana)
		r.WantQuota("the 5th", a.Quota, "[0 0]", time.Hour-4*time.Second)
		r.WantCounted("after the 5th", 5)
		r.EmptyLimiter()
		got, err := other.Get(r.Context(), vtest.BackEnd, a.View.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.WantQuota("GET", got.Quota, "[0 0]", time.Hour-4*time.Second)
		r.Sleep(time.Hour - 4*time.Second)
		r.WantQuota("at the end of the wait", r.SendTo(vtest.Ana).Quota, "[0 0]", time.Second)
	})
}

// watched is a replica whose calls of the limiter and of the gates' statements are noted.
type watched struct {
	*vtest.Service
	db    *sqlitetest.DB
	calls []string
}

func watch(r *vtest.Rig) *watched {
	w := &watched{db: r.Store.Replica()}
	w.db.SetFault(func(method string) sqlitetest.Fault {
		if slices.Contains([]string{"Begin", "ReadHistory"}, method) {
			w.calls = append(w.calls, method)
		}
		return sqlitetest.None
	})
	w.Service = r.ReplicaOn(w.db, r.MailServer, r.Carrier)
	w.Limiter.Around(func(_ context.Context, call string, do func() error) error {
		w.calls = append(w.calls, call)
		return do()
	})
	return w
}

// during returns the calls that do makes.
func (w *watched) during(do func()) string {
	w.calls = nil
	do()
	return strings.Join(w.calls, " ")
}

// While nothing is lost, a send and a look cost one call of each gate, and nothing is written by a
// look.
func TestQuota11NothingIsAskedTwiceWhileNothingIsLost(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		w := watch(r)
		id := ""
		send := func() bool {
			a, err := w.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
			if a.Admitted {
				r.Sleep(time.Second)
				id = a.View.ID
			}
			return a.Admitted
		}
		look := func() bool { _, err := w.Get(r.Context(), vtest.BackEnd, id); return err == nil }
		flush := func() bool { r.EmptyLimiter(); return true }
		const mended = "Peek ReadHistory Events Record"
		for i, step := range []struct {
			do   func() bool
			want string
		}{
			{send, "Take Begin"}, {look, "Peek ReadHistory"}, {look, "Peek ReadHistory"}, {send, "Take Begin"}, {look, "Peek ReadHistory"},
			{send, "Take Begin"},
			// the hour is full
			{look, "Peek ReadHistory"}, {send, "Take Begin"}, {send, "Take Begin"},
			{func() bool { return !send() }, "Take ReadHistory"},
			{flush, ""}, {look, mended}, {look, "Peek ReadHistory"},
		} {
			ok := false
			if calls := w.during(func() { ok = step.do() }); !ok || calls != step.want {
				t.Errorf("step %d: %v, %s; want %s", i, ok, calls, step.want)
			}
		}
	})
}

// interrupted is a database that calls beforeBegin before its first Begin, and afterBegin after
// each.
type interrupted struct {
	*sqlitetest.DB
	beforeBegin, afterBegin func()
}

func (l *interrupted) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	if do := l.beforeBegin; do != nil {
		l.beforeBegin = nil
		do()
	}
	if do := l.afterBegin; do != nil {
		defer do()
	}
	return l.DB.Begin(ctx, in)
}

// A flush between the gates takes the send that is there, and looks restore a history that does not
// have it.
func TestLooksAreTrueAfterAFlushBetweenTheGates(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
			for range earlier {
				r.SendTo(vtest.Ana)
				r.Sleep(time.Second)
			}
			s := r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() {
				r.EmptyLimiter()
				r.QuotaAt(r.Svc)
				r.QuotaAt(r.Svc)
			}}, r.MailServer, r.Carrier)
			if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
				t.Fatalf("%v %+v", err, a)
			}
			left := fmt.Sprintf("[0 %d]", 4-earlier)
			r.WantQuota("just after the send", r.QuotaAt(r.Svc), left, time.Second)
			r.Sleep(time.Second / 2)
			r.WantQuota("half a second later", r.QuotaAt(r.Svc), left, time.Second/2)
			r.Sleep(10 * time.Second)
			r.WantQuota("when nothing is in doubt", r.QuotaAt(r.Svc), fmt.Sprintf("[1 %d]", 4-earlier), 0)
			r.WantCounted("at the end", 1+earlier)
		})
	}
}

// Each gate has one send that the other lacks, and both count one.
func TestALookCountsTheSendsOfBothGates(t *testing.T) {
	for _, rule := range []quota.Rule{{Window: time.Hour}, {Per: quota.Day}, {Days: 2}} {
		rule.Name, rule.Scope, rule.Limit = "only", quota.Recipient, 5
		vtest.InBubbleWith(t, vtest.WithRules(rule), func(r *vtest.Rig) {
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
			r.EmptyLimiter()
			s := r.ReplicaOn(&interrupted{DB: r.Store,
				beforeBegin: func() { r.WantQuota("a look between the gates", r.QuotaAt(r.Svc), "[3]", 0) }},
				r.MailServer, r.Carrier)
			r.NoError(vtest.Err(s.Send(r.Context(), vtest.AskFor(vtest.Ana))))
		})
	}
}

// The database was slow and counts the send from a later instant than the limiter did, which may
// have lost it meanwhile. What both count from then on is the database's instant.
func TestTheWaitIsTrueAfterASlowDatabase(t *testing.T) {
	for _, lost := range []bool{false, true} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			s := r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() {
				if r.Sleep(3 * time.Second); lost {
					r.EmptyLimiter()
				}
			}}, r.MailServer, r.Carrier)
			a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
			wait := a.Quota.RetryAfter()
			r.WantWait(r.Counted(), wait) // by the limiter alone
			r.WantWait(r.QuotaAt(r.Svc), wait)
			r.Sleep(wait)
			r.SendTo(vtest.Ana)
		})
	}
}

// A send writes back what the limiter lost before it.
func TestASendTeachesTheLimiter(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.EmptyLimiter()
		r.NoError(vtest.Err(r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))))
		r.WantCounted("after the second", 2)
	})
}

// frozen is a database that a process reaches only after a while, whatever became of the caller
// meanwhile.
type frozen struct {
	core.Database
	meanwhile func()
}

func (f *frozen) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	f.meanwhile()
	return f.Database.Begin(context.WithoutCancel(ctx), in)
}

// A process that was frozen between the gates tells the limiter of its send, whose bucket was lost
// and rewritten meanwhile.
func TestLooksAreTrueAfterAProcessWasFrozenBetweenTheGates(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		s := r.ReplicaOn(&frozen{r.Store, func() {
			r.EmptyLimiter()
			r.QuotaAt(r.Svc)
			r.Sleep(10 * time.Second)
			r.QuotaAt(r.Svc)
		}}, r.MailServer, r.Carrier)
		if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		r.WantCounted("after the send", 2)
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[0 3]", time.Second)
	})
}

// If the limiter does not take the history, the answer is the database's.
func TestQuota11AnswersAreTrueWhereTheLimiterLearnsNothing(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.EmptyLimiter()
		r.Limiter.Around(vtest.Unreachable("Record", "Events"))
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[1 4]", 0)
		r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[0 3]", time.Second)
	})
}

// A limiter that is slow to take one history learns the other with the right instants.
func TestQuota11ASlowLimiterLearnsTheRightInstants(t *testing.T) {
	rules := vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour},
		quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 3, Window: time.Hour})
	vtest.InBubbleWith(t, rules, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.EmptyLimiter()
		first := true
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Events" && first {
				first = false
				r.Sleep(3 * time.Second)
			}
			return do()
		})
		for range 2 {
			r.WantQuota("a look", r.QuotaAt(r.Svc), "[0]", time.Hour-13*time.Second)
		}
	})
}

// While both gates know nothing of earlier sends, no wait is told.
func TestQuota11NothingIsToldThatNeitherGateKnows(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		for range 3 {
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		r.EmptyLimiter()
		// so the first send keeps its place, which is then the only one that the limiter has
		r.Limiter.Around(vtest.Unreachable("Refund"))
		r.FailStore(sqlitetest.Down, "Begin", "ReadHistory")
		for range 2 {
			r.WantError(vtest.Err(r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))), fault.Unavailable)
		}
		r.MendStore()
		r.Limiter.Around(nil)
		r.Sleep(2 * time.Second)
		r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[0 1]", time.Second)
	})
}

// A limiter that lost its events is rebuilt; it is not for a recipient that it never had, or that
// it kept.
func TestRebuildsAreCounted(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		var counts []int64
		count := func() { counts = append(counts, r.Svc.Gates.EventLosses()) }
		for range 3 {
			r.QuotaAt(r.Svc)
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		count()
		r.EmptyLimiter()
		for range 2 {
			r.QuotaAt(r.Svc)
			count()
		}
		r.Sleep(time.Second)
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		count()
		r.Sleep(time.Second / 2)
		r.EmptyLimiter()
		r.RefuseTo(vtest.Ana) // by the database
		count()
		servertest.Same(t, "rebuilds", fmt.Sprint(counts), "[0 1 1 2 3]")
	})
}

// A gate that is slow, or that did not answer, has lost nothing: no rebuild is counted, since an
// alert says that the limiter loses events.
func TestASlowGateIsNoLoss(t *testing.T) {
	for name, slow := range map[string]func(r *vtest.Rig) *vtest.Service{
		"the limiter": func(r *vtest.Rig) *vtest.Service {
			r.Limiter.Around(func(_ context.Context, _ string, do func() error) error {
				r.Sleep(1200 * time.Millisecond)
				return do()
			})
			return r.Svc
		},
		"the database": func(r *vtest.Rig) *vtest.Service {
			return r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() { r.Sleep(3 * time.Second) }},
				r.MailServer, r.Carrier)
		},
		// the database counts what the limiter does not know
		"the limiter, at times": func(r *vtest.Rig) *vtest.Service {
			failed := false
			r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
				if call == "Record" || call == "Take" && !failed {
					failed = failed || call == "Take"
					return quota.ErrUnavailable
				}
				return do()
			})
			return r.Svc
		},
	} {
		vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
			s := slow(r)
			for range 3 {
				r.NoError(vtest.Err(s.Send(r.Context(), vtest.AskFor(vtest.Ana))))
				r.Sleep(2 * time.Second)
				r.QuotaAt(s)
			}
			if n := s.Gates.EventLosses(); n != 0 {
				t.Errorf("%s is slow: %d rebuilds are counted", name, n)
			}
		})
	}
}

// Two purposes have policies of their own; for five seconds a mistake maps one to the other's. Its
// sends count there while it lasts, and no longer; so it is where a replica still has the file with
// the mistake, at the cost of a query a look.
func TestAPolicyMistakeThatIsUndoneCostsNothing(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 3,
		Window: time.Hour}), func(r *vtest.Rig) {
		mapped := func(s *vtest.Service, gift string, shares ...string) {
			terms := s.Terms()
			terms.Purposes = maps.Clone(terms.Purposes)
			p := terms.Purposes["default"]
			for name, policy := range map[string]string{"gift": gift, "login": "hrb"} {
				own := p
				own.Name, own.Policy.Name, own.Shares = name, policy, []string{name}
				if policy == "hrb" {
					own.Shares = shares
				}
				terms.Purposes[name] = own
			}
			s.Change(terms)
		}
		send := func(s *vtest.Service, purpose string) verification.Answer {
			ask := vtest.AskFor(vtest.Ana)
			ask.Purpose = purpose
			a, err := s.Send(r.Context(), ask)
			r.NoError(err)
			return a
		}
		look := func(s *vtest.Service, what, purpose, left string, wait time.Duration) {
			t.Helper()
			a, err := s.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, purpose)
			r.NoError(err)
			r.WantQuota(what, a.Quota, left, wait)
		}
		other := r.Replica(r.MailServer)
		right := func(s *vtest.Service) { mapped(s, "hra", "login") }
		wrong := func(s *vtest.Service) { mapped(s, "hrb", "gift", "login") }
		right(r.Svc)
		send(r.Svc, "gift")
		send(r.Svc, "gift")
		send(r.Svc, "login")
		look(r.Svc, "at first", "login", "[2]", 0)
		r.Sleep(10 * time.Second)
		wrong(r.Svc)
		look(r.Svc, "with the mistake", "login", "[0]", time.Hour-10*time.Second)
		r.Sleep(5 * time.Second)
		right(r.Svc)
		look(r.Svc, "when it is undone", "login", "[2]", 0)
		look(r.Svc, "of the other purpose", "gift", "[1]", 0)

		wrong(other) // a replica that has not heard
		for range 2 {
			look(other, "where it is not undone", "login", "[0]", time.Hour-15*time.Second)
			look(r.Svc, "where it is", "login", "[2]", 0)
		}
		r.Sleep(time.Hour)
		look(r.Svc, "an hour later", "login", "[3]", 0)
		send(other, "gift") // counts in the bucket of hrb, where r.Svc does not expect it
		r.Sleep(10 * time.Second)
		if a := send(r.Svc, "login"); !a.Admitted || vtest.Remaining(a.Quota) != "[2]" {
			t.Errorf("after a send of the other replica: %+v", a.Quota)
		}
		send(other, "gift")
		r.Sleep(10 * time.Second)
		for _, left := range []string{"[1]", "[0]"} {
			if a := send(r.Svc, "login"); !a.Admitted || vtest.Remaining(a.Quota) != left {
				t.Errorf("the limit is not the purpose's own: %+v", a.Quota)
			}
		}
		send(r.Svc, "login")
		look(r.Svc, "a full hour", "login", "[0]", time.Hour-10*time.Second)
		r.Sleep(time.Hour)
		send(r.Svc, "login")
		r.Sleep(10 * time.Second)
		for range 2 {
			look(r.Svc, "with a mark", "login", "[2]", 0)
		}
		wrong(r.Svc)
		// by the right file: counts where r.Svc does not look for the purpose gift, and its bucket
		// stays marked
		send(other, "login")
		right(r.Svc)
		look(r.Svc, "after a send", "login", "[1]", 0)
	})
}

// A limiter that was stalled runs the Take of a send late that the database admitted alone: it
// counts from the instant in the database.
func TestALateTakeCountsFromTheDatabasesInstant(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Take" {
				go func() {
					<-time.After(500 * time.Millisecond)
					_ = do()
				}()
			}
			return quota.ErrUnavailable
		})
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.Limiter.Around(nil)
		r.WantCounted("by the limiter", 1)
		r.Sleep(9 * time.Second)
		r.WantQuota("the limiter", r.Counted(), "[0 4 9]", 50*time.Second)
	})
}

// A flood of refused requests reads the rows fifty times a second, and once for those that come
// together; it compares them with the limiter's four times a second. A look always reads. What this
// process takes out is noticed at once.
func TestAFloodOfRefusalsReadsFewRows(t *testing.T) {
	for _, only := range []bool{false, true} { // an event that only the limiter has
		vtest.InBubble(t, func(r *vtest.Rig) {
			reads := map[string]int{}
			db := r.Store.Replica()
			db.SetFault(func(method string) sqlitetest.Fault { reads[method]++; return sqlitetest.None })
			s := r.ReplicaOn(db, r.MailServer, r.Carrier)
			sent := time.Now()
			_, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
			r.Sleep(10 * time.Second) // the send is no longer between the gates
			if only {
				r.NoError(r.Store.SetBack(sent))
			}
			clear(reads)
			refuse := func() {
				t.Helper()
				a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
				r.NoError(err)
				r.WantBlockedBy(a.Quota, "minute", time.Minute-time.Since(sent))
			}
			began := time.Now()
			for range 32 + 51 {
				refuse()
			}
			r.Want("32 reads, and 51 more, take", time.Since(began), time.Second)
			if reads["ReadHistory"] != 32+51 || reads["SendsByID"] > 5 {
				t.Errorf("in a second: %v", reads)
			}
			clear(reads)
			var burst sync.WaitGroup
			for range 30 {
				burst.Go(refuse)
			}
			if burst.Wait(); reads["ReadHistory"] > 2 {
				t.Errorf("30 refusals at once read %d times", reads["ReadHistory"])
			}
			clear(reads)
			for range 3 {
				_, err := s.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
				r.NoError(err)
			}
			r.Want("reads of three looks", reads["ReadHistory"], 3)
			refuse()
			r.NoError(s.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
			if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
				t.Errorf("after a reset: %v %+v", err, a.Quota)
			}
		})
	}
}

// A refusal without the limiter reads the database once.
func TestARefusalWithoutTheLimiterIsOneRead(t *testing.T) {
	vtest.InBubbleWith(t, vtest.AlsoRules(quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: time.Minute}),
		func(r *vtest.Rig) {
			r.LoseLimiter()
			w := watch(r)
			r.AskAt(w.Service, vtest.AskFor("bob@example.com"), true)
			r.Want("calls", w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), false) }), "ReadHistory")
		})
}

// A refusal tells a wait, also where the limiter loses what corrects it.
func TestARefusalNeverTellsThatThereIsNoWait(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Refund" || call == "Record" {
				return nil
			}
			return do()
		})
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, time.Minute)
	})
}

// An admitted send measures the clocks, but one to which the database was slow to answer no worse
// than before.
func TestASendMeasuresTheClocks(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		server.Step(time.Hour)
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Want("how far the limiter is ahead", r.Svc.Gates.ClocksApart(), time.Hour)
		r.FailStore(sqlitetest.Down, "Begin")
		blind := r.Replica(r.MailServer)
		r.WantError(vtest.Err(blind.Send(r.Context(), vtest.AskFor("bob@example.com"))), fault.Unavailable)
		r.Want("without the database's clock", blind.Gates.ClocksApart(), time.Duration(0))
		r.MendStore()
		s := r.ReplicaOn(&interrupted{DB: r.Store, afterBegin: func() { r.Sleep(3 * time.Second) }},
			r.MailServer, r.Carrier)
		r.QuotaAt(s)
		r.Want("after a look", s.Gates.ClocksApart(), time.Hour)
		r.Sleep(time.Minute)
		r.AskAt(s, vtest.AskFor(vtest.Ana), true)
		r.Want("after a slow answer", s.Gates.ClocksApart(), time.Hour)
	})
}

// A refusal by the database has its instant on the database's clock, also if the limiter loses the
// refund or is set meanwhile.
func TestARefusalByTheDatabaseHasItsInstant(t *testing.T) {
	for name, around := range map[string]func(*vtest.Rig, *vtest.FakeRedis) vtest.Around{
		"no refund": func(*vtest.Rig, *vtest.FakeRedis) vtest.Around { return vtest.Unreachable("Refund") },
		"a step back": func(r *vtest.Rig, server *vtest.FakeRedis) vtest.Around {
			return func(_ context.Context, call string, do func() error) error {
				if call == "Events" {
					r.Limiter.Around(nil)
					server.Step(-2 * store.MaxClockSkew)
				}
				return do()
			}
		},
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			server := vtest.NewFakeRedis("redis")
			server.Step(time.Hour)
			r.Limiter.Set(server)
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
			server.Flush()
			r.Limiter.Around(around(r, server))
			d := r.RefuseTo(vtest.Ana).Quota
			r.WantQuota(name, d, "[0 4 9]", 50*time.Second)
			r.Want(name+": how far the instant is from the database's clock", time.Until(d.At).Truncate(time.Second),
				time.Duration(0))
		})
	}
}

// A policy may have no rule on the recipient but that on failures, which a look tells by the
// database.
func TestALookTellsFailuresAlone(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 1,
		Window: time.Hour}), func(r *vtest.Rig) {
		r.FailSends(1)
		r.EmptyLimiter()
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[0]", time.Hour-time.Minute)
	})
}

// lateLook is a database that begins a look so late.
type lateLook struct {
	*sqlitetest.DB
	late, after time.Duration // before the database reads its clock, and after that
	looks       atomic.Int32  // so far
}

func (l *lateLook) ReadHistory(ctx context.Context, look gate.HistoryQuery) (gate.History, error) {
	l.looks.Add(1)
	<-time.After(l.late)
	h, err := l.DB.ReadHistory(ctx, look)
	<-time.After(l.after)
	return h, err
}

// A database that is slow to begin a look, or by no more than a second to begin a send, moves no
// event of the limiter.
func TestASlowDatabaseMovesNothing(t *testing.T) {
	net := quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: 11 * time.Second}
	vtest.InBubbleWith(t, vtest.AlsoRules(net), func(r *vtest.Rig) {
		var calls []string
		note := func(s *vtest.Service) *vtest.Service {
			s.Limiter.Around(func(_ context.Context, call string, do func() error) error {
				calls = append(calls, call)
				return do()
			})
			return s
		}
		s := note(r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() { r.Sleep(store.MaxClockSkew) }},
			r.MailServer, r.Carrier))
		r.AskAt(s, vtest.AskFor(vtest.Ana), true)
		r.Sleep(9 * time.Second)
		l := &lateLook{DB: r.Store}
		s = note(r.ReplicaOn(l, r.MailServer, r.Carrier))
		r.QuotaAt(s) // measures the clocks
		l.late = 3 * time.Second
		d := r.QuotaAt(s)
		r.WantQuota("a look", d, "[0 4 9 0]", 47*time.Second)
		r.WantLine("the waits of a rule that let go meanwhile", "0s 0s", d.Rules[3].ResetAfter, d.Rules[3].RetryAfter)
		r.Want("its age", time.Since(d.At), time.Duration(0))
		l.late, l.after = 0, 3*time.Second
		r.WantQuota("a look whose answer is late", r.QuotaAt(s), "[0 4 9 1]", 44*time.Second)
		r.Want("calls", calls, []string{"Take", "Peek", "Peek", "Peek"})
	})
}

// An event that only the database's clock has may lie half a second apart in the limiter: a look
// rewrites nothing for that. A refusal does, so that the send at the end of its wait costs nothing
// more.
func TestASmallDifferenceOfTheClocksIsMendedByRefusalsAlone(t *testing.T) {
	failures := vtest.WithRules(quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 1, Window: time.Minute})
	for name, c := range map[string]struct {
		change func(*vtest.Settings)
		looks  int // statements of a look
		fill   func(*vtest.Rig)
	}{
		"a send without the limiter": {nil, 1, func(r *vtest.Rig) {
			r.LoseLimiter()
			r.SendTo(vtest.Ana)
			r.Sleep(2 * time.Second)
			r.Limiter.Around(nil)
			r.Sleep(10 * time.Second)
		}},
		"a failure": {failures, 1, func(r *vtest.Rig) {
			r.MailServer.Answer(vtest.NoMailbox)
			r.SendTo(vtest.Ana)
			r.MailServer.Answer(nil)
			r.Sleep(10 * time.Second)
		}},
	} {
		vtest.InBubbleWith(t, c.change, func(r *vtest.Rig) {
			server := vtest.NewFakeRedis("redis")
			r.Limiter.Set(server)
			c.fill(r)
			server.Step(-store.MaxClockSkew / 2)
			w := watch(r)
			r.Want(name+": a look", w.during(func() { r.QuotaAt(w.Service) }), "Peek ReadHistory")
			var wait time.Duration
			refusal := w.during(func() { wait = r.AskAt(w.Service, vtest.AskFor(vtest.Ana), false).Quota.RetryAfter() })
			r.Want(name+": a refusal", refusal, "Take"+strings.Repeat(" ReadHistory", c.looks)+" Events Record")
			const later = 200 * time.Millisecond
			r.Sleep(later)
			again := w.during(func() {
				r.WantWait(r.AskAt(w.Service, vtest.AskFor(vtest.Ana), false).Quota,
					wait-later)
			})
			r.Want(name+": another", again, "Take ReadHistory")
			r.Sleep(wait - later)
			r.Want(name+": the next send", w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), true) }),
				"Take Begin")
		})
	}
}

// A failure keeps its age on a limiter's clock that is ahead. An admitted send finds nothing to
// rewrite, also if the clocks differ by half a second.
func TestAnAdmittedSendRewritesNothing(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		server.Step(time.Hour)
		r.Limiter.Set(server)
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		r.MailServer.Answer(nil)
		r.Sleep(time.Minute)
		r.Want("the failure's age", r.CountedFailures().Ages, time.Minute)
		w := watch(r)
		send := func() string { return w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), true) }) }
		r.Want("calls", send(), "Take Begin")
		server.Step(store.MaxClockSkew / 2)
		r.Want("calls after a step of half a second", send(), "Take Begin")
	})
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		r.LoseLimiter()
		r.SendTo(vtest.Ana)
		r.Sleep(2 * time.Second)
		r.Limiter.Around(nil)
		r.Sleep(10 * time.Second)
		server.Step(store.MaxClockSkew / 2)
		w := watch(r)
		r.Want("calls after a send without the limiter",
			w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), true) }), "Take Begin")
	})
}

// An event that counts from the database's instant, since the limiter's clock was set back, stays
// where it was rewritten.
func TestWhatWasRewrittenIsNotRewrittenForHalfASecond(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		w := watch(r)
		for _, c := range []struct {
			step time.Duration
			want string
		}{{-30 * time.Second, "Peek ReadHistory Events Record"}, {store.MaxClockSkew / 2, "Peek ReadHistory"}} {
			server.Step(c.step)
			r.Want("a look", w.during(func() { r.QuotaAt(w.Service) }), c.want)
			r.Sleep(gates.RewriteEvery)
		}
	})
}

// What has left by the database's clock is taken out of a limiter whose clock was set back, so that
// its place is free.
func TestWhatHasLeftByTheDatabaseIsTakenOut(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1,
		Window: time.Hour}), func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		server.Step(-10 * time.Minute)
		r.Sleep(time.Hour)
		r.SendTo(vtest.Ana)
	})
}

// A browser is told the wait by its own sends exactly, however slow the database is to tell them.
func TestASlowLookTellsOwnSends(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 2,
		Window: time.Hour}), func(r *vtest.Rig) {
		r.Sleep(17 * time.Second)
		first := r.SendTo(vtest.Ana, vtest.By(vtest.Browser))
		r.Sleep(9 * time.Minute)
		s := r.ReplicaOn(&lateLook{DB: r.Store, late: 3 * time.Second}, r.MailServer, r.Carrier)
		a := r.AskAt(s, vtest.AskFor(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(first.View.ID)), true)
		r.WantWait(a.Quota, time.Hour-9*time.Minute)
	})
}

// A limiter is filled also if a purpose has no rule on the recipient.
func TestRebuildWithoutARuleOnTheRecipient(t *testing.T) {
	without := func(s *vtest.Settings) {
		vtest.BoundFailures(s)
		p := s.Purposes["login"]
		p.Policy.Rules = quota.OfScope(p.Policy.Rules, quota.Failures)
		s.Purposes["login"] = p
	}
	vtest.InBubbleWith(t, without, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana, vtest.For("login"))
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		r.Rebuild()
		r.Want("counted", r.Counted().Rules[0].Used, 1)
	})
}

// A bucket is rewritten once a second at most, but at once if a send is refused that the database
// would admit.
func TestHowOftenABucketIsRewritten(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		r.Sleep(2 * time.Minute)
		w := watch(r)
		for _, want := range []string{"Peek ReadHistory Events Record", "Peek ReadHistory Events"} {
			r.EmptyLimiter()
			r.Want("a look", w.during(func() { r.QuotaAt(w.Service) }), want)
		}
		bucket := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)[quota.Recipient]
		r.NoError(r.Limiter.Record(r.Context(), bucket, 24*time.Hour,
			[]quota.Event{{ID: string(id[:]), At: time.Now()}}))
		r.Want("a send", w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), true) }),
			"Take ReadHistory Events Record Take Begin")
		r.Want("histories that the limiter lacked", w.Gates.EventLosses(), 1)
	})
}

// A send that is written after a look has read the rows is told, and stays in the limiter.
func TestALookTellsASendThatCameMeanwhile(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.EmptyLimiter()
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Events" {
				r.Limiter.Around(nil)
				r.AskAt(r.Replica(r.MailServer), vtest.AskFor(vtest.Ana), true)
			}
			return do()
		})
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[0 3]", time.Second)
		r.WantCounted("by the limiter", 2)
	})
}

// So does an admitted send, on a limiter's clock that is ahead.
func TestAnAdmittedSendTellsASendThatCameMeanwhile(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5,
		Window: time.Hour}), func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		server.Step(2 * time.Hour)
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		server.Flush()
		db := &interrupted{DB: r.Store, afterBegin: func() { r.SendTo(vtest.Ana) }}
		a := r.AskAt(r.ReplicaOn(db, r.MailServer, r.Carrier), vtest.AskFor(vtest.Ana), true)
		r.WantQuota("the answer", a.Quota, "[2]", 0)
		r.WantQuota("the limiter", r.Counted(), "[2]", 0)
	})
}

// A failure that came meanwhile counts from its end, as one that the look has read.
func TestALookTellsAFailureThatCameMeanwhile(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(1)
		r.EmptyLimiter()
		r.MailServer.Answer(func(ctx context.Context) error {
			<-time.After(time.Second)
			return vtest.NoMailbox(ctx)
		})
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Events" {
				r.Limiter.Around(nil)
				r.SendTo(vtest.Ana, vtest.Waiting(10*time.Second))
			}
			return do()
		})
		r.QuotaAt(r.Svc)
		r.Want("failures in the limiter", r.CountedFailures().Ages, time.Minute+time.Second)
	})
}

// An event whose row does not count in the bucket is taken out of it.
func TestWhatDoesNotCountInABucketIsTakenOut(t *testing.T) {
	rejected := func(to string) func(*vtest.Rig) uuid.UUID {
		return func(r *vtest.Rig) uuid.UUID {
			r.MailServer.Answer(vtest.NoMailbox)
			return r.SendID(to)
		}
	}
	id := func(r *vtest.Rig, options ...vtest.Option) uuid.UUID {
		return uuid.MustParse(r.SendTo(vtest.Ana, options...).View.Send.ID)
	}
	for name, c := range map[string]struct {
		scope quota.Scope
		send  func(*vtest.Rig) uuid.UUID
	}{
		"a send to another recipient": {quota.Recipient,
			func(r *vtest.Rig) uuid.UUID { return r.SendID("bob@example.com") }},
		"of another app": {quota.Recipient,
			func(r *vtest.Rig) uuid.UUID { return id(r, vtest.InApp("other")) }},
		"for another purpose": {quota.Recipient,
			func(r *vtest.Rig) uuid.UUID { return id(r, vtest.For("login")) }},
		"a refunded one":           {quota.Recipient, rejected(vtest.Ana)},
		"a failure of another":     {quota.Failures, rejected("bob@example.com")},
		"a send that did not fail": {quota.Failures, func(r *vtest.Rig) uuid.UUID { return id(r) }},
		"one that failed for its age": {quota.Failures, func(r *vtest.Rig) uuid.UUID {
			r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 450, "4.2.0"))
			a := r.SendTo(vtest.Ana)
			r.Cancel(a.View.ID)
			r.Sleep(time.Minute)
			r.Want("its state", r.Get(a.View.ID).Send.Status, store.Failed)
			return uuid.MustParse(a.View.Send.ID)
		}},
		"a failure before a reset": {quota.Failures, func(r *vtest.Rig) uuid.UUID {
			id := rejected(vtest.Ana)(r)
			r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
			return id
		}},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
				id := c.send(r)
				r.EmptyLimiter()
				bucket := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)[c.scope]
				r.NoError(r.Limiter.Record(r.Context(), bucket, time.Hour,
					[]quota.Event{{ID: string(id[:]), At: time.Now()}}))
				r.QuotaAt(r.Replica(r.MailServer))
				events, _, err := r.Limiter.Events(r.Context(), bucket)
				r.NoError(err)
				r.Want("events of the bucket", len(events), 0)
			})
		})
	}
}

// A process whose refund the limiter lost does not count that place, however slow the database was
// to admit the next send.
func TestASlowDatabaseBringsNoRefundedPlaceBack(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		server.Flush()
		slow := &interrupted{DB: r.Store}
		s := r.ReplicaOn(slow, r.MailServer, r.Carrier)
		r.AskAt(s, vtest.AskFor(vtest.Ana), false)
		server.FailOver(2) // the refund and the database's history
		r.Sleep(time.Minute)
		slow.beforeBegin = func() { r.Sleep(3 * time.Second) }
		for n := range 20_000 { // others meanwhile
			r.NoError(s.Gates.RefundLocal(r.Context(), fmt.Sprint(n), "other"))
		}
		r.WantQuota("a send", r.AskAt(s, vtest.AskFor(vtest.Ana), true).Quota, "[0 3 8]", time.Minute)
	})
}

// silentLook is a database that answers no look.
type silentLook struct{ *sqlitetest.DB }

func (silentLook) ReadHistory(ctx context.Context, _ gate.HistoryQuery) (gate.History, error) {
	<-ctx.Done()
	return gate.History{}, fault.Unavailable
}

// A refusal waits for the database no longer than any call does.
func TestARefusalWaitsForASilentDatabase(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		began := time.Now()
		_, err := r.ReplicaOn(silentLook{r.Store}, r.MailServer, r.Carrier).Send(r.Context(), vtest.AskFor(vtest.Ana))
		r.WantError(err, fault.Unavailable)
		r.Want("it took", time.Since(began), store.CallTimeout)
	})
}

// slowRows is a database that finds sends by their IDs so late.
type slowRows struct {
	*sqlitetest.DB
	late time.Duration
}

func (s slowRows) SendsByID(ctx context.Context, ids []uuid.UUID) ([]store.SendOrRefusal, error) {
	select {
	case <-ctx.Done():
		return nil, fault.Unavailable
	case <-time.After(s.late):
		return s.DB.SendsByID(ctx, ids)
	}
}

// A comparison waits for the database as long as any call does, and for each call of the limiter as
// long as that may take.
func TestAComparisonWaitsForBothGates(t *testing.T) {
	rule := vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 2, Window: time.Hour})
	vtest.InBubbleWith(t, rule, func(r *vtest.Rig) {
		ask := func(late time.Duration, admitted bool) (took time.Duration) {
			began := time.Now()
			r.AskAt(r.ReplicaOn(slowRows{r.Store, late}, r.MailServer, r.Carrier), vtest.AskFor(vtest.Ana), admitted)
			return time.Since(began)
		}
		before := time.Now()
		r.SendTo(vtest.Ana)
		r.NoError(r.Store.SetBack(before)) // so that the limiter alone has the send
		r.Want("an admitted send took", ask(time.Hour, true), store.CallTimeout)
		r.Want("a refusal took", ask(4*time.Second, false), 4*time.Second)
		for _, stalls := range []string{"Events", "Record", "Refund"} {
			r.EmptyLimiter()
			r.NoError(r.Svc.Gates.RefundLocal(r.Context(), stalls))
			bucket := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)[quota.Recipient]
			r.NoError(r.Limiter.Record(r.Context(), bucket, time.Hour,
				[]quota.Event{{ID: stalls, At: time.Now().Add(-time.Second)}}))
			r.Limiter.Around(func(ctx context.Context, call string, do func() error) error {
				if call == stalls {
					<-ctx.Done()
					return quota.ErrUnavailable
				}
				return do()
			})
			began := time.Now()
			r.QuotaAt(r.Svc)
			r.Want("a look at a limiter whose "+stalls+" stalls took", time.Since(began), gates.LimiterTimeout)
			r.Limiter.Around(nil)
			r.Sleep(time.Second)
		}
	})
}

// An ID that is counted again after its refund counts.
func TestARefundedIDThatIsCountedAgainIsTold(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		id := uuid.NewString()[:16]
		r.NoError(r.Svc.Gates.RefundLocal(r.Context(), id))
		r.Sleep(time.Second)
		bucket := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)[quota.Recipient]
		r.NoError(r.Limiter.Record(r.Context(), bucket, 24*time.Hour, []quota.Event{{ID: id, At: time.Now()}}))
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[0 4 9]", time.Minute)
	})
}

// What was reset does not come back with a limiter that loses the reset, also if the database has
// lost the row.
func TestWhatWasResetStaysAway(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		began := time.Now()
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.NoError(r.Store.SetBack(began))
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		server.FailOver(1)
		r.WantCounted("after the failover", 1)
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[1 5 10]", 0)
	})
}

// If a limiter that knows of more does not tell its events, the longer wait is told.
func TestTheLongerWaitIsToldIfTheEventsAreNotRead(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		began := time.Now()
		r.SendTo(vtest.Ana)
		r.NoError(r.Store.SetBack(began))
		r.Limiter.Around(vtest.Unreachable("Events"))
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[0 4 9]", time.Minute)
	})
}

// Of more than 16 events the ages are not summed: then the waits tell whether the buckets differ.
func TestManyEventsAreComparedByTheirWaits(t *testing.T) {
	for limit, wait := range map[int]time.Duration{20: 0, 17: time.Hour - time.Minute} {
		vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: limit,
			Window: time.Hour}), func(r *vtest.Rig) {
			server := vtest.NewFakeRedis("redis")
			r.Limiter.Set(server)
			for range 17 {
				r.SendTo(vtest.Ana)
			}
			r.Sleep(time.Minute)
			server.Step(time.Minute)
			w := watch(r)
			for _, want := range []string{"Peek ReadHistory Events Record", "Peek ReadHistory"} {
				r.Want("a look", w.during(func() { r.WantWait(r.QuotaAt(w.Service), wait) }), want)
			}
		})
	}
}

var hourlyFailures = quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 9, Window: time.Hour}

// Refusals that wait for a read share the next one if they need the same rows, and are of callers
// of one class.
func TestRefusalsThatShareARead(t *testing.T) {
	purposes := func(s *vtest.Settings) {
		like := s.Purposes["default"]
		add := func(name string, shares []string, rules ...quota.Rule) {
			p := like
			p.Name, p.Shares, p.Policy.Rules = name, shares, append(slices.Clone(like.Policy.Rules), rules...)
			s.Purposes[name] = p
		}
		add("default", like.Shares, hourlyFailures)
		add("bare", like.Shares)
		add("apart", []string{"apart"}, hourlyFailures)
		add("longer", like.Shares, hourlyFailures,
			quota.Rule{Name: "week", Scope: quota.Recipient, Limit: 99, Window: 7 * 24 * time.Hour})
	}
	for name, c := range map[string]struct {
		other vtest.Option
		reads int
	}{
		"the same":       {vtest.For("default"), 2},
		"another window": {vtest.For("longer"), 3},
		"no failures":    {vtest.For("bare"), 3},
		"other purposes": {vtest.For("apart"), 3},
		"a stranger":     {vtest.By(vtest.Browser), 3},
	} {
		vtest.InBubbleWith(t, purposes, func(r *vtest.Rig) {
			r.SendTo(vtest.Ana)
			db := &lateLook{DB: r.Store, late: 100 * time.Millisecond}
			s := r.ReplicaOn(db, r.MailServer, r.Carrier)
			var refused sync.WaitGroup
			for _, option := range []vtest.Option{vtest.For("default"), vtest.For("default"), c.other} {
				refused.Go(func() { r.NoError(vtest.Err(s.Send(r.Context(), vtest.AskFor(vtest.Ana, option)))) })
				r.Sleep(time.Millisecond)
			}
			refused.Wait()
			r.Want(name+": reads", db.looks.Load(), c.reads)
		})
	}
}

// What only the limiter has is compared again after 250 ms, and at once when this process has taken
// an event out.
func TestWhatOnlyTheLimiterHasIsForgotten(t *testing.T) {
	vtest.InBubbleWith(t, vtest.AlsoRules(hourlyFailures), func(r *vtest.Rig) {
		w, sent := watch(r), time.Now()
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second) // the send is no longer between the gates
		r.NoError(r.Store.SetBack(sent))
		refuse := func(when, want string) {
			t.Helper()
			r.Want(when, w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), false) }), want)
		}
		// rows are read by a statement for sends, and one for failures
		const known, compared = "Take ReadHistory ReadHistory", "Take ReadHistory ReadHistory Events"
		refuse("a refusal", compared)
		refuse("another", known)
		r.Sleep(250 * time.Millisecond)
		refuse("later", compared)
		refuse("another", known)
		all := vtest.BucketsOf(w.Terms().Purposes["default"], r.Person().Recipient)
		for _, scope := range []quota.Scope{quota.Recipient, quota.Failures} {
			r.NoError(w.Gates.RefundLocal(r.Context(), "another", all[scope]))
			refuse("after a refund", compared)
			refuse("another", known)
		}
		r.NoError(w.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.SendTo(vtest.Ana)
		sent = time.Now()
		a := r.AskAt(w.Service, vtest.AskFor(vtest.Ana), false)
		r.WantQuota("after a reset and a send", a.Quota, "[0 4 9]", time.Minute-time.Since(sent))
	})
}

// A send that the limiter admitted after it lost its data, and that the database has not refused
// yet, may be told to a request beside it; but not to one that comes after its refusal.
func TestASendBetweenTheGatesIsNotRemembered(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		other := r.Replica(r.MailServer)
		r.SendTo(vtest.Ana)
		r.Sleep(500 * time.Millisecond)
		r.EmptyLimiter()
		s := r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() {
			r.AskAt(other, vtest.AskFor(vtest.Ana), false)
			r.Sleep(100 * time.Millisecond)
		}}, r.MailServer, r.Carrier)
		r.AskAt(s, vtest.AskFor(vtest.Ana), false)
		a := r.AskAt(other, vtest.AskFor(vtest.Ana), false)
		r.WantQuota("after the refusal by the database", a.Quota, "[0 4]", 400*time.Millisecond)
	})
}

// A send of another replica that a refusal looked up by its ID, since the remembered rows lacked
// it, counts once when the rows are read again.
func TestASendOfAnotherReplicaCountsOnce(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		other, began := r.Replica(r.MailServer), time.Now()
		r.SendTo(vtest.Ana)
		r.Sleep(900 * time.Millisecond)
		r.AskAt(other, vtest.AskFor(vtest.Ana), false)
		r.Sleep(100 * time.Millisecond)
		r.SendTo(vtest.Ana)
		for range 5 {
			r.Sleep(50 * time.Millisecond)
			r.WantQuota("a refusal", r.AskAt(other, vtest.AskFor(vtest.Ana), false).Quota, "[0 3]",
				2*time.Second-time.Since(began))
		}
	})
}

// A refusal tells every send that was answered before it began, also where the limiter has lost it,
// and rows without it were read a moment ago or are being read.
func TestARefusalTellsWhatWasAnsweredBefore(t *testing.T) {
	rules := vtest.WithRules(append(slices.Clone(secondAndHourRules),
		quota.Rule{Name: "net", Scope: quota.IP, Limit: 2, Window: time.Minute})...)
	apart := vtest.From(netip.MustParseAddr("192.0.2.77"))
	readLasts := map[string]time.Duration{"read before": 0, "being read": 200 * time.Millisecond}
	vtest.EachInBubble(t, readLasts, rules, func(r *vtest.Rig, lasts time.Duration) {
		r.SendTo(vtest.Ana, apart)
		r.Sleep(950 * time.Millisecond)
		other := r.ReplicaOn(&lateLook{DB: r.Store, after: lasts}, r.MailServer, r.Carrier)
		var read sync.WaitGroup
		read.Go(func() { r.AskAt(other, vtest.AskFor(vtest.Ana, apart), false) })
		r.Sleep(50 * time.Millisecond)
		r.SendTo(vtest.Ana, apart)
		r.EmptyLimiter()
		r.SendTo("bob@example.com")
		r.SendTo("eve@example.com")
		began := time.Now()
		a := r.AskAt(other, vtest.AskFor(vtest.Ana), false)
		r.WantQuota("a refusal", a.Quota, "[0 3 0]", time.Minute-time.Since(began))
		read.Wait()
	})
}

// An admitted send is told what the database counts, also if the limiter has lost that and the two
// cannot be compared.
func TestAnAdmittedSendTellsTheRowsIfNothingCanBeCompared(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		for range 2 {
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		r.EmptyLimiter()
		bucket := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)[quota.Recipient]
		unknown := uuid.New()
		r.NoError(r.Limiter.Record(r.Context(), bucket, time.Hour,
			[]quota.Event{{ID: string(unknown[:]), At: time.Now().Add(-time.Minute)}}))
		db := r.Store.Replica()
		db.SetFault(func(method string) sqlitetest.Fault {
			if method == "SendsByID" {
				return sqlitetest.Down
			}
			return sqlitetest.None
		})
		a := r.AskAt(r.ReplicaOn(db, r.MailServer, r.Carrier), vtest.AskFor(vtest.Ana), true)
		r.WantQuota("the third", a.Quota, "[0 2]", time.Second)
	})
}
