package gates_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

var secondAndHour = vtest.WithRules(
	quota.Rule{Name: "second", Scope: quota.Recipient, Limit: 1, Window: time.Second},
	quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
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

// While nothing is lost, a send and a look cost one call of each gate, and nothing is written by a look.
func TestQuota11NothingIsAskedTwiceWhileNothingIsLost(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		var calls []string
		log := r.Store.Replica()
		log.SetFault(func(method string) sqlitetest.Fault {
			if slices.Contains([]string{"Begin", "Look"}, method) {
				calls = append(calls, method)
			}
			return sqlitetest.None
		})
		s := r.ReplicaOn(log, r.MailServer, r.Carrier)
		s.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			calls = append(calls, call)
			return do()
		})
		id := ""
		send := func() bool {
			a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
			if a.Admitted {
				r.Sleep(time.Second)
				id = a.View.ID
			}
			return a.Admitted
		}
		look := func() bool { _, err := s.Get(r.Context(), vtest.BackEnd, id); return err == nil }
		flush := func() bool { r.EmptyLimiter(); return true }
		const mended = "Peek Look Events Record"
		for i, step := range []struct {
			do   func() bool
			want string
		}{
			{send, "Take Begin"}, {look, "Peek Look"}, {look, "Peek Look"}, {send, "Take Begin"}, {look, "Peek Look"}, {send, "Take Begin"},
			{look, "Peek Look"}, {send, "Take Begin"}, {send, "Take Begin"}, {func() bool { return !send() }, "Take Look"}, // the hour is full
			{func() bool { return !send() }, "Take"}, // the rows are remembered
			{flush, ""}, {look, mended}, {look, "Peek Look"},
		} {
			calls = nil
			if ok := step.do(); !ok || strings.Join(calls, " ") != step.want {
				t.Errorf("step %d: %v, %v; want %s", i, ok, calls, step.want)
			}
		}
	})
}

// interrupted is a database that calls beforeBegin before its first Begin.
type interrupted struct {
	*sqlitetest.DB
	beforeBegin func()
}

func (l *interrupted) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	if do := l.beforeBegin; do != nil {
		l.beforeBegin = nil
		do()
	}
	return l.DB.Begin(ctx, in)
}

// A flush between the gates takes the send that is there, and looks restore a history that does not have it.
func TestLooksAreTrueAfterAFlushBetweenTheGates(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
			for range earlier {
				r.SendTo(vtest.Ana)
				r.Sleep(time.Second)
			}
			s := r.ReplicaOn(&interrupted{r.Store, func() {
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
			s := r.ReplicaOn(&interrupted{r.Store, func() { r.WantQuota("a look between the gates", r.QuotaAt(r.Svc), "[3]", 0) }},
				r.MailServer, r.Carrier)
			r.NoError(vtest.Err(s.Send(r.Context(), vtest.AskFor(vtest.Ana))))
		})
	}
}

// The database was slow and counts the send from a later instant than the limiter did, which may have lost it meanwhile. What both
// count from then on is the database's instant.
func TestTheWaitIsTrueAfterASlowDatabase(t *testing.T) {
	for _, lost := range []bool{false, true} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			s := r.ReplicaOn(&interrupted{r.Store, func() {
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

// A process that was frozen between the gates tells the limiter of its send: the bucket was marked meanwhile.
func TestLooksAreTrueAfterAProcessWasFrozenBetweenTheGates(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		s := r.ReplicaOn(r.Store, r.MailServer, r.Carrier)
		s.Limiter.Around(func(_ context.Context, _ string, do func() error) error { // the Take
			s.Limiter.Around(nil)
			defer func() {
				r.EmptyLimiter()
				r.QuotaAt(r.Svc)
				r.Sleep(10 * time.Second)
				r.QuotaAt(r.Svc)
			}()
			return do()
		})
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
		r.Limiter.Around(vtest.Unreachable("Refund")) // so the first send keeps its place, which is then the only one that the limiter has
		r.FailStore(sqlitetest.Down, "Begin", "Look")
		for range 2 {
			r.WantError(vtest.Err(r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))), fault.Unavailable)
		}
		r.MendStore()
		r.Limiter.Around(nil)
		r.Sleep(2 * time.Second)
		r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[0 1]", time.Second)
	})
}

// A limiter that lost its events is rebuilt; it is not for a recipient that it never had, or that it kept.
func TestRebuildsAreCounted(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		var counts []int64
		count := func() { counts = append(counts, r.Svc.Rebuilder.Rebuilds()) }
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

// A gate that is slow, or that did not answer, has lost nothing: no rebuild is counted, since an alert says that the limiter loses events.
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
			return r.ReplicaOn(&interrupted{r.Store, func() { r.Sleep(3 * time.Second) }}, r.MailServer, r.Carrier)
		},
		"the limiter, at times": func(r *vtest.Rig) *vtest.Service { // the database counts what the limiter does not know
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
			if n := s.Rebuilder.Rebuilds(); n != 0 {
				t.Errorf("%s is slow: %d rebuilds are counted", name, n)
			}
		})
	}
}

// Two purposes have policies of their own; for five seconds a mistake maps one to the other's. Its sends count there while it lasts, and no
// longer; so it is where a replica still has the file with the mistake, at the cost of a query a look.
func TestAPolicyMistakeThatIsUndoneCostsNothing(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 3, Window: time.Hour}), func(r *vtest.Rig) {
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
		send(other, "login") // by the right file: counts where r.Svc does not look for the purpose gift, and its bucket stays marked
		right(r.Svc)
		look(r.Svc, "after a send", "login", "[1]", 0)
	})
}

// A limiter that was stalled runs the Take of a send late that the database admitted alone: it counts from the instant in the database.
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

// A flood of refused requests reads the rows four times a second, and once for those that come together; a look always reads. It is told the
// same as if each had read. What this process changes is noticed at once.
func TestAFloodOfRefusalsReadsFewRows(t *testing.T) {
	for _, only := range []bool{false, true} { // an event that only the limiter has
		vtest.InBubble(t, func(r *vtest.Rig) {
			reads := map[string]int{}
			log := r.Store.Replica()
			log.SetFault(func(method string) sqlitetest.Fault { reads[method]++; return sqlitetest.None })
			s := r.ReplicaOn(log, r.MailServer, r.Carrier)
			sent := time.Now()
			_, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
			r.Sleep(time.Second)
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
			for range 100 {
				refuse()
				r.Sleep(10 * time.Millisecond)
			}
			r.Want("reads in a second", reads["Look"], 4)
			if reads["SendsByID"] > 4 {
				t.Errorf("rows of events were read %d times", reads["SendsByID"])
			}
			for range 3 {
				_, err := s.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
				r.NoError(err)
			}
			r.Want("reads with three looks", reads["Look"], 7)
			refuse()
			r.NoError(s.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
			if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
				t.Errorf("after a reset: %v %+v", err, a.Quota)
			}
		})
	}
}
