package gates_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

func TestLogDecidesAlone(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana) // before
		r.Sleep(10 * time.Second)
		r.LoseLimiter()
		if a := r.RefuseTo(vtest.Ana); a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Fatalf("%v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
		r.Sleep(50*time.Second - time.Microsecond)
		r.RefuseTo(vtest.Ana)
		r.Sleep(time.Microsecond)
		a := r.SendTo(vtest.Ana)
		r.WantQuota("a success alone", a.Quota, "[0 3 8]", time.Minute)
		r.WantQuota("looking alone", r.QuotaOf(""), "[0 3 8]", time.Minute)
	})
}

func TestAloneOneOfManyIsLetIn(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.LoseLimiter()
		var in atomic.Int32
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil {
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

// Once the limiter is back, it gets the sends that were made without it, and looks are true again.
func TestLimiterLearnsOnceItIsBack(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.LoseLimiter()
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.EmptyLimiter()
		r.Sleep(2 * time.Second)
		if d := r.QuotaOf(""); d.RetryAfter() != 48*time.Second || d.Clock != "process" {
			t.Errorf("%+v", d)
		}
		r.RefuseTo(vtest.Ana)
		r.Sleep(48 * time.Second)
		r.SendTo(vtest.Ana)
	})
}

// If the limiter counted a send before its answer was lost, and the log admitted it alone, it counts once and is not refunded.
func TestLostAnswerCountsOnce(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if err := do(); call != "Take" {
				return err
			}
			return quota.ErrUnavailable
		})
		r.SendTo(vtest.Ana)
		r.Limiter.Around(nil)
		r.Sleep(3 * time.Second)
		r.WantCounted("afterwards", 1)
	})
}

func TestAloneFailureIsRefunded(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.LoseLimiter()
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		r.Sleep(20 * time.Second)
		if d := r.QuotaOf(""); d.Rules[1].Used != 1 {
			t.Errorf("%+v", d.Rules)
		}
	})
}

func TestAloneOtherScopesAreDecidedInProcess(t *testing.T) {
	withNet := func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append([]quota.Rule{{Name: "net", Scope: quota.IP, Limit: 2, Window: time.Minute}}, p.Policy.Rules...)
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, withNet, func(r *vtest.Rig) {
		r.LoseLimiter()
		ask := func(to string) verification.Ask {
			a := vtest.AskFor(to)
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
		r.Sleep(time.Minute)
		r.Send(ask("a3@example.com"))
		// A refusal by the log takes its place out of the network's bucket again.
		r.Refuse(ask("a3@example.com"))
		r.Sleep(2 * time.Second)
		r.Send(ask("a4@example.com"))
	})
}

// Only the first request waits for a limiter that does not answer.
func TestNothingWaitsForAnAbsentLimiter(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Around(func(ctx context.Context, call string, _ func() error) error {
			if call == "Take" {
				<-ctx.Done()
			}
			return quota.ErrUnavailable
		})
		began := time.Now()
		r.SendTo("first@example.com")
		if took := time.Since(began); took > 2*gates.TakeTimeout {
			t.Errorf("the first took %v", took)
		}
		began = time.Now()
		for _, to := range []string{"a1@example.com", "a2@example.com", "a3@example.com"} {
			r.NoError(r.SendError(vtest.AskFor(to)))
		}
		if took := time.Since(began); took > gates.TakeTimeout {
			t.Errorf("three more took %v", took)
		}
	})
}

// The limiter is not taken for away because a client hung up during its look.
func TestAClientThatHangsUpSaysNothingOfTheLimiter(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		calls := map[string]int{}
		r.Limiter.Around(func(ctx context.Context, call string, do func() error) error {
			if calls[call]++; call == "Peek" && calls[call] == 1 { // the first look is answered when its client has hung up
				<-ctx.Done()
				return quota.ErrUnavailable
			}
			return do()
		})
		ctx, hangUp := context.WithCancel(r.Context())
		time.AfterFunc(time.Millisecond, hangUp)
		_, _ = r.Svc.Quota(ctx, vtest.BackEnd, "email", "gone@example.com", "")
		r.SendTo(vtest.Ana)
		if calls["Peek"] == 0 || calls["Take"] != 1 || strings.Contains(r.Printed.String(), "the limiter is away") {
			t.Errorf("%v: %s", calls, r.Printed)
		}
	})
}

// An outage is two lines in the log, however many requests it meets.
func TestLimiterOutageIsLoggedOnceAtEachEnd(t *testing.T) {
	const away, back = "the limiter is away", "the limiter is back"
	vtest.InBubble(t, func(r *vtest.Rig) {
		lines := func(what string, want int) {
			t.Helper()
			if got := strings.Count(r.Printed.String(), what); got != want {
				t.Errorf("%q: %d lines, want %d\n%s", what, got, want, r.Printed)
			}
		}
		for round := 1; round <= 2; round++ {
			r.LoseLimiter()
			for n := range 5 {
				r.Send(vtest.AskFor(fmt.Sprintf("r%d.n%d@example.com", round, n)))
				r.Sleep(2 * time.Second) // the limiter is asked again each time
			}
			lines(away, round)
			lines(back, round-1)
			r.EmptyLimiter()
			r.Send(vtest.AskFor(fmt.Sprintf("r%d.last@example.com", round)))
			r.Sleep(2 * time.Second)
			r.Send(vtest.AskFor(fmt.Sprintf("r%d.later@example.com", round)))
			lines(away, round)
			lines(back, round)
			lines("sends_decided_by_the_log=5", round)
		}
	})
}

// With neither gate a send is refused as unavailable and leaves no row; afterwards the recipient has all places.
func TestBothAway(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.LoseLimiter()
		r.CutStore()
		r.WantError(r.SendError(vtest.AskFor(vtest.Ana)), verification.ErrUnavailable)
		r.MendStore()
		r.EmptyLimiter()
		r.Sleep(2 * time.Second)
		r.SendTo(vtest.Ana)
		if rows := r.Rows(); len(rows) != 1 {
			t.Errorf("%d rows", len(rows))
		}
	})
}
