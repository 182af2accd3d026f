package verification_test

import (
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification/rig"
)

// tellAll has the shop told of everything.
func tellAll(s *rig.Settings) { s.Subscriptions = map[string][]string{"shop": policy.Events} }

// Every way in which a send ends is told, once.
func TestAppsAreToldHowSendsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *rig.Settings)
		run     func(r *rig.Rig)
		want    []string
	}{
		"sent":    {run: func(r *rig.Rig) { r.Send(rig.AskFor(rig.Ana)) }, want: []string{"send.sent"}},
		"refused": {run: func(r *rig.Rig) { r.Send(rig.AskFor(rig.Ana)); r.Refuse(rig.AskFor(rig.Ana)) }, want: []string{"send.sent"}},
		"rejected": {want: []string{"send.failed rejected"}, run: func(r *rig.Rig) {
			r.Post.Tell(rig.Failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
			r.Send(rig.AskFor(rig.Ana))
		}},
		"unknown": {want: []string{"send.unknown no_answer"}, run: func(r *rig.Rig) {
			r.Post.Tell(rig.Failing(delivery.Unknown, "dot", 0, ""))
			r.Send(rig.AskFor(rig.Ana))
		}},
		"retried, then sent": {want: []string{"send.sent"}, run: func(r *rig.Rig) {
			r.Post.Tell(rig.Failing(delivery.Temporary, "rcpt", 450, ""))
			r.Send(rig.AskFor(rig.Ana))
			r.Told()
			rig.Waited(10 * time.Second)
		}},
		"expired": {want: []string{"send.failed expired"}, run: func(r *rig.Rig) {
			for range 100 {
				r.Post.Tell(rig.Failing(delivery.Temporary, "connect", 0, ""))
			}
			r.Send(rig.AskFor(rig.Ana))
			rig.Waited(11 * rig.Minute)
		}},
		"canceled while it waited": {want: []string{"send.failed ended"}, run: func(r *rig.Rig) {
			r.Post.Tell(rig.Failing(delivery.Temporary, "rcpt", 450, ""))
			a := r.Send(rig.AskFor(rig.Ana))
			if _, err := r.Svc.Cancel(r.Context(), rig.BackEnd, a.View.ID); err != nil {
				r.Fatal(err)
			}
			rig.Waited(10 * time.Second)
		}},
		"blocked": {want: []string{"send.failed blocked"}, prepare: func(s *rig.Settings) {
			s.Blocks = policy.Blocks{Domains: map[string]bool{"example.com": true}}
		}, run: func(r *rig.Rig) { r.Send(rig.AskFor(rig.Ana)) }},
		"a test recipient": {want: []string{"send.sent (test)", "verification.approved (test)"}, prepare: func(s *rig.Settings) {
			s.TestRecipients = map[recipient.Hash]policy.TestRecipient{
				s.Vault.AddressHash(rig.EmailOf(t, rig.Ana)): {Code: "424242", Expires: time.Now().Add(time.Hour)},
			}
		}, run: func(r *rig.Rig) { r.Check(r.Send(rig.AskFor(rig.Ana)).View.ID, "424242") }},
		"approved": {want: []string{"send.sent", "verification.approved"}, run: func(r *rig.Rig) {
			a := r.Send(rig.AskFor(rig.Ana))
			code := rig.CodeIn(r.Post.All()[0])
			r.Check(a.View.ID, rig.WrongFor(code))
			r.Check(a.View.ID, code)
			r.Check(a.View.ID, code)
		}},
		"another app": {run: func(r *rig.Rig) {
			ask := rig.AskFor(rig.Ana)
			ask.App = "other"
			r.Send(ask)
		}},
		"what it wants alone": {want: []string{"verification.approved"}, prepare: func(s *rig.Settings) {
			s.Subscriptions = map[string][]string{"shop": {policy.EventApproved}}
		}, run: func(r *rig.Rig) {
			a := r.Send(rig.AskFor(rig.Ana))
			r.Check(a.View.ID, rig.CodeIn(r.Post.All()[0]))
		}},
		"after a change of the terms": {want: []string{"send.sent"}, run: func(r *rig.Rig) {
			r.Send(rig.AskFor(rig.Ana))
			terms := r.Svc.Terms()
			terms.Subscriptions = nil
			r.Svc.Change(terms)
			r.Send(rig.AskFor("bea@example.com"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(s *rig.Settings) {
				tellAll(s)
				if c.prepare != nil {
					c.prepare(s)
				}
			}
			rig.InBubbleWith(t, change, func(r *rig.Rig) {
				c.run(r)
				r.Told(c.want...)
			})
		})
	}
}

// A send that a dead process left behind ends once, and so is told once, though the sleeper wakes with another word.
func TestTakenOverSendsAreToldOnce(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, tellAll)
		release := make(chan struct{})
		asleep := &rig.Postbox{}
		asleep.Tell(rig.Hanging(release))
		if _, err := r.Replica(asleep).Send(r.Context(), rig.AskFor(rig.Ana)); err != nil {
			t.Fatal(err)
		}
		r.Start()
		rig.Waited(20 * time.Second)
		close(release)
		rig.Waited(time.Second)
		r.Told("send.sent")
		r.Quit()
	})
}

// Who delivers is woken when there is something, after it is in the log; and an answer of the log that was lost, which
// is asked again, leaves one event.
func TestWhoDeliversIsWoken(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, tellAll)
		woken := 0
		woke := func() {
			woken++
			r.Told(append([]string{"send.sent"}, []string{"verification.approved"}[:woken-1]...)...)
		}
		r.Svc.Notify, r.Svc.Queue.Notify = woke, woke
		r.Start()
		a := r.Send(rig.AskFor(rig.Ana))
		r.Check(a.View.ID, rig.CodeIn(r.Post.All()[0]))
		if woken != 2 {
			t.Errorf("woken %d times", woken)
		}
		lost := true
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Finish" && lost {
				lost = false
				return sqlite.Lost
			}
			return sqlite.None
		})
		r.Send(rig.AskFor("bea@example.com"))
		rig.Waited(time.Second)
		r.Told("send.sent", "verification.approved", "send.sent")
		r.Quit()
	})
}
