package verification_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// Each outcome of a send or a verification causes one event, even if it is reported twice.
func TestEventsTellHowSendsEnd(t *testing.T) {
	send := func(r *vtest.Rig) { r.SendTo(vtest.Ana) }
	retried := func(context.Context) error {
		return &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Err: errors.New("later")}
	}
	for name, c := range map[string]struct {
		prepare func(s *vtest.Settings)
		answer  func(context.Context) error
		run     func(r *vtest.Rig)
		want    []string
	}{
		"sent, then refused": {run: func(r *vtest.Rig) { send(r); r.RefuseTo(vtest.Ana) }, want: []string{"send.sent"}},
		"rejected":           {answer: vtest.NoMailbox, run: send, want: []string{"send.failed rejected"}},
		"unknown":            {answer: vtest.FailWith(delivery.Unknown, "dot", 0, ""), run: send, want: []string{"send.unknown no_answer"}},
		"retried, then sent": {answer: retried, want: []string{"send.sent"}, run: func(r *vtest.Rig) {
			send(r)
			r.WantEvents()
			r.Sleep(10 * time.Second)
		}},
		"expired": {want: []string{"send.failed expired"}, run: send, answer: func(context.Context) error {
			return &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", RetryAfter: time.Hour, Err: errors.New("too late")}
		}},
		"canceled while it waited": {
			answer: retried, want: []string{"verification.canceled", "send.failed ended"},
			run: func(r *vtest.Rig) {
				r.Cancel(r.SendTo(vtest.Ana).View.ID)
				r.Sleep(10 * time.Second)
			},
		},
		"blocked": {want: []string{"send.failed blocked"}, run: send, prepare: func(s *vtest.Settings) {
			s.Blocks = policy.BlockLists{Domains: map[string]bool{"example.com": true}}
		}},
		"a test recipient": {
			prepare: vtest.TestRecipient(t, vtest.Ana, "424242"),
			want:    []string{"send.sent (test)", "verification.approved (test)"},
			run:     func(r *vtest.Rig) { r.Check(r.SendTo(vtest.Ana).View.ID, "424242") },
		},
		"approved": {want: []string{"send.sent", "verification.approved"}, run: func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			for _, code := range []string{r.WrongCode(r.Code(0)), r.Code(0), r.Code(0)} {
				r.Check(a.View.ID, code)
			}
		}},
		"locked, then canceled": {want: []string{"send.sent", "verification.locked", "verification.canceled"}, run: func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			for range verification.MaxAttempts + 1 {
				r.Check(a.View.ID, r.WrongCode(r.Code(0)))
			}
			r.Cancel(a.View.ID)
			r.Sleep(15 * time.Minute) // no event of the expiry follows
		}},
		"approved with the last try": {want: []string{"send.sent", "verification.approved"}, run: func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			for range verification.MaxAttempts - 1 {
				r.Check(a.View.ID, r.WrongCode(r.Code(0)))
			}
			r.Check(a.View.ID, r.Code(0))
		}},
		"canceled, once": {want: []string{"send.sent", "verification.canceled"}, run: func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			r.Cancel(a.View.ID)
			r.Cancel(a.View.ID)
			r.Sleep(15 * time.Minute)
		}},
		"not entered in time, once": {want: []string{"send.sent", "verification.expired"}, run: func(r *vtest.Rig) {
			send(r)
			r.Sleep(10*time.Minute + 5*time.Second)
			r.WantEvents("send.sent") // no event yet, since a check may be about to commit
			r.Sleep(15 * time.Minute)
		}},
		"of a test recipient, not entered in time": {
			prepare: vtest.TestRecipient(t, vtest.Ana, "424242"),
			want:    []string{"send.sent (test)", "verification.expired (test)"},
			run:     func(r *vtest.Rig) { send(r); r.Sleep(15 * time.Minute) },
		},
		"bounced, once": {want: []string{"send.sent", "send.bounced 5.1.1"}, run: func(r *vtest.Rig) {
			bounce := feedback.Event{
				Meaning: feedback.BouncedForGood, Send: uuid.MustParse(r.SendTo(vtest.Ana).View.Send.ID),
				Detail: "5.1.1",
			}
			r.Ingest("bounced", bounce)
			r.Ingest(feedback.Repeated, bounce)
		}},
		"reported as delivered": {want: []string{"send.sent", "send.delivered"}, run: func(r *vtest.Rig) {
			r.Ingest("delivered", feedback.Event{Meaning: feedback.Delivered, Send: uuid.MustParse(r.SendTo(vtest.Ana).View.Send.ID)})
		}},
		"a text, lost and then delivered": {
			prepare: vtest.ServeCountries("DE"),
			want:    []string{"send.sent", "send.undelivered", "send.delivered"}, run: func(r *vtest.Rig) {
				id := uuid.MustParse(r.Send(vtest.TextTo(vtest.Mobile)).View.Send.ID)
				for _, delivered := range []bool{false, false, true, true, false} {
					r.NoError(vtest.Err(r.Svc.Receipts.Record(r.Context(), "fake", id, delivered)))
				}
			},
		},
		"canceled by an administrator, once": {want: []string{"send.sent", "verification.canceled"}, run: func(r *vtest.Rig) {
			v := r.Verification(r.SendTo(vtest.Ana).View.ID)
			for range 2 {
				r.NoError(vtest.Err(r.Svc.Administration.CancelVerification(r.Context(), v, vtest.AuditEntry("cancel"))))
			}
		}},
		"erased": {want: []string{"send.sent", "send.bounced", "send.sent", "verification.expired"}, run: func(r *vtest.Rig) {
			erase := func() {
				r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
			}
			sent := r.SendTo(vtest.Ana)
			erase() // while the code is pending
			r.Ingest("bounced", feedback.Event{Meaning: feedback.Bounced, Send: uuid.MustParse(sent.View.Send.ID)})
			r.Sleep(time.Hour)
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Minute)
			erase() // after the code expired, before its event
			r.Sleep(time.Minute)
			events, err := r.Store.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
			r.NoError(err)
			for _, e := range events {
				r.Want(e.Type, e.To, store.ErasedMask)
			}
		}},
		"another app": {run: func(r *vtest.Rig) { r.SendTo(vtest.Ana, vtest.InApp("other")) }},
		"what it wants alone": {want: []string{"verification.approved"}, prepare: func(s *vtest.Settings) {
			s.Subscriptions = map[string][]string{"shop": {"verification.approved"}}
		}, run: func(r *vtest.Rig) { r.Check(r.SendTo(vtest.Ana).View.ID, r.Code(0)) }},
		"after a change of the terms": {want: []string{"send.sent"}, run: func(r *vtest.Rig) {
			send(r)
			terms := r.Svc.Policies()
			terms.Subscriptions = nil
			r.Svc.Change(terms)
			r.SendTo("bea@example.com")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, func(s *vtest.Settings) {
				vtest.SubscribeAll(s)
				if c.prepare != nil {
					c.prepare(s)
				}
			}, func(r *vtest.Rig) {
				if c.answer != nil {
					r.MailServer.Answer(c.answer)
				}
				c.run(r)
				r.WantEvents(c.want...)
			})
		})
	}
}

// An event in the database wakes the deliverer of events. If an answer of the database is lost and
// the call is repeated, there is one event.
func TestEventWakesTheDeliverer(t *testing.T) {
	vtest.InBubbleIdle(t, vtest.SubscribeAll, func(r *vtest.Rig) {
		woken := 0
		woke := func() {
			woken++
			r.WantEvents(append([]string{"send.sent"}, []string{"verification.approved"}[:woken-1]...)...)
		}
		r.Svc.Events.WakeWebhooks, r.Svc.Outbox.WakeWebhooks = woke, woke
		r.Start()
		a := r.SendTo(vtest.Ana)
		r.Check(a.View.ID, r.Code(0))
		r.Want("woken", woken, 2)
		r.FailStore(sqlitetest.Lost, "Finish")
		r.SendTo("bea@example.com")
		r.EndStoreFaults()
		r.Sleep(time.Second)
		r.WantEvents("send.sent", "verification.approved", "send.sent")
	})
}

// For a test recipient nothing is sent, the code is known, and no rule refuses a send. Codes are
// checked as for other recipients.
func TestTestRecipients(t *testing.T) {
	change := func(s *vtest.Settings) {
		letters(s) // its code is the configured one, whichever alphabet the purpose has
		vtest.TestRecipient(t, "reviewer@example.com", "424242")(s)
	}
	vtest.InBubbleWith(t, vtest.MinuteTick(change), func(r *vtest.Rig) {
		a := r.SendTo("Reviewer@example.com")
		for range 12 { // no rule limits a test recipient
			a = r.SendTo("Reviewer@example.com")
			vtest.Equal(r, "the answer: Test", a.View.Test, true)
			vtest.Equal(r, "the answer: CodeFormat", a.View.CodeFormat, code.Format{Alphabet: code.Digits, Length: 6})
			vtest.Equal(r, "the answer: RetryAfter", a.Quota.RetryAfter(), 0)
			vtest.Equal(r, "the answer: rules", len(a.Quota.Rules), 0)
		}
		look, err := r.Svc.Get(r.Context(), vtest.BackEnd, a.View.ID)
		r.NoError(err)
		asked, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "email", "reviewer@example.com", "")
		r.NoError(err)
		vtest.Equal(r, "rules of looks", len(look.Quota.Rules), 0)
		vtest.Equal(r, "rules of looks", len(asked.Quota.Rules), 0)
		vtest.Equal(r, "the send", r.Status(a), "sent")
		vtest.Equal(r, "the send: Provider", r.NewestSend(a.View.ID).Provider, "test")
		vtest.Equal(r, "the send: Test", r.Get(a.View.ID).Test, true)
		for i := range 4 {
			c := r.Check(a.View.ID, "000000")
			vtest.Equal(r, "a wrong code: Valid", c.Valid, false)
			vtest.Equal(r, "a wrong code: AttemptsRemaining", c.AttemptsRemaining, 4-i)
			vtest.Equal(r, "a wrong code: Test", c.Test, true)
		}
		r.WantApproved(a.View.ID, "424242")
		r.WantChecked("used again", r.Check(a.View.ID, "424242"), verification.Approved, false)
		r.WantMails(0)

		r.Sleep(59 * time.Minute)
		last := r.SendTo("reviewer@example.com")
		r.Sleep(time.Minute)
		// after the hour, the code has letters again
		r.WantInvalid(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, last.View.ID, "424242")), "code", "")
		// now it is an ordinary recipient, and its earlier sends count
		r.RefuseTo("reviewer@example.com")
		r.Sleep(24 * time.Hour)
		r.Want("a day later", r.SendTo("reviewer@example.com").View.Test, false)
		r.WantMails(1)
	})
}

// A blocked recipient gets nothing; the request counts, and the row has the reason.
func TestBlockedRecipients(t *testing.T) {
	change := func(s *vtest.Settings) {
		s.Blocks = policy.BlockLists{
			Recipients: map[recipient.Hash]bool{vtest.ParseEmail(t, "abuser@example.com").Hash(s.Vault.IndexKey): true},
			Domains:    map[string]bool{"bad.example": true},
			Disposable: map[string]bool{"short.example": true},
			Prefixes:   []string{"+4915"},
		}
		vtest.ServeCountries("DE", "US")(s)
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		for _, to := range []string{"Abuser@EXAMPLE.com", "a@bad.example", "a@very.bad.example"} {
			r.WantStatus(r.SendTo(to), "failed "+store.ReasonBlocked)
			r.RefuseTo(to)
		}
		r.WantMails(0)
		for _, to := range []string{"abuser@example.org", "a@notbad.example", "a@bad.example.org", vtest.Mobile + "@example.com"} {
			r.SendTo(to)
		}
		r.WantMails(4)
		r.Want("a number with a blocked prefix", r.Status(r.Send(vtest.TextTo(vtest.Mobile))), "failed "+store.ReasonBlocked)
		r.Want("another number", r.Status(r.Send(vtest.TextTo(vtest.American))), "sent")
		for _, to := range []string{"a@short.example", "a@very.short.example"} {
			r.WantInvalid(r.SendError(vtest.AskFor(to)), "to", "disposable")
		}
		r.SendTo("a@notshort.example")
	})
}

// Each answer says whether a failed send gave its place back; a send to a blocked recipient did
// not. A repeated request that waits for the outcome gets the same answer.
func TestAFailedSendSaysWhetherItCounts(t *testing.T) {
	change := func(s *vtest.Settings) { s.Blocks = policy.BlockLists{Domains: map[string]bool{"bad.example": true}} }
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.NoMailbox)
		for to, want := range map[string]struct {
			counts bool
			wait   time.Duration
		}{"a@bad.example": {true, time.Minute}, vtest.Ana: {false, 0}} {
			key := vtest.WithKey("of " + to)
			a := r.SendTo(to, key, vtest.Waiting(time.Second))
			vtest.Equal(r, to+": wait", a.Quota.RetryAfter(), want.wait)
			for what, send := range map[string]verification.SendView{"the answer": a.View.Send, "a look": r.Get(a.View.ID).Send} {
				vtest.Equal(r, to+": "+what+": Status", send.Status, store.Failed)
				vtest.Equal(r, to+": "+what+": Counts", send.Counts, want.counts)
			}
			again := r.SendTo(to, key)
			vtest.Equal(r, "a repetition that does not wait: Status", again.View.Send.Status, "queued")
			vtest.Equal(r, "a repetition that does not wait: Counts", again.View.Send.Counts, true)
			again = r.SendTo(to, key, vtest.Waiting(time.Second))
			vtest.Equal(r, "a repetition that waits: Replayed", again.Replayed, true)
			vtest.Equal(r, "a repetition that waits: Status", again.View.Send.Status, "failed")
			vtest.Equal(r, "a repetition that waits: Reason", again.View.Send.Reason, a.View.Send.Reason)
		}
	})
}
