package outbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// A process stops after it has admitted a send and before the mail has left. Another process takes
// the send over, and the app gets one event. If the first process runs on after that, it changes
// nothing.
func TestTakeOverAfterACrash(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.SubscribeAll, func(r *vtest.Rig) {
		a, dead, release := r.SendByDeadProcess(nil)
		r.Start()
		r.Sleep(10 * time.Second)
		mails := r.MailServer.Attempts()
		if len(mails) != 1 || mails[0].MessageID != dead.Attempts()[0].MessageID || r.Code(0) != vtest.CodeIn(dead.Attempts()[0]) {
			t.Fatalf("after ten seconds: %d mails", len(mails))
		}
		for range 2 {
			r.WantSend(a.View.ID, vtest.Send{Status: store.Sent, Provider: "mx.example", ProviderCode: "250 2.0.0", Attempt: 2, InDoubt: true})
			r.WantEvents("send.sent")
			if release != nil { // the stopped process runs on and changes nothing
				release()
			}
			release = nil
		}
	})
}

// After another replica delivered the mail, the stopped process gets a refusal for its own attempt.
// That causes no refund, no counted failure, and no change of the send's state.
func TestTakeOverFromASleeper(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.BoundFailures, func(r *vtest.Rig) {
		a, _, release := r.SendByDeadProcess(vtest.NoMailbox)
		r.Start()
		r.Sleep(20 * time.Second)
		release()
		r.Sleep(time.Second)
		vtest.Equal(r, "status", r.Status(a), "sent")
		vtest.Equal(r, "failures", r.CountedFailures().Used, 0)
		vtest.Equal(r, "places", r.QuotaOf("").Rules[0].Used, 1)
	})
}

// If a lease could not be renewed in time, this process takes its own row over. The attempt under
// way continues under the new number: its outcome is written, and no second mail is sent. The place
// of a refused mail stays spent, since the row is in doubt.
func TestTakeOverOfOwnRow(t *testing.T) {
	for want, answer := range map[store.Status]func(context.Context) error{
		store.Sent: func(context.Context) error { return nil }, store.Failed: vtest.NoMailbox,
		store.Unknown: vtest.FailWith(delivery.Rejected, "dot", 554, "5.6.0"), // the first attempt may have delivered the mail
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			release := make(chan struct{})
			r.MailServer.Answer(func(ctx context.Context) error { <-release; return answer(ctx) })
			a := r.SendTo(vtest.Ana)
			r.FailStore(sqlitetest.Down, "RenewLeases")
			r.Sleep(10 * time.Second)
			r.EndStoreFaults()
			r.Want("the attempt, once it is taken over", r.NewestSend(a.View.ID).Attempt, 2)
			close(release)
			r.Sleep(30 * time.Second)
			s := r.NewestSend(a.View.ID)
			vtest.Equal(r, "status", s.Status, want)
			vtest.Equal(r, "attempt", s.Attempt, 2)
			vtest.Equal(r, "places", r.Counted().Rules[1].Used, 1)
			r.WantMails(1)
		})
	}
}

// lateAnswers is a database whose answer to Postpone comes late.
type lateAnswers struct{ *sqlitetest.DB }

func (l lateAnswers) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	done, err := l.DB.Postpone(ctx, p)
	time.Sleep(5 * time.Second)
	return done, err
}

// A postponed row may be due again, and be taken over, before the call of Postpone was answered.
// Then its next attempt begins at once, and the row is not in doubt.
func TestTakeOverOfPostponedRowBeforeTheAnswer(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.DefaultTick(nil), func(r *vtest.Rig) {
		r.Svc = r.ReplicaOn(lateAnswers{r.Store}, r.MailServer, r.Carrier)
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1"))
		r.Start()
		a := r.SendTo(vtest.Ana)
		r.Sleep(7 * time.Second)
		r.WantSend(a.View.ID, vtest.Send{Status: store.Sent, Provider: "mx.example", ProviderCode: "250 2.0.0", Attempt: 2})
		held, _ := r.Svc.Outbox.Held(recipient.Email)
		r.Want("held", held, 0)
		r.WantMails(2)
	})
}

// lateOutcomes is a database that gets the first outcome late.
type lateOutcomes struct {
	*sqlitetest.DB
	first *sync.Once
}

func (l lateOutcomes) Finish(ctx context.Context, out store.Outcome) (bool, error) {
	l.first.Do(func() { time.Sleep(4 * time.Second) })
	return l.DB.Finish(ctx, out)
}

// If this process takes over its own row while the outcome is being written, the outcome is written
// under the new number.
func TestTakeOverOfOwnRowDuringItsOutcome(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		r.Svc = r.ReplicaOn(lateOutcomes{r.Store, new(sync.Once)}, r.MailServer, r.Carrier)
		r.MailServer.Delay = 7 * time.Second
		r.FailStore(sqlitetest.Down, "RenewLeases")
		r.Start()
		a := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.WantSend(a.View.ID, vtest.Send{Status: store.Sent, Provider: "mx.example", ProviderCode: "250 2.0.0", Attempt: 2, InDoubt: true})
		r.WantMails(1)
	})
}

// A limiter that hangs does not keep leases from being renewed. Otherwise another replica would
// send the mail again.
func TestLeasesAreRenewedWhileTheLimiterHangs(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		a := r.SendTo(vtest.Ana)
		r.Limiter.Intercept(func(ctx context.Context, _ string, _ func() error) error {
			<-ctx.Done()
			return quota.ErrUnavailable
		})
		// Each tick repeats this refund.
		r.Svc.Gates.RefundLater("a send without a row", "b")
		r.Sleep(9 * time.Minute)
		r.Want("the attempt", r.NewestSend(a.View.ID).Attempt, 1)
		close(release)
		r.Sleep(time.Second)
		r.WantStatus(a, "sent")
	})
}

// If the mail was sent and the database is unavailable, no process sends the mail again, however
// long the outage lasts. The outcome is written within a second after its end.
func TestOutcomeIsWrittenAfterADatabaseOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		a := r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		r.LoseStore()
		close(release)
		r.Sleep(3 * time.Minute)
		r.EndStoreFaults()
		r.Sleep(time.Second)
		r.WantMails(1)
		r.WantStatus(a, "sent")
	})
}

// Due sends are taken over at once, batch after batch.
func TestTakeOverOfMoreThanABatch(t *testing.T) {
	const n = 501 // a batch is 500
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		release := make(chan struct{})
		for range outbox.DefaultWorkers {
			r.MailServer.Answer(vtest.Hang(release))
		}
		r.SendMany(0, n) // these belong to a process that does not run
		r.Sleep(9 * time.Second)
		r.Svc = r.Replica(&vtest.MailServer{Delay: time.Minute})
		r.Svc.Outbox.Capacity = 600 // after a batch, more than half of the capacity is used, so that no worker fetches more
		r.Start()
		synctest.Wait()
		held, _ := r.Svc.Outbox.Held(recipient.Email)
		r.Want("held", held, n)
		close(release)
	})
}

// A failure has the same age on the limiter's clock as on this process's clock, even if the two
// clocks differ by an hour.
func TestFailuresAreRecordedOnTheLimitersClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
			r.Limiter.Set(quota.NewMemory(func() time.Time { return time.Now().Add(off) }))
			r.FailSends(1) // a minute passes
			got := r.CountedFailures()
			vtest.Equal(r, off.String()+": Used", got.Used, 1)
			vtest.Equal(r, off.String()+": ResetAfter", got.ResetAfter, 24*time.Hour-time.Minute)
		})
	}
}

// The database's clock is set back by more than a code lives, and the process notices it only after
// some seconds. No code counts as expired, and leases are renewed as before.
func TestDatabaseClockSetBackExpiresNoCode(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		var off atomic.Int64
		off.Store(int64(11 * time.Minute))
		r.Svc.Outbox.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		r.Start()
		r.MailServer.Answer(temporaryFailure)
		a := r.SendTo(vtest.Ana)
		r.WantStatus(a, "queued temporary_rcpt")
		release := make(chan struct{})
		r.MailServer.Answer(vtest.Hang(release))
		r.Sleep(5 * time.Second)
		off.Store(0)
		r.Sleep(20 * time.Second)
		close(release)
		r.Sleep(time.Second)
		s := r.NewestSend(a.View.ID)
		vtest.Equal(r, "the send: Status", s.Status, "sent")
		vtest.Equal(r, "the send: Attempt", s.Attempt, 2)
		vtest.Equal(r, "the send: InDoubt", r.Rows()[0].InDoubt, false)
		r.WantMails(2)
	})
}

// If a process may have delivered a send before it died, and the next process delivers no message,
// the outcome is unknown, unless a server says that there is no such mailbox. The place stays
// spent, and the app gets an event. A code that was entered proves that the message arrived, if no
// other send of the verification can have brought it.
func TestOutcomesInDoubt(t *testing.T) {
	approve := func(r *vtest.Rig, a verification.Answer) {
		r.NoError(vtest.Err(r.Store.Check(r.Context(), storetest.Right(a.View.ID))))
	}
	for name, c := range map[string]struct {
		then   func(r *vtest.Rig, a verification.Answer)
		want   string
		before []string // events
	}{
		"approved": {then: approve, want: "sent"},
		"approved, after a refusal": {func(r *vtest.Rig, a verification.Answer) {
			r.MailServer.Answer(func(context.Context) error {
				approve(r, a) // while the attempt is under way
				return vtest.FailWith(delivery.Rejected, "dot", 554, "5.7.1")(r.Context())
			})
		}, "sent", nil},
		"approved, after a failed send": {func(r *vtest.Rig, a verification.Answer) {
			r.Sleep(time.Minute)
			r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "dot", 554, "5.7.1"))
			r.AskAt(r.Replica(r.MailServer), vtest.AskFor(vtest.Ana, vtest.Resending(a.View.ID)), true)
			synctest.Wait()
			approve(r, a)
		}, "sent", []string{"send.failed rejected"}},
		"approved, after another send": {func(r *vtest.Rig, a verification.Answer) {
			r.Sleep(time.Minute)
			r.AskAt(r.Replica(r.MailServer), vtest.AskFor(vtest.Ana, vtest.Resending(a.View.ID)), true)
			synctest.Wait()
			approve(r, a)
		}, "unknown ended", []string{"send.sent"}},
		"canceled": {func(r *vtest.Rig, a verification.Answer) {
			r.NoError(vtest.Err(r.Store.Cancel(r.Context(), a.View.ID)))
		}, "unknown ended", nil},
		"expired": {func(r *vtest.Rig, _ verification.Answer) { r.Sleep(10 * time.Minute) }, "unknown expired", nil},
		"paused":  {func(r *vtest.Rig, _ verification.Answer) { r.Pause(policy.Pause{}) }, "unknown paused", nil},
		"erased": {func(r *vtest.Rig, _ verification.Answer) {
			r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		}, "unknown erased", nil},
		"refused": {func(r *vtest.Rig, _ verification.Answer) {
			r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "dot", 554, "5.7.1"))
		}, "unknown rejected", nil},
		"put off to the end": {func(r *vtest.Rig, _ verification.Answer) {
			r.MailServer.Answer(func(context.Context) error {
				return &delivery.Error{
					Class: delivery.Temporary, Stage: "rcpt", Status: 451, About: delivery.AboutRecipient,
					RetryAfter: time.Hour, Err: errors.New("later"),
				}
			})
		}, "unknown expired", nil},
		"no such mailbox": {func(r *vtest.Rig, _ verification.Answer) { r.MailServer.Answer(vtest.NoMailbox) }, "failed rejected", nil},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleIdle(t, vtest.SubscribeAll, func(r *vtest.Rig) {
				a, _, release := r.SendByDeadProcess(nil)
				c.then(r, a)
				r.Sleep(outbox.DefaultLease)
				r.Start()
				r.Sleep(2 * time.Second)
				row := r.Rows()[0]
				vtest.Equal(r, "the send", strings.TrimSpace(string(row.Status)+" "+row.Reason), c.want)
				vtest.Equal(r, "its place stays spent", row.Counts, true)
				if row.Status == store.Sent {
					vtest.Equal(r, "who took it: Provider", row.Provider, "")
					vtest.Equal(r, "who took it: ProviderCode", row.ProviderCode, "")
					vtest.Equal(r, "who took it: Took", row.Took, 0)
				}
				r.WantEvents(append(c.before, "send."+c.want)...)
				release()
			})
		})
	}
}
