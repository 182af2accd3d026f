package gates_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
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

// While nothing is lost, a send costs one call of each gate, and of the looks at a recipient only the first asks the log,
// once there is a send.
func TestQuota11NothingIsAskedTwiceWhileNothingIsLost(t *testing.T) {
	parts := func(r *vtest.Rig) (*vtest.Service, *[]string) {
		var calls []string
		log := r.Store.Replica()
		log.SetFault(func(method string) sqlite.Fault {
			if slices.Contains([]string{"Begin", "History", "HistoryAt", "Rejected"}, method) {
				calls = append(calls, method)
			}
			return sqlite.None
		})
		s := r.ReplicaOn(log, r.MailServer, r.Carrier)
		s.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			calls = append(calls, call)
			return do()
		})
		return s, &calls
	}
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		s, calls := parts(r)
		expect := func(what string, want ...string) {
			t.Helper()
			if !slices.Equal(*calls, want) {
				t.Errorf("%s: %v, want %v", what, *calls, want)
			}
			*calls = nil
		}
		send := func() string {
			t.Helper()
			a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
			if err != nil || !a.Admitted {
				t.Fatalf("%v %+v", err, a)
			}
			r.Sleep(time.Second)
			return a.View.ID
		}
		id := send()
		expect("the first send", "Take", "Begin")
		look := func() {
			if _, err := s.Get(r.Context(), vtest.BackEnd, id); err != nil {
				t.Fatal(err)
			}
		}
		look()
		expect("the first look", "Peek", "HistoryAt", "Restore", "Peek")
		for range 3 {
			look()
			r.QuotaAt(s)
			expect("looks", "Peek", "Peek")
			send()
			expect("sends", "Take", "Begin")
		}
		send()
		expect("the last one", "Take", "Begin")
		if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		expect("a refusal", "Take")
		r.EmptyLimiter()
		look()
		expect("a look after a flush", "Peek", "HistoryAt", "Restore", "Peek")
		look()
		expect("a look after it, as another send may be lost as well", "Peek", "HistoryAt", "Restore", "Peek")
		r.Sleep(gates.DoubtFor)
		look()
		expect("a look when such a send has ended", "Peek", "HistoryAt", "Restore", "Peek")
		look()
		expect("a look after that", "Peek")
	})
}

// interrupted is a log that calls beforeBegin before its first Begin.
type interrupted struct {
	*sqlite.DB
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
			r.Sleep(gates.DoubtFor)
			r.WantQuota("when nothing is in doubt", r.QuotaAt(r.Svc), fmt.Sprintf("[1 %d]", 4-earlier), 0)
			r.WantCounted("at the end", 1+earlier)
		})
	}
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
				r.Sleep(gates.DoubtFor)
				r.QuotaAt(r.Svc)
			}()
			return do()
		})
		if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		r.WantCounted("after the send", 2)
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[1 3]", 0)
	})
}

// If the limiter does not take the history, the answer is the log's.
func TestQuota11AnswersAreTrueWhereTheLimiterLearnsNothing(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.EmptyLimiter()
		r.Limiter.Around(vtest.Unreachable("Record", "Restore"))
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[1 4]", 0)
		r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[0 3]", time.Second)
	})
}

// A limiter that lost its events is rebuilt; it is not for a recipient that it never had, or that it kept.
func TestRebuildsAreCounted(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		want := func(when string, n int64) {
			t.Helper()
			if got := r.Svc.Rebuilder.Rebuilds(); got != n {
				t.Errorf("%s: %d rebuilds, want %d", when, got, n)
			}
		}
		for range 3 {
			r.QuotaAt(r.Svc)
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		want("nothing was lost", 0)
		r.EmptyLimiter()
		r.QuotaAt(r.Svc)
		want("a look after a flush", 1)
		r.QuotaAt(r.Svc)
		want("another look", 1)
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		want("a send after a flush", 2)
	})
}
