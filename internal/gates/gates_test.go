package gates_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

// The limiter may lose everything at any time: the log decides again and teaches it.
func TestLogIsTheSecondGate(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(10 * time.Second)
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		a := r.Refuse(rig.AskFor(rig.Ana))
		if a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Fatalf("the log's refusal says %v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
		peek, err := r.Svc.Quota(r.Context(), rig.BackEnd, "email", rig.Ana, "")
		if err != nil || peek.Quota.RetryAfter() != 50*time.Second || peek.Quota.Rules[1].Used != 1 {
			t.Errorf("the limiter did not learn: %+v, %v", peek.Quota, err)
		}
		rig.Waited(50 * time.Second)
		r.Send(rig.AskFor(rig.Ana))
	})
}

func TestLogRefusesAClockOfItsOwn(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		r.Limiter.Set(quota.NewMemory(time.Now, "another process"))
		a := r.Refuse(rig.AskFor(rig.Ana))
		if got := a.Quota.RetryAfter(); got <= 0 || got > rig.Minute {
			t.Errorf("wait is %v", got)
		}
	})
}

// When the limiter can't be taught, the log's own words are the answer.
func TestLogExplainsWhatTheLimiterCannot(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(10 * time.Second)
		r.Limiter.Set(rig.Unteachable{Memory: quota.NewMemory(time.Now, "process")})
		if a := r.Refuse(rig.AskFor(rig.Ana)); a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Errorf("%v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
	})
}

func TestLogAway(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Store.Set(true)
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.Store.Set(false)
		rig.Waited(2 * time.Second)
		r.Send(rig.AskFor(rig.Ana)) // the place was given back: nothing had been written
	})
}

// The place of a request that the log could not take is given back, however often the limiter fails to hear of it.
func TestPlaceIsGivenBackUntilTheLimiterHears(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Limiter.Set(rig.Flaky{Limiter: quota.NewMemory(time.Now, "process"), Calls: new(int)})
		r.Store.Set(true)
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.Store.Set(false)
		rig.Waited(5 * time.Second)
		r.Send(rig.AskFor(rig.Ana))
	})
}

// neverRefunds is a limiter that does not hear of refunds.
type neverRefunds struct{ *quota.Memory }

func (neverRefunds) Refund(context.Context, string, ...string) error { return quota.ErrUnavailable }

// It is given back also after minutes, for its hour and its day have not passed.
func TestPlaceIsGivenBackAfterALongOutage(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		m := quota.NewMemory(time.Now, "process")
		r.Limiter.Set(neverRefunds{m})
		r.Store.Set(true)
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.Store.Set(false)
		rig.Waited(3 * time.Minute)
		r.Limiter.Set(m)
		rig.Waited(2 * time.Second)
		r.Holds("after the outage", 0)
	})
}

func TestRefusalIsRecorded(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		for range 30 {
			r.Refuse(rig.AskFor(rig.Ana))
		}
		rig.Waited(2 * time.Second)
		r.Refuse(rig.AskFor(rig.Ana))
		rig.Waited(2 * time.Second)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		row := rows[0]
		if row.Count != 31 || row.BlockedBy != "minute" || row.To != rig.AnaAs || row.RetryAfter != 58*time.Second || row.IP != "192.0.2.0/24" {
			t.Errorf("row: %+v", row)
		}
	})
}

func TestRefusalsOutliveTheLogsAbsence(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		r.Store.Set(true)
		r.Refuse(rig.AskFor(rig.Ana))
		rig.Waited(5 * time.Second)
		r.Refuse(rig.AskFor(rig.Ana))
		r.Store.Set(false)
		rig.Waited(2 * time.Second)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Count != 2 {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// What the log refuses has spent nothing anywhere: the network's place is given back before the answer is told.
func TestLogsRefusalCostsTheNetworkNothing(t *testing.T) {
	withNet := func(s *rig.Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:3:3], quota.Rule{Name: "net", Scope: quota.IP, Limit: 9, Window: time.Minute})
		s.Purposes["default"] = p
	}
	rig.InBubbleWith(t, withNet, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		a := r.Refuse(rig.AskFor(rig.Ana))
		if net := a.Quota.Rules[3]; net.Name != "net" || net.Used != 0 {
			t.Errorf("%+v", net)
		}
		r.Limiter.Set(rig.Unteachable{Memory: quota.NewMemory(time.Now, "process")})
		if a := r.Refuse(rig.AskFor(rig.Ana)); len(a.Quota.Rules) != 4 || a.Quota.Rules[3].Name != "net" {
			t.Errorf("when the log explains: %+v", a.Quota.Rules)
		}
	})
}

// A client that hangs up between the gates leaves no place taken for nothing: its code goes out.
func TestHangingUpBetweenTheGatesStopsNothing(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		ctx, hangUp := context.WithCancel(r.Context())
		r.Limiter.Set(rig.Hangup{Memory: quota.NewMemory(time.Now, "process"), HangUp: hangUp})
		a, err := r.Svc.Send(ctx, rig.AskFor(rig.Ana))
		if err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		rig.Waited(time.Second)
		if n := len(r.Post.All()); n != 1 {
			t.Errorf("%d mails", n)
		}
	})
}
