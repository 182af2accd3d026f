package verification

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

// tellAll has the shop told of everything.
func tellAll(s *Settings) { s.Tells = map[string][]string{"shop": Events} }

// events are all events as "type reason", the oldest first; test recipients' with a mark.
func (r *rig) events() (list []string) {
	r.Helper()
	events, err := r.log.DB.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range events {
		text := e.Type
		if e.Reason != "" {
			text += " " + e.Reason
		}
		if e.Test {
			text += " (test)"
		}
		if e.App != "shop" || e.VerificationID == "" || e.Type != "verification.approved" && e.SendID == [16]byte{} {
			r.Errorf("event %+v", e)
		}
		list = append([]string{text}, list...)
	}
	return list
}

func (r *rig) told(want ...string) {
	r.Helper()
	if got := r.events(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("told %v, want %v", got, want)
	}
}

// Every way in which a send ends is told, once.
func TestAppsAreToldHowSendsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *Settings)
		run     func(r *rig)
		want    []string
	}{
		"sent":    {run: func(r *rig) { r.send(askFor(ana)) }, want: []string{"send.sent"}},
		"refused": {run: func(r *rig) { r.send(askFor(ana)); r.refuse(askFor(ana)) }, want: []string{"send.sent"}},
		"rejected": {want: []string{"send.failed rejected"}, run: func(r *rig) {
			r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
			r.send(askFor(ana))
		}},
		"unknown": {want: []string{"send.unknown no_answer"}, run: func(r *rig) {
			r.post.tell(failing(delivery.Unknown, "dot", 0, ""))
			r.send(askFor(ana))
		}},
		"retried, then sent": {want: []string{"send.sent"}, run: func(r *rig) {
			r.post.tell(failing(delivery.Temporary, "rcpt", 450, ""))
			r.send(askFor(ana))
			r.told()
			waited(10 * time.Second)
		}},
		"expired": {want: []string{"send.failed expired"}, run: func(r *rig) {
			for range 100 {
				r.post.tell(failing(delivery.Temporary, "connect", 0, ""))
			}
			r.send(askFor(ana))
			waited(11 * minute)
		}},
		"canceled while it waited": {want: []string{"send.failed ended"}, run: func(r *rig) {
			r.post.tell(failing(delivery.Temporary, "rcpt", 450, ""))
			a := r.send(askFor(ana))
			if _, err := r.svc.Cancel(r.Context(), backEnd, a.View.ID); err != nil {
				r.Fatal(err)
			}
			waited(10 * time.Second)
		}},
		"blocked": {want: []string{"send.failed blocked"}, prepare: func(s *Settings) {
			s.Blocks = Blocks{Domains: map[string]bool{"example.com": true}}
		}, run: func(r *rig) { r.send(askFor(ana)) }},
		"a test recipient": {want: []string{"send.sent (test)", "verification.approved (test)"}, prepare: func(s *Settings) {
			s.TestRecipients = map[recipient.Hash]TestRecipient{
				emailOf(t, ana).Hash(s.IndexKey): {Code: "424242", Expires: time.Now().Add(time.Hour)},
			}
		}, run: func(r *rig) { r.check(r.send(askFor(ana)).View.ID, "424242") }},
		"approved": {want: []string{"send.sent", "verification.approved"}, run: func(r *rig) {
			a := r.send(askFor(ana))
			code := codeIn(r.post.all()[0])
			r.check(a.View.ID, wrongFor(code))
			r.check(a.View.ID, code)
			r.check(a.View.ID, code)
		}},
		"another app": {run: func(r *rig) {
			ask := askFor(ana)
			ask.App = "other"
			r.send(ask)
		}},
		"what it wants alone": {want: []string{"verification.approved"}, prepare: func(s *Settings) {
			s.Tells = map[string][]string{"shop": {EventApproved}}
		}, run: func(r *rig) {
			a := r.send(askFor(ana))
			r.check(a.View.ID, codeIn(r.post.all()[0]))
		}},
		"after a change of the terms": {want: []string{"send.sent"}, run: func(r *rig) {
			r.send(askFor(ana))
			terms := r.svc.Terms()
			terms.Tells = nil
			r.svc.Change(terms)
			r.send(askFor("bea@example.com"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(s *Settings) {
				tellAll(s)
				if c.prepare != nil {
					c.prepare(s)
				}
			}
			inBubbleWith(t, change, func(r *rig) {
				c.run(r)
				r.told(c.want...)
			})
		})
	}
}

// A send that a dead process left behind ends once, and so is told once, though the sleeper wakes with another word.
func TestTakenOverSendsAreToldOnce(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, tellAll)
		release := make(chan struct{})
		asleep := &postbox{}
		asleep.tell(hanging(release))
		if _, err := r.replica(asleep).Send(r.Context(), askFor(ana)); err != nil {
			t.Fatal(err)
		}
		r.run()
		waited(20 * time.Second)
		close(release)
		waited(time.Second)
		r.told("send.sent")
		r.quit()
	})
}

// Who delivers is woken when there is something, after it is in the log; and an answer of the log that was lost, which
// is asked again, leaves one event.
func TestWhoDeliversIsWoken(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, tellAll)
		woken := 0
		r.svc.Parts.Told = func() {
			woken++
			r.told(append([]string{"send.sent"}, []string{"verification.approved"}[:woken-1]...)...)
		}
		r.run()
		a := r.send(askFor(ana))
		r.check(a.View.ID, codeIn(r.post.all()[0]))
		if woken != 2 {
			t.Errorf("woken %d times", woken)
		}
		lost := true
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Finish" && lost {
				lost = false
				return sqlite.Lost
			}
			return sqlite.None
		})
		r.send(askFor("bea@example.com"))
		waited(time.Second)
		r.told("send.sent", "verification.approved", "send.sent")
		r.quit()
	})
}
