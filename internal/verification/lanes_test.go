package verification

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/parts"
	"sendcode/internal/store"
)

// deadCarrier is one whose connections open, and that never says anything.
type deadCarrier struct {
	handset
	each time.Duration // that it is waited for
}

func (c *deadCarrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	timer := time.NewTimer(c.each)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	_, _ = c.handset.Send(ctx, m)
	return sms.Receipt{Carrier: "dead"}, &sms.Error{Class: delivery.Temporary, Stage: sms.StageDial}
}

func nthNumber(n int) string { return fmt.Sprintf("+49151%08d", 20_000_000+n) }

// Every text message hangs, far more than there is room for; a mail goes out at once all the same, and so does one that
// had to wait in the log behind all of them.
func TestHangingCarrierHoldsUpNoMail(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, toNumbers("DE"))
		carrier := &deadCarrier{each: 20 * time.Second}
		r.svc = r.replicaWith(r.post, carrier)
		r.svc.outbox.capacity = memory
		r.run()
		for n := range memory + 300 {
			if _, err := r.svc.Send(r.Context(), textTo(nthNumber(n))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for n := range 3 * DefaultWorkers {
			if a := r.send(askFor(nth(n))); r.get(a.View.ID).Send.Status != store.Sent {
				t.Fatalf("mail %d waits", n)
			}
		}
		r.post.tell(failing(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.send(askFor(ana))
		waited(10 * time.Second)
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("the mail that was tried again: %+v", s)
		}
		r.quit()
	})
}

// The reverse: mails hang, and a text message goes out at once, also one that waited in the log.
func TestHangingMailServerHoldsUpNoText(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, toNumbers("DE"))
		r.svc = r.replica(&slowPost{each: time.Minute})
		r.svc.outbox.capacity = memory
		r.run()
		r.crowd(0, memory+300)
		synctest.Wait()
		for n := range 3 * DefaultWorkers {
			if a := r.send(textTo(nthNumber(n))); r.get(a.View.ID).Send.Status != store.Sent {
				t.Fatalf("text message %d waits", n)
			}
		}
		r.handset.fails(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.send(textTo(mobile))
		r.handset.fails(nil)
		waited(10 * time.Second)
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("the text message that was tried again: %+v", s)
		}
		r.quit()
	})
}

// gauge counts who is in it at once.
type gauge struct {
	handset
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
	return g.handset.Send(ctx, m)
}

// Each channel has so many workers and no more.
func TestWorkersOfAChannelAreBounded(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings) { toNumbers("DE")(s); s.Workers = 5 })
		carrier := &gauge{}
		r.svc = r.replicaWith(r.post, carrier)
		r.run()
		for n := range 40 {
			if _, err := r.svc.Send(r.Context(), textTo(nthNumber(n))); err != nil {
				t.Fatal(err)
			}
		}
		waited(10 * time.Second)
		if len(carrier.all()) != 40 || carrier.most != 5 {
			t.Errorf("%d text messages, %d at once", len(carrier.all()), carrier.most)
		}
		r.quit()
	})
}
