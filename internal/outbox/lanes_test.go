package outbox_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/parts"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

// deadCarrier is one whose connections open, and that never says anything.
type deadCarrier struct {
	vtest.Carrier
	each time.Duration // that it is waited for
}

func (c *deadCarrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	timer := time.NewTimer(c.each)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	_, _ = c.Carrier.Send(ctx, m)
	return sms.Receipt{Carrier: "dead"}, &sms.Error{Class: delivery.Temporary, Stage: sms.StageDial}
}

// Every text message hangs, far more than there is room for; a mail goes out at once all the same, and so does one that
// had to wait in the log behind all of them.
func TestHangingCarrierHoldsUpNoMail(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, vtest.ServeCountries("DE"))
		carrier := &deadCarrier{each: 20 * time.Second}
		r.Svc = r.ReplicaOn(r.Store, r.MailServer, carrier)
		r.Svc.Queue.Capacity = memory
		r.Start()
		for n := range memory + 300 {
			if _, err := r.Svc.Send(r.Context(), vtest.TextTo(vtest.NthNumber(n))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for n := range 3 * outbox.DefaultWorkers {
			if a := r.Send(vtest.AskFor(vtest.NthAddress(n))); r.Get(a.View.ID).Send.Status != store.Sent {
				t.Fatalf("mail %d waits", n)
			}
		}
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("the mail that was tried again: %+v", s)
		}
		r.Quit()
	})
}

// The reverse: mails hang, and a text message goes out at once, also one that waited in the log.
func TestHangingMailServerHoldsUpNoText(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, vtest.ServeCountries("DE"))
		r.Svc = r.Replica(&vtest.SlowMailServer{Each: time.Minute})
		r.Svc.Queue.Capacity = memory
		r.Start()
		r.SendMany(0, memory+300)
		synctest.Wait()
		for n := range 3 * outbox.DefaultWorkers {
			if a := r.Send(vtest.TextTo(vtest.NthNumber(n))); r.Get(a.View.ID).Send.Status != store.Sent {
				t.Fatalf("text message %d waits", n)
			}
		}
		r.Carrier.Fail(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		r.Sleep(10 * time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("the text message that was tried again: %+v", s)
		}
		r.Quit()
	})
}

// gauge counts who is in it at once.
type gauge struct {
	vtest.Carrier
	mu        sync.Mutex
	now, most int
}

func (g *gauge) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	time.Sleep(time.Second)
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
	return g.Carrier.Send(ctx, m)
}

// Each channel has so many workers and no more.
func TestWorkersOfAChannelAreBounded(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, func(s *vtest.Settings) { vtest.ServeCountries("DE")(s); s.Workers = 5 })
		carrier := &gauge{}
		r.Svc = r.ReplicaOn(r.Store, r.MailServer, carrier)
		r.Start()
		for n := range 40 {
			if _, err := r.Svc.Send(r.Context(), vtest.TextTo(vtest.NthNumber(n))); err != nil {
				t.Fatal(err)
			}
		}
		r.Sleep(10 * time.Second)
		if len(carrier.All()) != 40 || carrier.most != 5 {
			t.Errorf("%d text messages, %d at once", len(carrier.All()), carrier.most)
		}
		r.Quit()
	})
}
