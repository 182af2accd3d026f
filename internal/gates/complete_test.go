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
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

// secondAndHour are rules of 1 a second and 5 in a long window.
func secondAndHour(window time.Duration) func(*rig.Settings) {
	return func(s *rig.Settings) { s.Purposes = withWindow(s.Purposes, window) }
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
	rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
		other := r.Replica(r.Post)
		for range 3 {
			r.Send(rig.AskFor(rig.Ana))
			rig.Waited(time.Second)
		}
		r.Find()
		r.Says("a look on the other replica", r.Looked(other), "[1 2]", 0)
		r.Holds("after the look", 3)
		r.Find()
		r.Says("the 4th", r.Send(rig.AskFor(rig.Ana)).Quota, "[0 1]", time.Second)
		r.Holds("after the 4th", 4)
		rig.Waited(time.Second)
		r.Find()
		a := r.Send(rig.AskFor(rig.Ana))
		r.Says("the 5th", a.Quota, "[0 0]", time.Hour-4*time.Second)
		r.Holds("after the 5th", 5)
		r.Find()
		got, err := other.Get(r.Context(), rig.BackEnd, a.View.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Says("GET", got.Quota, "[0 0]", time.Hour-4*time.Second)
		rig.Waited(time.Hour - 4*time.Second)
		r.Says("at the end of the wait", r.Send(rig.AskFor(rig.Ana)).Quota, "[0 0]", time.Second)
	})
}

func TestQuota17EveryAnswerIsTrueWithALongerWindow(t *testing.T) {
	rig.InBubbleWith(t, secondAndHour(10*time.Second), func(r *rig.Rig) {
		for range 3 {
			r.Send(rig.AskFor(rig.Ana))
			rig.Waited(time.Second)
		}
		r.Looked(r.Svc)
		rig.Waited(10 * time.Second)
		r.Send(rig.AskFor(rig.Ana)) // which drops what the short window counts no more
		rig.Waited(time.Second)
		longer := r.Svc.Terms()
		longer.Purposes = withWindow(longer.Purposes, time.Hour)
		r.Svc.Change(longer)
		r.Says("a look", r.Looked(r.Svc), "[1 1]", 0)
		r.Says("the 5th", r.Send(rig.AskFor(rig.Ana)).Quota, "[0 0]", time.Hour-14*time.Second)
	})
}

// A failover may leave some events: the refusal that they bring about is told as the log has it.
func TestQuota11ARefusalIsTrueAfterAFailover(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		s := rig.NewServer("process")
		r.Limiter.Set(s)
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(rig.Minute)
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(30 * time.Second)
		s.FailOver(1)
		rig.Waited(29 * time.Second)
		r.Says("a refusal", r.Refuse(rig.AskFor(rig.Ana)).Quota, "[0 3 8]", time.Second)
	})
}

// While nothing is lost, a send costs one call of each gate, and of the looks at a recipient only the first asks the log,
// once there is a send.
func TestQuota11NothingIsAskedTwiceWhileNothingIsLost(t *testing.T) {
	parts := func(r *rig.Rig) (*rig.Service, *[]string) {
		var calls []string
		s := r.ReplicaOn(rig.CountedLog{Away: r.Store, Calls: &calls}, r.Post, r.Handset)
		s.Limiter.Set(rig.Counted{Limiter: r.Limiter, Calls: &calls})
		return s, &calls
	}
	rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
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
			a, err := s.Send(r.Context(), rig.AskFor(rig.Ana))
			if err != nil || !a.Admitted {
				t.Fatalf("%v %+v", err, a)
			}
			rig.Waited(time.Second)
			return a.View.ID
		}
		id := send()
		expect("the first send", "take", "begin")
		look := func() {
			if _, err := s.Get(r.Context(), rig.BackEnd, id); err != nil {
				t.Fatal(err)
			}
		}
		look()
		expect("the first look", "peek", "history", "restore 1", "peek")
		for range 3 {
			look()
			r.Looked(s)
			expect("looks", "peek", "peek")
			send()
			expect("sends", "take", "begin")
		}
		send()
		expect("the last one", "take", "begin")
		if a, err := s.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		expect("a refusal", "take")
		r.Find()
		look()
		expect("a look after a flush", "peek", "history", "restore 5", "peek")
		look()
		expect("a look after it, as another send may be lost as well", "peek", "history", "restore 5", "peek")
		rig.Waited(gates.DoubtFor)
		look()
		expect("a look when such a send has ended", "peek", "history", "restore 5", "peek")
		look()
		expect("a look after that", "peek")
	})
}

// between is a log that another request comes in between: before a Begin, or after a history was read.
type between struct {
	*rig.Away
	beforeBegin, afterHistory func()
}

func (b *between) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	once(&b.beforeBegin)
	return b.Away.Begin(ctx, in)
}

func (b *between) HistoryAt(ctx context.Context, bucket store.Bucket, within time.Duration, clock string,
	at time.Time) ([]quota.Event, time.Time, error) {
	defer once(&b.afterHistory)
	return b.Away.HistoryAt(ctx, bucket, within, clock, at)
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
		rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
			for range earlier {
				r.Send(rig.AskFor(rig.Ana))
				rig.Waited(time.Second)
			}
			log := &between{Away: r.Store}
			s := r.ReplicaOn(log, r.Post, r.Handset)
			log.beforeBegin = func() {
				r.Find()
				r.Looked(r.Svc)
				r.Looked(r.Svc)
			}
			if a, err := s.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
				t.Fatalf("%v %+v", err, a)
			}
			left := fmt.Sprintf("[0 %d]", 4-earlier)
			r.Says("just after the send", r.Looked(r.Svc), left, time.Second)
			rig.Waited(time.Second / 2)
			r.Says("half a second later", r.Looked(r.Svc), left, time.Second/2)
			rig.Waited(gates.DoubtFor)
			r.Says("when nothing is in doubt", r.Looked(r.Svc), fmt.Sprintf("[1 %d]", 4-earlier), 0)
			r.Holds("at the end", 1+earlier)
		})
	}
}

// frozen is a limiter whose caller is frozen when it has been answered.
type frozen struct {
	gates.Limiter
	meanwhile func()
}

func (f *frozen) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := f.Limiter.Take(ctx, r)
	once(&f.meanwhile)
	return d, err
}

// A process that was frozen between the gates tells the limiter of its send: the bucket was marked meanwhile.
func TestLooksAreTrueAfterAProcessWasFrozenBetweenTheGates(t *testing.T) {
	rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(time.Second)
		s := r.ReplicaOn(r.Store, r.Post, r.Handset)
		s.Limiter.Set(&frozen{r.Limiter, func() {
			r.Find()
			r.Looked(r.Svc)
			rig.Waited(gates.DoubtFor)
			r.Looked(r.Svc)
		}})
		if a, err := s.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		r.Holds("after the send", 2)
		r.Says("a look", r.Looked(r.Svc), "[1 3]", 0)
	})
}

// A look restores a history that it read before a send was logged and the limiter flushed.
func TestLooksAreTrueAfterALateRestore(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
			for range earlier {
				r.Send(rig.AskFor(rig.Ana))
				rig.Waited(time.Second)
			}
			log := &between{Away: r.Store}
			s := r.ReplicaOn(log, r.Post, r.Handset)
			log.afterHistory = func() {
				r.Send(rig.AskFor(rig.Ana))
				r.Find()
			}
			r.Looked(s)
			left := fmt.Sprintf("[0 %d]", 4-earlier)
			r.Says("just after the look", r.Looked(r.Svc), left, time.Second)
			r.Says("at the other replica", r.Looked(s), left, time.Second)
		})
	}
}

// Where the limiter can't be taught, the log's words are the answer.
func TestQuota11AnswersAreTrueWhereTheLimiterLearnsNothing(t *testing.T) {
	rig.InBubbleWith(t, secondAndHour(time.Hour), func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(time.Second)
		r.Limiter.Set(rig.Unteachable{Memory: quota.NewMemory(time.Now, "process")})
		r.Says("a look", r.Looked(r.Svc), "[1 4]", 0)
		r.Says("a send", r.Send(rig.AskFor(rig.Ana)).Quota, "[0 3]", time.Second)
	})
}
