package gates_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

func TestLogDecidesAlone(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana)) // before
		rig.Waited(10 * time.Second)
		r.Lose()
		if a := r.Refuse(rig.AskFor(rig.Ana)); a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Fatalf("%v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
		rig.Waited(50*time.Second - time.Microsecond)
		r.Refuse(rig.AskFor(rig.Ana))
		rig.Waited(time.Microsecond)
		a := r.Send(rig.AskFor(rig.Ana))
		if a.Quota.RetryAfter() != rig.Minute || a.Quota.Rules[1].Used != 2 || a.Quota.Rules[2].Used != 2 {
			t.Errorf("a success alone: %+v", a.Quota)
		}
		got, err := r.Svc.Get(r.Context(), rig.BackEnd, a.View.ID)
		if err != nil || got.Quota.RetryAfter() != rig.Minute {
			t.Errorf("looking alone: %v %+v", err, got.Quota)
		}
	})
}

func TestAloneOneOfManyIsLetIn(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Lose()
		var in atomic.Int32
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if a, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil {
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
	rig.InBubble(t, func(r *rig.Rig) {
		r.Lose()
		a := r.Send(rig.AskFor(rig.Ana))
		rig.Waited(10 * time.Second)
		r.Find()
		rig.Waited(2 * time.Second)
		got, err := r.Svc.Get(r.Context(), rig.BackEnd, a.View.ID)
		if err != nil || got.Quota.RetryAfter() != 48*time.Second || got.Quota.Clock != "process" {
			t.Errorf("%v %+v", err, got.Quota)
		}
		r.Refuse(rig.AskFor(rig.Ana))
		rig.Waited(48 * time.Second)
		r.Send(rig.AskFor(rig.Ana))
	})
}

// A place that the limiter took before its answer was lost belongs to the send that the log let in: one event, not two,
// and none is given back.
func TestLostAnswerCountsOnce(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		memory := quota.NewMemory(time.Now, "process")
		r.Limiter.Set(rig.Deaf{Memory: memory})
		a := r.Send(rig.AskFor(rig.Ana))
		r.Limiter.Set(memory)
		rig.Waited(3 * time.Second)
		got, err := r.Svc.Get(r.Context(), rig.BackEnd, a.View.ID)
		if err != nil || got.Quota.Rules[1].Used != 1 {
			t.Errorf("%v %+v", err, got.Quota.Rules)
		}
	})
}

func TestAloneFailureIsRefunded(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Lose()
		r.Post.Tell(rig.Failing(1, "rcpt", 550, "5.1.1"))
		r.Send(rig.AskFor(rig.Ana))
		r.Send(rig.AskFor(rig.Ana))
		r.Find()
		rig.Waited(20 * time.Second)
		peek, err := r.Svc.Quota(r.Context(), rig.BackEnd, "email", rig.Ana, "")
		if err != nil || peek.Quota.Rules[1].Used != 1 {
			t.Errorf("%v %+v", err, peek.Quota.Rules)
		}
	})
}

func TestAloneOtherScopesAreDecidedInProcess(t *testing.T) {
	withNet := func(s *rig.Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append([]quota.Rule{{Name: "net", Scope: quota.IP, Limit: 2, Window: rig.Minute}}, p.Policy.Rules...)
		s.Purposes["default"] = p
	}
	rig.InBubbleWith(t, withNet, func(r *rig.Rig) {
		r.Lose()
		ask := func(to string) verification.Ask {
			a := rig.AskFor(to)
			a.IP = netip.MustParseAddr("192.0.2.7")
			return a
		}
		r.Send(ask("a1@example.com"))
		a := r.Send(ask("a2@example.com"))
		if len(a.Quota.Rules) != 4 || a.Quota.Rules[0].Name != "net" || a.Quota.Rules[0].Used != 2 {
			t.Errorf("%+v", a.Quota.Rules)
		}
		if a := r.Refuse(ask("a3@example.com")); a.Quota.Violated()[0] != "net" || len(a.Quota.Rules) != 4 {
			t.Errorf("%v over %d rules", a.Quota.Violated(), len(a.Quota.Rules))
		}
		rig.Waited(rig.Minute)
		r.Send(ask("a3@example.com"))
		// A refusal by the log takes its place out of the network's bucket again.
		r.Refuse(ask("a3@example.com"))
		rig.Waited(2 * time.Second)
		r.Send(ask("a4@example.com"))
	})
}

// A limiter that does not answer is not waited for by everybody.
func TestNothingWaitsForAnAbsentLimiter(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		slow := &rig.SlowLimiter{NoLimiter: rig.NoLimiter{Memory: quota.NewMemory(time.Now, "process")}}
		r.Limiter.Set(slow)
		began := time.Now()
		r.Send(rig.AskFor("first@example.com"))
		if took := time.Since(began); took > 2*gates.TakeTimeout {
			t.Errorf("the first took %v", took)
		}
		began = time.Now()
		for _, to := range []string{"a1@example.com", "a2@example.com", "a3@example.com"} {
			if _, err := r.Svc.Send(r.Context(), rig.AskFor(to)); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > gates.TakeTimeout {
			t.Errorf("three more took %v", took)
		}
	})
}

// hanging is a limiter that answers the first look only when its client is gone.
type hanging struct {
	*quota.Memory
	looks, takes int
}

func (h *hanging) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if h.looks++; h.looks == 1 {
		<-ctx.Done()
		return quota.Decision{}, quota.ErrUnavailable
	}
	return h.Memory.Peek(ctx, r)
}

func (h *hanging) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	h.takes++
	return h.Memory.Take(ctx, r)
}

// A client that hangs up while it looks does not have the log decide alone for all others.
func TestAClientThatHangsUpSaysNothingOfTheLimiter(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		h := &hanging{Memory: quota.NewMemory(time.Now, "process")}
		r.Limiter.Set(h)
		ctx, hangUp := context.WithCancel(r.Context())
		time.AfterFunc(time.Millisecond, hangUp)
		_, _ = r.Svc.Quota(ctx, rig.BackEnd, "email", "gone@example.com", "")
		r.Send(rig.AskFor(rig.Ana))
		if h.looks == 0 || h.takes != 1 || strings.Contains(r.Printed.String(), "the limiter is away") {
			t.Errorf("%d looks, %d takes: %s", h.looks, h.takes, r.Printed)
		}
	})
}

func TestBothAway(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Lose()
		r.Store.Set(true)
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		r.Store.Set(false)
		r.Find()
		rig.Waited(2 * time.Second)
		r.Send(rig.AskFor(rig.Ana))
		rows, err := r.Store.Sends(r.Context(), store.Filter{Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}
