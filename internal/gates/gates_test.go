package gates_test

import (
	"context"
	"testing"
	"time"

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
