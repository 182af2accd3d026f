package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/parts"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/vault"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

func TestWhatAFailureMeans(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   func(context.Context) error
		status   store.Status
		reason   string
		code     string
		refunded bool
	}{
		{"mailbox unknown", vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"), store.Failed, "rejected", "550 5.1.1", true},
		{"policy", vtest.FailWith(delivery.Rejected, "dot", 554, "5.7.1"), store.Failed, "rejected", "554 5.7.1", true},
		{"no answer after the dot", vtest.FailWith(delivery.Unknown, "dot", 0, ""), store.Unknown, "no_answer", "", false},
		{"a failure of no class", func(context.Context) error { return context.DeadlineExceeded }, store.Unknown, "no_answer", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				r.MailServer.Answer(c.answer)
				a := r.SendTo(vtest.Ana)
				send := r.Get(a.View.ID).Send
				if send.Status != c.status || send.Reason != c.reason || send.ProviderCode != c.code {
					t.Errorf("%+v", send)
				}
				r.Sleep(30 * time.Second)
				if n := len(r.MailServer.All()); n != 1 {
					t.Errorf("%d attempts", n)
				}
				if c.refunded {
					r.SendTo(vtest.Ana) // in both gates, or it would be refused
					return
				}
				r.RefuseTo(vtest.Ana)
			})
		})
	}
}

func TestRefundIsRepeated(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.Limiter.Set(vtest.LostRefund{Limiter: quota.NewMemory(time.Now, "process"), Calls: new(int)})
		r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana) // the limiter did not hear of it
		r.Sleep(outbox.DefaultLease + 2*outbox.DefaultTick)
		r.SendTo(vtest.Ana)
	})
}

// A refund that the limiter has taken is not due again.
func TestARefundIsMadeOnce(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		due, err := r.Store.RefundsDue(r.Context(), time.Microsecond, 10)
		r.NoError(err)
		if len(due) != 0 {
			t.Errorf("due again: %+v", due)
		}
	})
}

func TestTemporaryFailureIsRetried(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.SendTo(vtest.Ana)
		if s := r.Get(a.View.ID).Send; s.Status != store.Queued || s.ProviderCode != "451 4.7.1" || s.Reason != "temporary_rcpt" {
			t.Fatalf("after a temporary failure: %+v", s)
		}
		r.Sleep(10 * time.Second)
		mails := r.MailServer.All()
		if len(mails) != 2 || mails[0].ID != mails[1].ID || vtest.CodeIn(mails[0]) != vtest.CodeIn(mails[1]) {
			t.Fatalf("a retry carries the same code and Message-ID: %d mails", len(mails))
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent || s.Number != 1 || s.Attempt != 2 {
			t.Errorf("after the retry: %+v", s)
		}
		r.RefuseTo(vtest.Ana)
	})
}

func TestRetriesEndBeforeTheCodeDoes(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		for range 1000 {
			r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "dial", 0, ""))
		}
		a := r.SendTo(vtest.Ana)
		r.Sleep(11 * time.Minute)
		send := r.Get(a.View.ID).Send
		if send.Status != store.Failed || send.Reason != "expired" {
			t.Errorf("%+v", send)
		}
		if n := len(r.MailServer.All()); n < 10 || n > 60 {
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}

// A retry that would come after the code's end is not waited for: the send ends at once, and its place is free.
func TestNoRetryAfterTheCodesEnd(t *testing.T) {
	for wait, want := range map[time.Duration]store.Status{10*time.Minute - time.Second: store.Queued, 10 * time.Minute: store.Failed} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.MailServer.Answer(func(context.Context) error {
				return &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Status: 451, RetryAfter: wait, Err: errors.New("later")}
			})
			a := r.SendTo(vtest.Ana)
			if s := r.Get(a.View.ID).Send; s.Status != want {
				t.Errorf("after %v: %s %s", wait, s.Status, s.Reason)
			}
		})
	}
}

func TestServerThatComesBackGetsTheLiveOnes(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		for range 9 {
			r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "dial", 0, ""))
		}
		a := r.SendTo(vtest.Ana)
		r.Sleep(5 * time.Minute)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
	})
}

// No process was there for the next try; what the server said at the last one stays with the send, for those who are asked why.
func TestExpiredKeepsTheServersLastWord(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		dead := &vtest.MailServer{}
		dead.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 452, "4.2.2"))
		a, err := r.Replica(dead).Send(r.Context(), vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Sleep(10 * time.Minute)
		r.Start()
		r.Sleep(time.Second)
		if s := r.Get(a.View.ID).Send; s.Reason != "expired" || s.ProviderCode != "452 4.2.2" {
			t.Errorf("%+v", s)
		}
		r.Quit()
	})
}

func TestExpiredInTheQueueIsNotSent(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		dead := &vtest.MailServer{}
		release := make(chan struct{})
		dead.Answer(vtest.Hang(release))
		a, err := r.Replica(dead).Send(r.Context(), vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Sleep(10 * time.Minute)
		r.Start()
		r.Sleep(time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Failed || s.Reason != "expired" {
			t.Errorf("%+v", s)
		}
		if n := len(r.MailServer.All()); n != 0 {
			t.Errorf("%d dead codes sent", n)
		}
		close(release)
		r.Quit()
	})
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		r.Start()
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		a := r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		r.Stop()
		r.Sleep(5 * time.Second)
		close(release)
		<-r.Stopped
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		rows, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Refused, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("refusals were lost at the stop: %d, %v", len(rows), err)
		}
	})
}

func TestStopHandsBackWhatHangs(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, nil)
		r.Start()
		r.MailServer.Answer(func(ctx context.Context) error {
			<-ctx.Done()
			return &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Err: ctx.Err()}
		})
		a := r.SendTo(vtest.Ana)
		began := time.Now()
		r.Quit()
		if took := time.Since(began); took > outbox.StopWait+time.Second {
			t.Errorf("the stop took %v", took)
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Queued {
			t.Errorf("%+v", s)
		}
	})
}

func TestRebuildAfterARestart(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		fresh := vtest.NewRig(r.T, nil)
		fresh.Svc = fresh.ReplicaOn(r.Store, r.MailServer, r.Carrier)
		if err := fresh.Svc.Rebuilder.Rebuild(r.Context(), "process"); err != nil {
			t.Fatal(err)
		}
		a, err := fresh.Svc.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
		if err != nil || a.Quota.RetryAfter() != 50*time.Second || a.Quota.Rules[2].Used != 1 {
			t.Errorf("%+v, %v", a.Quota, err)
		}
	})
}

// What can't be composed ends at once, with its reason, and costs nothing.
func TestWhatCannotBeComposedFails(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*vtest.Rig)
	}{
		{"unreadable", func(r *vtest.Rig) {
			r.Svc.Use(vault.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(r.T, "k2:"+vtest.NewKey)})
		}},
		{"template", func(r *vtest.Rig) {
			r.Svc.Change(policy.Set{Purposes: r.Settings.Purposes, Apps: map[string]policy.App{"shop": {Title: "https://shop.example"}}})
		}},
	} {
		parts.Bubble(t, func(t *testing.T) {
			r := vtest.NewRig(t, nil)
			dead, release := &vtest.MailServer{}, make(chan struct{})
			dead.Answer(vtest.Hang(release))
			a, err := r.Replica(dead).Send(r.Context(), vtest.AskFor(vtest.Ana))
			if err != nil || !a.Admitted {
				t.Fatal(err)
			}
			c.change(r)
			r.Sleep(outbox.DefaultLease)
			r.Start()
			r.Sleep(2 * time.Second)
			if s := r.Get(a.View.ID).Send; s.Status != store.Failed || s.Reason != c.reason {
				t.Errorf("%s: %+v", c.reason, s)
			}
			if n := len(r.MailServer.All()); n != 0 {
				t.Errorf("%s: %d mails", c.reason, n)
			}
			close(release)
			r.Quit()
			r.NoLeak()
		})
	}
}
