package verification_test

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

func waitFor(d time.Duration) verification.Ask {
	a := vtest.AskFor(vtest.Ana)
	a.Wait = d
	return a
}

func TestWaitingForTheOutcome(t *testing.T) {
	slowly := func(d time.Duration, then func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { <-time.After(d); return then(ctx) }
	}
	accept := func(context.Context) error { return nil }
	unknown, later := vtest.FailWith(delivery.Unknown, "dot", 0, ""), vtest.FailWith(delivery.Temporary, "rcpt", 451, "")
	for name, c := range map[string]struct {
		answer  func(context.Context) error
		wait    time.Duration
		status  store.Status
		allowed bool
		took    time.Duration
	}{
		"sent":                        {slowly(2*time.Second, accept), 5 * time.Second, store.Sent, false, 2 * time.Second},
		"not in time":                 {slowly(8*time.Second, accept), 5 * time.Second, store.Queued, false, 5 * time.Second},
		"never longer than the bound": {slowly(time.Minute, accept), time.Hour, store.Queued, false, verification.MaxWait},
		"refused for good":            {slowly(time.Second, vtest.NoMailbox), 5 * time.Second, store.Failed, true, time.Second},
		"refused for now":             {later, 10 * time.Second, store.Sent, false, 0},
		"unknown":                     {slowly(time.Second, unknown), 5 * time.Second, store.Unknown, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				r.MailServer.Answer(c.answer)
				began := time.Now()
				a := r.Send(waitFor(c.wait))
				if a.View.Send.Status != c.status || a.Quota.Allowed() != c.allowed {
					t.Errorf("%+v allowed %v", a.View.Send, a.Quota.Allowed())
				}
				if took := time.Since(began); c.took > 0 && took != c.took {
					t.Errorf("took %v", took)
				}
				r.Sleep(time.Minute + 10*time.Second)
				if s := r.Get(a.View.ID).Send.Status; s == store.Queued || s != store.Sent && s != c.status {
					t.Errorf("in the end: %s", s)
				}
			})
		})
	}
}

// A caller that waits for a failure hears of it once its place was given back, so it may ask again at once.
func TestAFailureIsToldAfterItsRefund(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Refund" {
				<-time.After(time.Second)
			}
			return do()
		})
		r.MailServer.Answer(vtest.NoMailbox)
		if a := r.Send(waitFor(5 * time.Second)); a.View.Send.Status != store.Failed {
			t.Fatalf("%+v", a)
		}
		r.SendTo(vtest.Ana)
	})
}

func TestWhoHangsUpIsNotWaitedFor(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(func(context.Context) error { <-time.After(10 * time.Second); return nil })
		ctx, hangUp := context.WithTimeout(r.Context(), time.Second)
		defer hangUp()
		began := time.Now()
		a, err := r.Svc.Send(ctx, waitFor(15*time.Second))
		if err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		r.Sleep(10 * time.Second)
		if s := r.Get(a.View.ID).Send.Status; s != store.Sent {
			t.Errorf("the send ended with its client: %s", s)
		}
	})
}
