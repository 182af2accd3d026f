package gates_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// The limiter may lose everything at any time: the log decides again and teaches it.
func TestLogIsTheSecondGate(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		a := r.RefuseTo(vtest.Ana)
		if a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Fatalf("the log's refusal says %v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
		peek, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
		if err != nil || peek.Quota.RetryAfter() != 50*time.Second || peek.Quota.Rules[1].Used != 1 {
			t.Errorf("the limiter did not learn: %+v, %v", peek.Quota, err)
		}
		r.Sleep(50 * time.Second)
		r.SendTo(vtest.Ana)
	})
}

func TestLogRefusesAClockOfItsOwn(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Limiter.Set(quota.NewMemory(time.Now, "another process"))
		a := r.RefuseTo(vtest.Ana)
		if got := a.Quota.RetryAfter(); got <= 0 || got > time.Minute {
			t.Errorf("wait is %v", got)
		}
	})
}

// When the limiter can't be taught, the log's own words are the answer.
func TestLogExplainsWhatTheLimiterCannot(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.Limiter.Set(vtest.ForgetfulLimiter{Memory: quota.NewMemory(time.Now, "process")})
		if a := r.RefuseTo(vtest.Ana); a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Errorf("%v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
	})
}

func TestLogAway(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.CutStore()
		if _, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.MendStore()
		r.Sleep(2 * time.Second)
		r.SendTo(vtest.Ana) // the place was given back: nothing had been written
	})
}

// The place of a request that the log could not take is given back, however often the limiter fails to hear of it.
func TestPlaceIsGivenBackUntilTheLimiterHears(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Set(vtest.LostRefund{Limiter: quota.NewMemory(time.Now, "process"), Calls: new(int)})
		r.CutStore()
		if _, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.MendStore()
		r.Sleep(5 * time.Second)
		r.SendTo(vtest.Ana)
	})
}

// neverRefunds is a limiter that does not hear of refunds.
type neverRefunds struct{ *quota.Memory }

func (neverRefunds) Refund(context.Context, string, ...string) error { return quota.ErrUnavailable }

// It is given back also after minutes, for its hour and its day have not passed.
func TestPlaceIsGivenBackAfterALongOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		m := quota.NewMemory(time.Now, "process")
		r.Limiter.Set(neverRefunds{m})
		r.CutStore()
		if _, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.MendStore()
		r.Sleep(3 * time.Minute)
		r.Limiter.Set(m)
		r.Sleep(2 * time.Second)
		r.WantCounted("after the outage", 0)
	})
}

func TestRefusalIsRecorded(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		for range 30 {
			r.RefuseTo(vtest.Ana)
		}
		r.Sleep(2 * time.Second)
		r.RefuseTo(vtest.Ana)
		r.Sleep(2 * time.Second)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		row := rows[0]
		if row.Count != 31 || row.BlockedBy != "minute" || row.To != vtest.AnaMasked || row.RetryAfter != 58*time.Second ||
			row.IP != "192.0.2.0/24" {
			t.Errorf("row: %+v", row)
		}
	})
}

func TestRefusalsOutliveTheLogsAbsence(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.CutStore()
		r.RefuseTo(vtest.Ana)
		r.Sleep(5 * time.Second)
		r.RefuseTo(vtest.Ana)
		r.MendStore()
		r.Sleep(2 * time.Second)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Count != 2 {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// What the log refuses has spent nothing anywhere: the network's place is given back before the answer is told.
func TestLogsRefusalCostsTheNetworkNothing(t *testing.T) {
	withNet := func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:3:3], quota.Rule{Name: "net", Scope: quota.IP, Limit: 9, Window: time.Minute})
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, withNet, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		a := r.RefuseTo(vtest.Ana)
		if net := a.Quota.Rules[3]; net.Name != "net" || net.Used != 0 {
			t.Errorf("%+v", net)
		}
		r.Limiter.Set(vtest.ForgetfulLimiter{Memory: quota.NewMemory(time.Now, "process")})
		if a := r.RefuseTo(vtest.Ana); len(a.Quota.Rules) != 4 || a.Quota.Rules[3].Name != "net" {
			t.Errorf("when the log explains: %+v", a.Quota.Rules)
		}
	})
}

// A client that hangs up between the gates leaves no place taken for nothing: its code goes out.
func TestHangingUpBetweenTheGatesStopsNothing(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		ctx, hangUp := context.WithCancel(r.Context())
		r.Limiter.Set(vtest.HangUpLimiter{Memory: quota.NewMemory(time.Now, "process"), HangUp: hangUp})
		a, err := r.Svc.Send(ctx, vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		r.Sleep(time.Second)
		if n := len(r.MailServer.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
	})
}
