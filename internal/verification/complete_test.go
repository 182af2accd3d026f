package verification

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sendcode/quota"
)

// secondAndHour are rules of 1 a second and 5 in a long window.
func secondAndHour(window time.Duration) func(*Settings) {
	return func(s *Settings) { s.Purposes = withWindow(s.Purposes, window) }
}

func withWindow(purposes map[string]Purpose, window time.Duration) map[string]Purpose {
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

// left is what is told to be left of each rule.
func left(d quota.Decision) string {
	var all []int
	for _, s := range d.Rules {
		all = append(all, s.Remaining())
	}
	return fmt.Sprint(all)
}

// says fails the test unless so much of each rule is left, and the wait is so long.
func (r *rig) says(what string, d quota.Decision, want string, wait time.Duration) {
	r.Helper()
	if left(d) != want || d.RetryAfter() != wait {
		r.Errorf("%s: %s left, wait %v; want %s, %v", what, left(d), d.RetryAfter(), want, wait)
	}
}

func (r *rig) looked(s *Service) quota.Decision {
	r.Helper()
	a, err := s.Quota(r.Context(), backEnd, "email", ana, "")
	if err != nil {
		r.Fatal(err)
	}
	return a.Quota
}

// holds fails the test unless the limiter itself counts so many events of the hour.
func (r *rig) holds(when string, want int) {
	r.Helper()
	p := r.svc.Terms().Purposes["default"]
	h, _ := r.svc.Hash("email", ana)
	d, err := r.limiter.Peek(r.Context(), quota.Request{Rules: p.Policy.Rules, Buckets: buckets(backEnd, "email", area{}, p, h)})
	if err != nil || d.Rules[1].Used != want {
		r.Errorf("%s: the limiter has %+v, %v; want %d", when, d.Rules, err, want)
	}
}

func TestQuota11EveryAnswerIsTrueAfterAFlush(t *testing.T) {
	inBubbleWith(t, secondAndHour(time.Hour), func(r *rig) {
		other := r.replica(r.post)
		for range 3 {
			r.send(askFor(ana))
			waited(time.Second)
		}
		r.find()
		r.says("a look on the other replica", r.looked(other), "[1 2]", 0)
		r.holds("after the look", 3)
		r.find()
		r.says("the 4th", r.send(askFor(ana)).Quota, "[0 1]", time.Second)
		r.holds("after the 4th", 4)
		waited(time.Second)
		r.find()
		a := r.send(askFor(ana))
		r.says("the 5th", a.Quota, "[0 0]", time.Hour-4*time.Second)
		r.holds("after the 5th", 5)
		r.find()
		got, err := other.Get(r.Context(), backEnd, a.View.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.says("GET", got.Quota, "[0 0]", time.Hour-4*time.Second)
		waited(time.Hour - 4*time.Second)
		r.says("at the end of the wait", r.send(askFor(ana)).Quota, "[0 0]", time.Second)
	})
}

func TestQuota17EveryAnswerIsTrueWithALongerWindow(t *testing.T) {
	inBubbleWith(t, secondAndHour(10*time.Second), func(r *rig) {
		for range 3 {
			r.send(askFor(ana))
			waited(time.Second)
		}
		r.looked(r.svc)
		waited(10 * time.Second)
		r.send(askFor(ana)) // which drops what the short window counts no more
		waited(time.Second)
		longer := r.svc.Terms()
		longer.Purposes = withWindow(longer.Purposes, time.Hour)
		r.svc.Change(longer)
		r.says("a look", r.looked(r.svc), "[1 1]", 0)
		r.says("the 5th", r.send(askFor(ana)).Quota, "[0 0]", time.Hour-14*time.Second)
	})
}

// A failover may leave some events: the refusal that they bring about is told as the log has it.
func TestQuota11ARefusalIsTrueAfterAFailover(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := newServer()
		r.limiter.set(s)
		r.send(askFor(ana))
		waited(minute)
		r.send(askFor(ana))
		waited(30 * time.Second)
		s.failOver(1)
		waited(29 * time.Second)
		r.says("a refusal", r.refuse(askFor(ana)).Quota, "[0 3 8]", time.Second)
	})
}

// While nothing is lost, a send costs one call of each gate, and of the looks at a recipient only the first asks the log.
func TestQuota11NothingIsAskedTwiceWhileNothingIsLost(t *testing.T) {
	parts := func(r *rig) (*Service, *[]string) {
		var calls []string
		s := r.replica(r.post)
		s.limits.Limiter = counted{s.limits.Limiter, &calls}
		s.Log = countedLog{r.log, &calls}
		return s, &calls
	}
	inBubbleWith(t, secondAndHour(time.Hour), func(r *rig) {
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
			a, err := s.Send(r.Context(), askFor(ana))
			if err != nil || !a.Admitted {
				t.Fatalf("%v %+v", err, a)
			}
			waited(time.Second)
			return a.View.ID
		}
		id := send()
		expect("the first send", "take", "begin")
		look := func() {
			if _, err := s.Get(r.Context(), backEnd, id); err != nil {
				t.Fatal(err)
			}
		}
		look()
		expect("the first look", "peek", "history", "restore 1", "peek")
		for range 3 {
			look()
			r.looked(s)
			expect("looks", "peek", "peek")
			send()
			expect("sends", "take", "begin")
		}
		send()
		expect("the last one", "take", "begin")
		if a, err := s.Send(r.Context(), askFor(ana)); err != nil || a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		expect("a refusal", "take")
		r.find()
		look()
		expect("a look after a flush", "peek", "history", "restore 5", "peek")
		look()
		expect("a look after it", "peek")
	})
}

// Where the limiter can't be taught, the log's words are the answer.
func TestQuota11AnswersAreTrueWhereTheLimiterLearnsNothing(t *testing.T) {
	inBubbleWith(t, secondAndHour(time.Hour), func(r *rig) {
		r.send(askFor(ana))
		waited(time.Second)
		r.limiter.set(unteachable{quota.NewMemory(time.Now, "process")})
		r.says("a look", r.looked(r.svc), "[1 4]", 0)
		r.says("a send", r.send(askFor(ana)).Quota, "[0 3]", time.Second)
	})
}
