package gates_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// secondAndHour are rules of 1 a second and 5 in a long window.
func secondAndHour(window time.Duration) func(*vtest.Settings) {
	return func(s *vtest.Settings) { s.Purposes = withWindow(s.Purposes, window) }
}

func withWindow(purposes map[string]policy.Purpose, window time.Duration) map[string]policy.Purpose {
	changed := maps.Clone(purposes)
	for name, p := range changed {
		p.Policy.Rules = []quota.Rule{
			{Name: "second", Scope: quota.Recipient, Limit: 1, Window: time.Second},
			{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: window},
		}
		changed[name] = p
	}
	return changed
}

func TestQuota11EveryAnswerIsTrueAfterAFlush(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
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
	vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
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

// between is a log that another request comes in between: before a Begin, or after a history was read.
type between struct {
	*sqlite.DB
	beforeBegin, afterHistory func()
}

func (b *between) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	once(&b.beforeBegin)
	return b.DB.Begin(ctx, in)
}

func (b *between) HistoryAt(ctx context.Context, bucket store.Bucket, within time.Duration, clock string,
	at time.Time) ([]quota.Event, time.Time, error) {
	defer once(&b.afterHistory)
	return b.DB.HistoryAt(ctx, bucket, within, clock, at)
}

func once(do *func()) {
	if f := *do; f != nil {
		*do = nil
		f()
	}
}

// A flush between the gates takes the send that is there, and looks restore a history that does not have it.
func TestLooksAreTrueAfterAFlushBetweenTheGates(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
			for range earlier {
				r.SendTo(vtest.Ana)
				r.Sleep(time.Second)
			}
			log := &between{DB: r.Store}
			s := r.ReplicaOn(log, r.MailServer, r.Carrier)
			log.beforeBegin = func() {
				r.EmptyLimiter()
				r.QuotaAt(r.Svc)
				r.QuotaAt(r.Svc)
			}
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
	vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
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

// A look restores a history that it read before a send was logged and the limiter flushed.
func TestLooksAreTrueAfterALateRestore(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
			for range earlier {
				r.SendTo(vtest.Ana)
				r.Sleep(time.Second)
			}
			log := &between{DB: r.Store}
			s := r.ReplicaOn(log, r.MailServer, r.Carrier)
			log.afterHistory = func() {
				r.SendTo(vtest.Ana)
				r.EmptyLimiter()
			}
			r.QuotaAt(s)
			left := fmt.Sprintf("[0 %d]", 4-earlier)
			r.WantQuota("just after the look", r.QuotaAt(r.Svc), left, time.Second)
			r.WantQuota("at the other replica", r.QuotaAt(s), left, time.Second)
		})
	}
}

// If the limiter does not take the history, the answer is the log's.
func TestQuota11AnswersAreTrueWhereTheLimiterLearnsNothing(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
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
	vtest.InBubbleWith(t, secondAndHour(time.Hour), func(r *vtest.Rig) {
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
