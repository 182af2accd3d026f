package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

var temporaryFailure = vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1")

func TestOutcomeOfEachFailure(t *testing.T) {
	type row struct {
		answer   func(context.Context) error
		want     vtest.Send
		refunded bool
	}
	rejected := func(code string) vtest.Send {
		return vtest.Send{Status: store.Failed, Reason: store.ReasonRejected, Provider: "mx.example", ProviderCode: code, Attempt: 1}
	}
	noAnswer := vtest.Send{Status: store.Unknown, Reason: "no_answer", Provider: "mx.example", Attempt: 1}
	vtest.EachInForm(t, map[string]row{
		"mailbox unknown":         {vtest.NoMailbox, rejected("550 5.1.1"), true},
		"policy":                  {vtest.FailWith(delivery.Rejected, "dot", 554, "5.7.1"), rejected("554 5.7.1"), true},
		"no answer after the dot": {vtest.FailWith(delivery.Unknown, "dot", 0, ""), noAnswer, false},
		"a failure of no class":   {func(context.Context) error { return context.DeadlineExceeded }, noAnswer, false},
	}, nil, func(r *vtest.Rig, c row) {
		r.MailServer.Answer(c.answer)
		a := r.SendTo(vtest.Ana)
		r.WantSend(a.View.ID, c.want)
		r.Sleep(time.Minute - time.Microsecond)
		r.WantMails(1)
		due, err := r.Store.LeaseDueRefunds(r.Context(), time.Microsecond, 10)
		wantDue := c.refunded && r.Settings.Form == vtest.RedisAway
		vtest.Equal(r, "refunds that are due", len(due) > 0, wantDue)
		r.NoError(err)
		if c.refunded {
			r.Want("counted", r.QuotaOf("").Rules[0].Used, 0)
			r.SendTo(vtest.Ana) // the place is also free in the database; otherwise this send would be refused
			return
		}
		r.RefuseTo(vtest.Ana)
	})
}

func TestTemporaryFailureIsRetried(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(temporaryFailure)
		a := r.SendTo(vtest.Ana)
		r.WantSend(a.View.ID, vtest.Send{
			Status: store.Queued, Reason: "temporary_rcpt", Provider: "mx.example", ProviderCode: "451 4.7.1", Attempt: 1,
		})
		r.Sleep(10 * time.Second)
		if mails := r.MailServer.Attempts(); len(mails) != 2 || mails[0].MessageID != mails[1].MessageID || r.Code(0) != r.Code(1) {
			t.Fatalf("a retry carries the same code and Message-ID: %d mails", len(mails))
		}
		r.WantSend(a.View.ID, vtest.Send{Status: store.Sent, Provider: "mx.example", ProviderCode: "250 2.0.0", Attempt: 2})
		r.Want("number of the send", r.NewestSend(a.View.ID).Number, 1)
		r.RefuseTo(vtest.Ana)
	})
}

// If a server asks for a pause, it gets no mail during the pause. A send does not wait for a retry
// that would come after its code has expired: it fails at once.
func TestNoRetryAfterTheCodesEnd(t *testing.T) {
	for wait, want := range map[time.Duration]store.Status{10*time.Minute - time.Second: store.Queued, 10 * time.Minute: store.Failed} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.MailServer.Answer(func(context.Context) error {
				return &delivery.Error{
					Class: delivery.Temporary, Stage: "rcpt", Status: 451, About: delivery.AboutRecipient,
					RetryAfter: wait, Err: errors.New("later"),
				}
			})
			a := r.SendTo(vtest.Ana)
			r.Want(wait.String(), r.Get(a.View.ID).Send.Status, want)
			r.Sleep(2 * time.Minute)
			r.WantMails(1)
		})
	}
}

// paced returns the answer for a mail above the pace of its server.
func paced(turn time.Duration) func(context.Context) error {
	return func(context.Context) error {
		return &delivery.Error{Class: delivery.Temporary, Stage: "dial", About: delivery.AboutPace, RetryAfter: turn, Err: delivery.ErrPace}
	}
}

// A mail above the pace is tried at its turn, however often it was tried before. It waits until its
// code expires.
func TestRetryAboveThePace(t *testing.T) {
	vtest.InBubbleWith(t, vtest.DefaultTick(nil), func(r *vtest.Rig) {
		for range 9 {
			r.MailServer.Answer(paced(2 * time.Second))
		}
		r.MailServer.Answer(paced(time.Hour))
		a := r.SendTo(vtest.Ana)
		r.Sleep(40 * time.Second)
		r.WantMails(10)
		r.WantStatus(a, "queued backlog")
		r.Sleep(10*time.Minute - 41*time.Second)
		r.WantStatus(a, "queued backlog")
		r.Sleep(5 * time.Second)
		r.WantStatus(a, "failed expired")
		r.WantMails(10)
	})
}

// A send whose code expired while no process ran is not sent. It keeps the server's answer to the
// last attempt.
func TestExpiredInTheQueueIsNotSent(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		a, _, release := r.SendByDeadProcess(vtest.FailWith(delivery.Temporary, "rcpt", 452, "4.2.2"))
		release()
		r.Sleep(10 * time.Minute)
		r.Start()
		r.Sleep(time.Second)
		r.WantSend(a.View.ID, vtest.Send{
			Status: store.Failed, Reason: "expired", Provider: "mx.example", ProviderCode: "452 4.2.2", Attempt: 2,
		})
		r.WantMails(0)
	})
}

// EndWaits answers a request that waits for its outcome, with the status queued.
func TestEndWaits(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		release, waited := make(chan struct{}), make(chan string)
		r.MailServer.Answer(vtest.Hang(release))
		go func() {
			waited <- string(r.AskAt(r.Svc, vtest.AskFor(vtest.Ana, vtest.Waiting(time.Hour)), true).View.Send.Status)
		}()
		synctest.Wait()
		r.Svc.Core.Outbox.EndWaits()
		r.Want("status", <-waited, "queued")
		close(release)
	})
}

func TestStopFinishesSendsInFlight(t *testing.T) {
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
		r.Want("rows with the refusal", len(r.Rows()), 2)
	})
}

// A stop does not wait for a mail that waits for its turn.
func TestStopEndsTheWaitForATurn(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(func(ctx context.Context) error {
			select {
			case <-delivery.Stopping(ctx):
			case <-ctx.Done():
			}
			return paced(time.Second)(ctx)
		})
		a := r.SendTo(vtest.Ana)
		began := time.Now()
		r.Quit()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
		r.WantStatus(a, "queued backlog")
	})
}

// A send that cannot be composed ends at once, with its reason, and its place is free in both
// gates. If an earlier attempt may have sent the message, the status is Unknown, and the place
// stays spent.
func TestSendThatCannotBeComposedFails(t *testing.T) {
	for reason, change := range map[string]func(*vtest.Rig){
		outbox.ReasonUnreadable: func(r *vtest.Rig) {
			r.Svc.SetVault(keys.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(r.T, "k2:"+vtest.NewKey)})
		},
		delivery.ReasonTemplate: func(r *vtest.Rig) {
			r.Svc.Change(policy.Set{Purposes: r.Settings.Purposes, Apps: map[string]policy.App{"shop": {Title: "https://shop.example"}}})
		},
	} {
		t.Run(reason, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				r.MailServer.Answer(temporaryFailure)
				a := r.SendTo(vtest.Ana)
				wantPlaces(r, 1)
				r.Quit() // the next process has other settings
				change(r)
				r.Start()
				r.Sleep(10 * time.Second)
				r.WantStatus(a, "failed "+reason)
				r.WantMails(1)
				wantPlaces(r, 0)
			})
		})
		t.Run(reason+" in doubt", func(t *testing.T) {
			vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
				a, _, release := r.SendByDeadProcess(nil)
				change(r)
				r.Sleep(outbox.DefaultLease)
				r.Start()
				r.Sleep(2 * time.Second)
				r.WantStatus(a, "unknown "+reason)
				r.WantMails(0)
				wantPlaces(r, 1)
				release()
			})
		})
	}
}

// wantPlaces fails the test unless Ana has this number of places taken, both in the limiter and in
// the database.
func wantPlaces(r *vtest.Rig, want int) {
	r.Helper()
	bucket := store.SendBucket{App: "shop", Channel: "email", Recipient: r.AnaTarget().Recipient, Purposes: []string{"default", "login"}}
	h, err := r.Store.ReadHistory(r.Context(), rowrules.HistoryQuery{SendBucket: bucket, CountedWithin: time.Hour})
	r.NoError(err)
	vtest.Equal(r, "places of the hour by limiter", r.Counted().Rules[1].Used, want)
	vtest.Equal(r, "database", len(h.Past), want)
}

// If a code ends while its mail waits for a worker, the mail is not sent. The place is given back,
// except if the recipient was erased, since an erasure frees no quota.
func TestCodeEndedInTheQueueIsNotSent(t *testing.T) {
	type row struct {
		end    func(r *vtest.Rig, id string) error
		reason string
		used   int
	}
	lock := func(r *vtest.Rig, id string) (err error) {
		for range verification.MaxAttempts {
			_, err = r.Store.Check(r.Context(), storetest.Wrong(id))
		}
		return err
	}
	vtest.EachInBubble(t, map[string]row{
		"approved": {func(r *vtest.Rig, id string) error {
			return vtest.Err(r.Store.Check(r.Context(), storetest.Right(id)))
		}, store.ReasonEnded, 0},
		"canceled": {func(r *vtest.Rig, id string) error { return vtest.Err(r.Store.Cancel(r.Context(), id)) }, store.ReasonEnded, 0},
		"erased": {func(r *vtest.Rig, _ string) error {
			return r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase"))
		}, store.ReasonErased, 1},
		"expired":                     {func(r *vtest.Rig, _ string) error { r.Sleep(10 * time.Minute); return nil }, outbox.ReasonExpired, 0},
		"locked":                      {lock, store.ReasonEnded, 0},
		"expired, without a try left": {func(r *vtest.Rig, id string) error { defer r.Sleep(10 * time.Minute); return lock(r, id) }, outbox.ReasonExpired, 0},
	}, func(s *vtest.Settings) { s.Workers = 1 }, func(r *vtest.Rig, c row) {
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		r.SendTo("first@example.com")
		a := r.SendTo(vtest.Ana)
		r.Sleep(3 * time.Second)
		r.NoError(c.end(r, a.View.ID))
		close(release)
		r.Sleep(time.Second)
		r.WantStatus(a, "failed "+c.reason)
		r.WantMails(1)
		wantPlaces(r, c.used)
	})
}
