package verification

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// The limiter may lose everything at any time: the log decides again and teaches it.
func TestLogIsTheSecondGate(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		waited(10 * time.Second)
		r.limiter.set(quota.NewMemory(time.Now, "process"))
		a := r.refuse(askFor(ana))
		if a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Fatalf("the log's refusal says %v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
		peek, err := r.svc.Quota(r.Context(), backEnd, "email", ana, "")
		if err != nil || peek.Quota.RetryAfter() != 50*time.Second || peek.Quota.Rules[1].Used != 1 {
			t.Errorf("the limiter did not learn: %+v, %v", peek.Quota, err)
		}
		waited(50 * time.Second)
		r.send(askFor(ana))
	})
}

func TestLogRefusesAClockOfItsOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		r.limiter.set(quota.NewMemory(time.Now, "another process"))
		a := r.refuse(askFor(ana))
		if got := a.Quota.RetryAfter(); got <= 0 || got > minute {
			t.Errorf("wait is %v", got)
		}
	})
}

// When the limiter can't be taught, the log's own words are the answer.
func TestLogExplainsWhatTheLimiterCannot(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		waited(10 * time.Second)
		r.limiter.set(unteachable{quota.NewMemory(time.Now, "process")})
		if a := r.refuse(askFor(ana)); a.Quota.RetryAfter() != 50*time.Second || len(a.Quota.Rules) != 3 {
			t.Errorf("%v over %d rules", a.Quota.RetryAfter(), len(a.Quota.Rules))
		}
	})
}

func TestLogAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.log.set(true)
		if _, err := r.svc.Send(r.Context(), askFor(ana)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.log.set(false)
		waited(2 * time.Second)
		r.send(askFor(ana)) // the place was given back: nothing had been written
	})
}

// The place of a request that the log could not take is given back, however often the limiter fails to hear of it.
func TestPlaceIsGivenBackUntilTheLimiterHears(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limiter.set(flaky{quota.NewMemory(time.Now, "process"), new(int)})
		r.log.set(true)
		if _, err := r.svc.Send(r.Context(), askFor(ana)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Send: %v", err)
		}
		r.log.set(false)
		waited(5 * time.Second)
		r.send(askFor(ana))
	})
}

func TestRefusalIsRecorded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		for range 30 {
			r.refuse(askFor(ana))
		}
		waited(2 * time.Second)
		r.refuse(askFor(ana))
		waited(2 * time.Second)
		rows, err := r.log.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		row := rows[0]
		if row.Count != 31 || row.BlockedBy != "minute" || row.To != anaAs || row.RetryAfter != 58*time.Second || row.IP != "192.0.2.0/24" {
			t.Errorf("row: %+v", row)
		}
	})
}

func TestRefusalsOutliveTheLogsAbsence(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		r.log.set(true)
		r.refuse(askFor(ana))
		waited(5 * time.Second)
		r.refuse(askFor(ana))
		r.log.set(false)
		waited(2 * time.Second)
		rows, err := r.log.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Count != 2 {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// What the log refuses has spent nothing anywhere: the network's place is given back before the answer is told.
func TestLogsRefusalCostsTheNetworkNothing(t *testing.T) {
	withNet := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:3:3], quota.Rule{Name: "net", Scope: quota.IP, Limit: 9, Window: time.Minute})
		s.Purposes["default"] = p
	}
	inBubbleWith(t, withNet, func(r *rig) {
		r.send(askFor(ana))
		r.limiter.set(quota.NewMemory(time.Now, "process"))
		a := r.refuse(askFor(ana))
		if net := a.Quota.Rules[3]; net.Name != "net" || net.Used != 0 {
			t.Errorf("%+v", net)
		}
		r.limiter.set(unteachable{quota.NewMemory(time.Now, "process")})
		if a := r.refuse(askFor(ana)); len(a.Quota.Rules) != 4 || a.Quota.Rules[3].Name != "net" {
			t.Errorf("when the log explains: %+v", a.Quota.Rules)
		}
	})
}

// A client that hangs up between the gates leaves no place taken for nothing: its code goes out.
func TestHangingUpBetweenTheGatesStopsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		ctx, hangUp := context.WithCancel(r.Context())
		r.limiter.set(hangup{quota.NewMemory(time.Now, "process"), hangUp})
		a, err := r.svc.Send(ctx, askFor(ana))
		if err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		waited(time.Second)
		if n := len(r.post.all()); n != 1 {
			t.Errorf("%d mails", n)
		}
	})
}
