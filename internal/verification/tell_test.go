package verification_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/policy"
	"sendcode/internal/store/sqlite"
	vtest "sendcode/internal/verification/verificationtest"
)

// tellAll has the shop told of everything.
func tellAll(s *vtest.Settings) {
	s.Subscriptions = map[string][]string{"shop": policy.Events}
}

// Every way in which a send ends is an event, once.
func TestAppsAreToldHowSendsEnd(t *testing.T) {
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
		"canceled while it waited": {answer: retried, want: []string{"send.failed ended"}, run: func(r *vtest.Rig) {
			r.Cancel(r.SendTo(vtest.Ana).View.ID)
			r.Sleep(10 * time.Second)
		}},
		"blocked": {want: []string{"send.failed blocked"}, run: send, prepare: func(s *vtest.Settings) {
			s.Blocks = policy.Blocks{Domains: map[string]bool{"example.com": true}}
		}},
		"a test recipient": {want: []string{"send.sent (test)", "verification.approved (test)"}, prepare: vtest.TestRecipient(t, vtest.Ana, "424242"),
			run: func(r *vtest.Rig) { r.Check(r.SendTo(vtest.Ana).View.ID, "424242") }},
		"approved": {want: []string{"send.sent", "verification.approved"}, run: func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			for _, code := range []string{vtest.WrongCode(r.Code(0)), r.Code(0), r.Code(0)} {
				r.Check(a.View.ID, code)
			}
		}},
		"another app": {run: func(r *vtest.Rig) {
			ask := vtest.AskFor(vtest.Ana)
			ask.App = "other"
			r.Send(ask)
		}},
		"what it wants alone": {want: []string{"verification.approved"}, prepare: func(s *vtest.Settings) {
			s.Subscriptions = map[string][]string{"shop": {policy.EventApproved}}
		}, run: func(r *vtest.Rig) { r.Check(r.SendTo(vtest.Ana).View.ID, r.Code(0)) }},
		"after a change of the terms": {want: []string{"send.sent"}, run: func(r *vtest.Rig) {
			send(r)
			terms := r.Svc.Terms()
			terms.Subscriptions = nil
			r.Svc.Change(terms)
			r.SendTo("bea@example.com")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, func(s *vtest.Settings) {
				tellAll(s)
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

// The deliverer of events is woken when an event is in the log; and an answer of the log that was lost, which is asked again, leaves
// one event.
func TestTheDelivererOfEventsIsWoken(t *testing.T) {
	vtest.InBubbleIdle(t, tellAll, func(r *vtest.Rig) {
		woken := 0
		woke := func() {
			woken++
			r.WantEvents(append([]string{"send.sent"}, []string{"verification.approved"}[:woken-1]...)...)
		}
		r.Svc.Notify, r.Svc.Queue.Notify = woke, woke
		r.Start()
		a := r.SendTo(vtest.Ana)
		r.Check(a.View.ID, r.Code(0))
		if woken != 2 {
			t.Errorf("woken %d times", woken)
		}
		r.FailStore(sqlite.Lost, "Finish")
		r.SendTo("bea@example.com")
		r.MendStore()
		r.Sleep(time.Second)
		r.WantEvents("send.sent", "verification.approved", "send.sent")
	})
}
