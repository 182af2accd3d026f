package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/vault"
	vtest "sendcode/internal/verification/verificationtest"
)

var later = vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1")

func TestWhatAFailureMeans(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   func(context.Context) error
		status   store.Status
		reason   string
		code     string
		refunded bool
	}{
		{"mailbox unknown", vtest.NoMailbox, store.Failed, "rejected", "550 5.1.1", true},
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
				r.Sleep(time.Minute - time.Microsecond)
				r.WantMails(1)
				due, err := r.Store.RefundsDue(r.Context(), time.Microsecond, 10)
				if err != nil || len(due) != 0 {
					t.Errorf("the limiter has heard, and a refund is due: %+v, %v", due, err)
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
		r.MailServer.Answer(vtest.NoMailbox)
		r.LoseFirstRefund()
		r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana) // the limiter did not hear of it
		r.Sleep(outbox.DefaultLease + 2*outbox.DefaultTick)
		r.SendTo(vtest.Ana)
	})
}

func TestTemporaryFailureIsRetried(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(later)
		a := r.SendTo(vtest.Ana)
		if s := r.Get(a.View.ID).Send; s.Status != store.Queued || s.ProviderCode != "451 4.7.1" || s.Reason != "temporary_rcpt" {
			t.Fatalf("after a temporary failure: %+v", s)
		}
		r.Sleep(10 * time.Second)
		if mails := r.MailServer.Attempts(); len(mails) != 2 || mails[0].ID != mails[1].ID || r.Code(0) != r.Code(1) {
			t.Fatalf("a retry carries the same code and Message-ID: %d mails", len(mails))
		}
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent || s.Number != 1 || s.Attempt != 2 {
			t.Errorf("after the retry: %+v", s)
		}
		r.RefuseTo(vtest.Ana)
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

// A send whose code expired while no process was there is not sent. What the server said at the last try stays with it.
func TestExpiredInTheQueueIsNotSent(t *testing.T) {
	for code, answer := range map[string]func(context.Context) error{
		"": nil, "452 4.2.2": vtest.FailWith(delivery.Temporary, "rcpt", 452, "4.2.2"),
	} {
		vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
			a, _, release := r.Orphan(answer)
			if answer != nil {
				release()
			}
			r.Sleep(10 * time.Minute)
			r.Start()
			r.Sleep(time.Second)
			if s := r.Get(a.View.ID).Send; s.Status != store.Failed || s.Reason != "expired" || s.ProviderCode != code {
				t.Errorf("%+v", s)
			}
			r.WantMails(0)
			if answer == nil {
				release()
			}
		})
	}
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		a := r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		r.Stop()
		r.Sleep(5 * time.Second)
		close(release)
		<-r.Stopped
		r.WantStatus(a, "sent")
		if n := len(r.Rows()); n != 2 {
			t.Errorf("%d rows: the refusal was lost", n)
		}
	})
}

func TestStopHandsBackWhatHangs(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
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

// A send that cannot be composed ends at once, with its reason, and costs nothing.
func TestWhatCannotBeComposedFails(t *testing.T) {
	for reason, change := range map[string]func(*vtest.Rig){
		"unreadable": func(r *vtest.Rig) {
			r.Svc.Use(vault.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(r.T, "k2:"+vtest.NewKey)})
		},
		"template": func(r *vtest.Rig) {
			r.Svc.Change(policy.Set{Purposes: r.Settings.Purposes, Apps: map[string]policy.App{"shop": {Title: "https://shop.example"}}})
		},
	} {
		vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
			a, _, release := r.Orphan(nil)
			change(r)
			r.Sleep(outbox.DefaultLease)
			r.Start()
			r.Sleep(2 * time.Second)
			r.WantStatus(a, "failed "+reason)
			r.WantMails(0)
			release()
		})
	}
}

// A send that ended while its mail waited for a worker is not sent. Its place is given back, but not where the recipient was erased: to
// be erased frees no quota.
func TestEndedWhileItWaited(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(r *vtest.Rig, id string) error
		reason string
		used   int
	}{
		"approved": {func(r *vtest.Rig, id string) error {
			return vtest.Err(r.Store.Approve(r.Context(), id, store.NewEvent{}))
		}, outbox.ReasonEnded, 0},
		"canceled": {func(r *vtest.Rig, id string) error { return vtest.Err(r.Store.Cancel(r.Context(), id)) }, outbox.ReasonEnded, 0},
		"erased": {func(r *vtest.Rig, _ string) error {
			return r.Svc.Desk.Erase(r.Context(), r.Person(), vtest.AuditEntry("erase"))
		}, store.ReasonErased, 1},
		"expired": {func(r *vtest.Rig, _ string) error { r.Sleep(10 * time.Minute); return nil }, outbox.ReasonExpired, 0},
		"expired, without a try left": {func(r *vtest.Rig, id string) (err error) {
			for range 5 {
				_, _, _, err = r.Store.Attempt(r.Context(), id)
			}
			r.Sleep(10 * time.Minute)
			return err
		}, outbox.ReasonExpired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Workers = 1 }, func(r *vtest.Rig) {
				release := make(chan struct{})
				r.MailServer.Answer(vtest.Hang(release))
				r.SendTo("first@example.com")
				a := r.SendTo(vtest.Ana)
				bucket := store.Bucket{
					App: "shop", Channel: "email", Recipient: r.Person().Recipient, Purposes: []string{"default", "login"},
				}
				r.Sleep(3 * time.Second)
				r.NoError(c.end(r, a.View.ID))
				close(release)
				r.Sleep(time.Second)
				r.WantStatus(a, "failed "+c.reason)
				r.WantMails(1)
				rows, _, err := r.Store.HistoryAt(r.Context(), bucket, time.Hour, store.LogClock, time.Time{})
				if used := r.QuotaOf("").Rules[1].Used; err != nil || used != c.used || len(rows) != c.used {
					t.Errorf("%d places of the hour are taken, the log counts %d, want %d; %v", used, len(rows), c.used, err)
				}
			})
		})
	}
}
