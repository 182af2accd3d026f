package gates_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// The limiter may lose everything at any time: the log decides again, and the limiter learns its history. If it cannot, the answer is the
// log's.
func TestLogIsTheSecondGate(t *testing.T) {
	for name, c := range map[string]struct {
		clock  string
		around vtest.Around
		learns bool
	}{
		"flushed":             {"process", nil, true},
		"on another clock":    {"another process", nil, false},
		"refuses the history": {"process", vtest.Unreachable("Record", "Restore"), false},
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
			r.Limiter.Set(quota.NewMemory(time.Now, c.clock))
			r.Limiter.Around(c.around)
			a := r.RefuseTo(vtest.Ana)
			if a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
				t.Fatalf("%s: the log's refusal says %v over %d rules", name, a.Quota.RetryAfter(), len(a.Quota.Rules))
			}
			if c.learns {
				r.WantCounted("after the refusal", 1)
				r.WantQuota("a look", r.QuotaOf(""), "[0 4 9]", 50*time.Second)
				r.Sleep(50 * time.Second)
				r.SendTo(vtest.Ana)
			}
		})
	}
}

// A send that the log could not take is refunded in the limiter, however often that fails to answer, also after minutes: its hour and its
// day have not passed.
func TestPlaceIsGivenBackUntilTheLimiterHears(t *testing.T) {
	for name, disturb := range map[string]func(*vtest.Rig){
		"answers":           func(*vtest.Rig) {},
		"answers at last":   (*vtest.Rig).LoseFirstRefund,
		"answers no refund": func(r *vtest.Rig) { r.Limiter.Around(vtest.Unreachable("Refund")) },
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			disturb(r)
			r.CutStore()
			r.WantError(r.SendError(vtest.AskFor(vtest.Ana)), verification.ErrUnavailable)
			r.MendStore()
			if name == "answers no refund" {
				r.Sleep(3 * time.Minute)
				r.Limiter.Around(nil)
			}
			r.Sleep(5 * time.Second)
			r.WantCounted(name, 0)
		})
	}
}

func TestRefusalsAreRecordedAlsoAfterTheLogsAbsence(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		refusals := func() []store.Send {
			rows, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			return rows
		}
		r.SendTo(vtest.Ana)
		for range 30 {
			r.RefuseTo(vtest.Ana)
		}
		r.Sleep(2 * time.Second)
		row := refusals()[0]
		if row.Count != 30 || row.BlockedBy != "minute" || row.To != vtest.AnaMasked || row.RetryAfter != time.Minute || row.IP != "192.0.2.0/24" {
			t.Errorf("row: %+v", row)
		}
		r.CutStore()
		r.RefuseTo(vtest.Ana)
		r.Sleep(5 * time.Second)
		r.RefuseTo(vtest.Ana)
		r.MendStore()
		r.Sleep(2 * time.Second)
		if row := refusals()[0]; row.Count != 32 || row.RetryAfter != 53*time.Second {
			t.Errorf("after the absence: %+v", row)
		}
	})
}

// A send that the log refuses is refunded in the network's bucket before the answer.
func TestLogsRefusalCostsTheNetworkNothing(t *testing.T) {
	withNet := func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:3:3], quota.Rule{Name: "net", Scope: quota.IP, Limit: 9, Window: time.Minute})
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, withNet, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		a := r.RefuseTo(vtest.Ana)
		if net := a.Quota.Rules[3]; net.Name != "net" || net.Used != 0 {
			t.Errorf("%+v", net)
		}
		r.EmptyLimiter()
		r.Limiter.Around(vtest.Unreachable("Record", "Restore"))
		if a := r.RefuseTo(vtest.Ana); len(a.Quota.Rules) != 4 || a.Quota.Rules[3].Name != "net" {
			t.Errorf("when the log explains: %+v", a.Quota.Rules)
		}
	})
}

// A client that hangs up between the gates stops nothing: its code is sent.
func TestHangingUpBetweenTheGatesStopsNothing(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		ctx, hangUp := context.WithCancel(r.Context())
		r.Limiter.Around(func(_ context.Context, _ string, do func() error) error { defer hangUp(); return do() })
		a, err := r.Svc.Send(ctx, vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		r.Sleep(time.Second)
		r.WantMails(1)
	})
}

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
