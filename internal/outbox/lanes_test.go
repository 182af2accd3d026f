package outbox_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/sms"
	vtest "sendcode/internal/verification/verificationtest"
)

// slowCarrier takes a while for each message, fails with an error or accepts, and notes how many requests it had at once.
type slowCarrier struct {
	vtest.Carrier
	each      time.Duration
	fail      error
	mu        sync.Mutex
	now, most int
}

func (c *slowCarrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	select {
	case <-time.After(c.each):
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	r, _ := c.Carrier.Send(ctx, m)
	return r, c.fail
}

// Every text message hangs, far more than there is room for; a mail goes out at once all the same, and so does one that
// had to wait in the log behind all of them.
func TestHangingCarrierHoldsUpNoMail(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		dead := &slowCarrier{each: 20 * time.Second, fail: &sms.Error{Class: delivery.Temporary, Stage: sms.StageDial}}
		r.Svc = r.ReplicaOn(r.Store, r.MailServer, dead)
		r.Svc.Queue.Capacity = memory
		r.Start()
		for n := range memory + 300 {
			r.NoError(vtest.Err(r.Svc.Send(r.Context(), vtest.TextTo(vtest.NthNumber(n)))))
		}
		synctest.Wait()
		for n := range 3 * outbox.DefaultWorkers {
			if a := r.SendTo(vtest.NthAddress(n)); r.Status(a) != "sent" {
				t.Fatalf("mail %d waits", n)
			}
		}
		r.MailServer.Answer(later)
		a := r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.WantStatus(a, "sent")
	})
}

// The reverse: mails hang, and a text message goes out at once, also one that waited in the log.
func TestHangingMailServerHoldsUpNoText(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Svc = r.Replica(&vtest.SlowMailServer{Each: time.Minute})
		r.Svc.Queue.Capacity = memory
		r.Start()
		r.SendMany(0, memory+300)
		synctest.Wait()
		for n := range 3 * outbox.DefaultWorkers {
			if a := r.Send(vtest.TextTo(vtest.NthNumber(n))); r.Status(a) != "sent" {
				t.Fatalf("text message %d waits", n)
			}
		}
		r.Carrier.Fail(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		r.Sleep(10 * time.Second)
		r.WantStatus(a, "sent")
	})
}

// Each channel has so many workers and no more.
func TestWorkersOfAChannelAreBounded(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) { vtest.ServeCountries("DE")(s); s.Workers = 5 }, func(r *vtest.Rig) {
		carrier := &slowCarrier{each: time.Second}
		r.Svc = r.ReplicaOn(r.Store, r.MailServer, carrier)
		r.Start()
		for n := range 40 {
			r.NoError(vtest.Err(r.Svc.Send(r.Context(), vtest.TextTo(vtest.NthNumber(n)))))
		}
		r.Sleep(10 * time.Second)
		if len(carrier.Accepted()) != 40 || carrier.most != 5 {
			t.Errorf("%d text messages, %d at once", len(carrier.Accepted()), carrier.most)
		}
	})
}
