package gates_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"sendcode/internal/policy"
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
		s := rig.NewServer()
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

// While nothing is lost, a send costs one call of each gate, and of the looks at a recipient only the first asks the log.
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
		expect("a look after it", "peek")
	})
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
