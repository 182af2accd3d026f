package verification

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// lose takes the limiter away; find brings one back that has forgotten everything.
func (r *rig) lose() { r.limiter.set(noLimiter{quota.NewMemory(time.Now, "process")}) }

func (r *rig) find() *quota.Memory {
	m := quota.NewMemory(time.Now, "process")
	r.limiter.set(m)
	return m
}

func TestLogDecidesAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana)) // before
		waited(10 * time.Second)
		r.lose()
		if a := r.refuse(askFor(ana)); a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Fatalf("%v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
		waited(50*time.Second - time.Microsecond)
		r.refuse(askFor(ana))
		waited(time.Microsecond)
		a := r.send(askFor(ana))
		if a.Quota.RetryAfter() != minute || a.Quota.Rules[1].Used != 2 || a.Quota.Rules[2].Used != 2 {
			t.Errorf("a success alone: %+v", a.Quota)
		}
		got, err := r.svc.Get(r.Context(), backEnd, a.View.ID)
		if err != nil || got.Quota.RetryAfter() != minute {
			t.Errorf("looking alone: %v %+v", err, got.Quota)
		}
	})
}

func TestAloneOneOfManyIsLetIn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.lose()
		var in atomic.Int32
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if a, err := r.svc.Send(r.Context(), askFor(ana)); err != nil {
					t.Error(err)
				} else if a.Admitted {
					in.Add(1)
				}
			})
		}
		wg.Wait()
		if in.Load() != 1 {
			t.Errorf("%d let in", in.Load())
		}
	})
}

// Once it is back, the limiter has heard of what was sent without it: looking tells the truth again.
func TestLimiterLearnsOnceItIsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.lose()
		a := r.send(askFor(ana))
		waited(10 * time.Second)
		r.find()
		waited(2 * time.Second)
		got, err := r.svc.Get(r.Context(), backEnd, a.View.ID)
		if err != nil || got.Quota.RetryAfter() != 48*time.Second || got.Quota.Clock != "process" {
			t.Errorf("%v %+v", err, got.Quota)
		}
		r.refuse(askFor(ana))
		waited(48 * time.Second)
		r.send(askFor(ana))
	})
}

// A place that the limiter took before its answer was lost belongs to the send that the log let in: one event, not two,
// and none is given back.
func TestLostAnswerCountsOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		memory := quota.NewMemory(time.Now, "process")
		r.limiter.set(deaf{memory})
		a := r.send(askFor(ana))
		r.limiter.set(memory)
		waited(3 * time.Second)
		got, err := r.svc.Get(r.Context(), backEnd, a.View.ID)
		if err != nil || got.Quota.Rules[1].Used != 1 {
			t.Errorf("%v %+v", err, got.Quota.Rules)
		}
	})
}

func TestAloneFailureIsRefunded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.lose()
		r.post.tell(failing(1, "rcpt", 550, "5.1.1"))
		r.send(askFor(ana))
		r.send(askFor(ana))
		r.find()
		waited(20 * time.Second)
		peek, err := r.svc.Quota(r.Context(), backEnd, "email", ana, "")
		if err != nil || peek.Quota.Rules[1].Used != 1 {
			t.Errorf("%v %+v", err, peek.Quota.Rules)
		}
	})
}

func TestAloneOtherScopesAreDecidedInProcess(t *testing.T) {
	withNet := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append([]quota.Rule{{Name: "net", Scope: quota.IP, Limit: 2, Window: minute}}, p.Policy.Rules...)
		s.Purposes["default"] = p
	}
	inBubbleWith(t, withNet, func(r *rig) {
		r.lose()
		ask := func(to string) Ask {
			a := askFor(to)
			a.IP = netip.MustParseAddr("192.0.2.7")
			return a
		}
		r.send(ask("a1@example.com"))
		a := r.send(ask("a2@example.com"))
		if len(a.Quota.Rules) != 4 || a.Quota.Rules[0].Name != "net" || a.Quota.Rules[0].Used != 2 {
			t.Errorf("%+v", a.Quota.Rules)
		}
		if a := r.refuse(ask("a3@example.com")); a.Quota.Violated()[0] != "net" || len(a.Quota.Rules) != 4 {
			t.Errorf("%v over %d rules", a.Quota.Violated(), len(a.Quota.Rules))
		}
		waited(minute)
		r.send(ask("a3@example.com"))
		// A refusal by the log takes its place out of the network's bucket again.
		r.refuse(ask("a3@example.com"))
		waited(2 * time.Second)
		r.send(ask("a4@example.com"))
	})
}

// A limiter that does not answer is not waited for by everybody.
func TestNobodyWaitsForAnAbsentLimiter(t *testing.T) {
	inBubble(t, func(r *rig) {
		slow := &slowLimiter{noLimiter: noLimiter{quota.NewMemory(time.Now, "process")}}
		r.limiter.set(slow)
		began := time.Now()
		r.send(askFor("first@example.com"))
		if took := time.Since(began); took > 2*takeTimeout {
			t.Errorf("the first took %v", took)
		}
		began = time.Now()
		for _, to := range []string{"a1@example.com", "a2@example.com", "a3@example.com"} {
			if _, err := r.svc.Send(r.Context(), askFor(to)); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > takeTimeout {
			t.Errorf("three more took %v", took)
		}
	})
}

func TestBothAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.lose()
		r.log.set(true)
		if _, err := r.svc.Send(r.Context(), askFor(ana)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
		r.log.set(false)
		r.find()
		waited(2 * time.Second)
		r.send(askFor(ana))
		rows, err := r.log.Sends(r.Context(), store.Filter{Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}
