package verification

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

const month = 30 * 24 * time.Hour

// barring has bounces suppress, and room for sends.
func barring(s *Settings) {
	hammered(s)
	s.SuppressFor = month
	s.Titles["default"] = ""
}

// fails asks, waits for the outcome, and checks that it is failed for this reason, its place given back.
func (r *rig) fails(to, reason string) Answer {
	r.Helper()
	ask := askFor(to)
	ask.Wait = time.Second
	a := r.send(ask)
	if s := a.View.Send; s.Status != store.Failed || s.Reason != reason {
		r.Fatalf("%s: %s, %s; wanted failed, %s", to, s.Status, s.Reason, reason)
	}
	if a.Quota.Rules[0].Used != 0 {
		r.Errorf("%s: it cost a place: %+v", to, a.Quota.Rules)
	}
	return a
}

func (r *rig) suppressions() []store.Suppression {
	r.Helper()
	list, _, err := r.log.Suppressions(r.Context(), store.SuppressionFilter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	return list
}

// What a server says of a mailbox decides: only that there is none for good, said of the recipient, suppresses.
func TestMail16BounceSuppresses(t *testing.T) {
	for _, x := range []struct {
		class    delivery.Class
		stage    string
		code     int
		enhanced string
		want     bool
	}{
		{delivery.Rejected, "rcpt", 550, "5.1.1", true},
		{delivery.Rejected, "dot", 550, "5.1.1", true},
		{delivery.Rejected, "data", 554, "5.1.10", true},
		{delivery.Rejected, "rcpt", 550, "5.1.0", true},
		{delivery.Rejected, "mail", 550, "5.1.1", false}, // nobody had been named
		{delivery.Rejected, "rcpt", 550, "5.1.8", false}, // about the sender
		{delivery.Rejected, "rcpt", 550, "5.1.7", false},
		{delivery.Rejected, "rcpt", 550, "5.7.1", false}, // policy
		{delivery.Rejected, "rcpt", 550, "5.2.1", false}, // a mailbox that is there
		{delivery.Rejected, "rcpt", 552, "5.2.2", false},
		{delivery.Rejected, "rcpt", 550, "", false}, // may be policy
		{delivery.Rejected, "rcpt", 550, "5.10.1", false},
		{delivery.Unknown, "dot", 550, "5.1.1", false},
	} {
		t.Run(strings.TrimSpace(x.stage+" "+x.enhanced), func(t *testing.T) {
			inBubbleWith(t, barring, func(r *rig) {
				r.post.tell(failing(x.class, x.stage, x.code, x.enhanced))
				first := r.send(askFor(ana))
				waited(minute)
				if !x.want {
					r.send(askFor(ana))
					r.mails(2)
					return
				}
				r.fails(ana, "suppressed")
				r.mails(1)
				list := r.suppressions()
				if len(list) != 1 || list[0].Cause != store.HardBounce || list[0].Detail != replyCode(x.code, x.enhanced) || list[0].Send.String() != first.View.Send.ID ||
					list[0].Until.Sub(list[0].Since) != month || list[0].App != "shop" || list[0].To != anaAs {
					t.Errorf("%+v", list)
				}
			})
		})
	}
}

// It holds for thirty days to the microsecond, for the app that met it, for this very address, and through whatever happens to
// the limiter.
func TestSuppressed(t *testing.T) {
	folds := func(s *Settings) {
		barring(s)
		s.Folding = recipient.Folding{"example.com": {PlusTags: true}}
		s.SuppressFor = 2 * time.Hour // a month has millions of ticks
	}
	inBubbleWith(t, folds, func(r *rig) {
		r.post.tell(noSuchUser)
		r.send(askFor(ana))
		since := time.Now()
		r.find()
		r.fails(strings.ToUpper(ana), "suppressed")
		r.lose()
		ask := askFor(ana)
		ask.Wait = time.Second
		if a := r.send(ask); a.View.Send.Reason != "suppressed" {
			t.Errorf("%+v", a.View.Send)
		}
		r.find()
		other := r.send(askFor("ana.maria+b@example.com")) // the same mailbox perhaps, but not what bounced
		elsewhere := askFor(ana)
		elsewhere.App = "desk"
		r.send(elsewhere)
		r.mails(3)
		if v := r.get(other.View.ID); v.Send.Status != store.Sent {
			t.Errorf("another spelling: %+v", v.Send)
		}
		waited(2*time.Hour - time.Since(since) - time.Microsecond)
		r.fails(ana, "suppressed")
		waited(time.Microsecond)
		r.send(askFor(ana))
		r.mails(4)
	})
}

// The simulator's recipients bounce as often as a front end wants; test recipients are sent nothing that could bounce.
func TestSimulatorIsNeverSuppressed(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		for range 3 {
			r.post.tell(noSuchUser)
			r.fails("bounce@simulator.test", "rejected")
		}
		if list := r.suppressions(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

func TestNothingSuppressesWhereItIsOff(t *testing.T) {
	off := func(s *Settings) { barring(s); s.SuppressFor = 0 }
	inBubbleWith(t, off, func(r *rig) {
		for range 3 {
			r.post.tell(noSuchUser)
			r.fails(ana, "rejected")
		}
		r.bar(ana, 0) // by hand all the same, for as long as by default
		r.fails(ana, "suppressed")
		if s := r.suppressions()[0]; s.Until.Sub(s.Since) != DefaultSuppression {
			t.Errorf("%+v", s)
		}
	})
}

func (r *rig) bar(to string, lasts time.Duration) store.Suppression {
	r.Helper()
	s, err := r.svc.Suppress(r.Context(), Barring{Channel: "email", To: to, Why: "asked by telephone", For: lasts, By: "ops"})
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// Asking for a suppressed recipient is free, and bounded by the rule on failures.
func TestSuppressedIsBoundedByFailures(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		r.bar(ana, month)
		for range bad {
			r.fails(ana, "suppressed")
		}
		if d := r.refuse(askFor(ana)).Quota; len(d.Violated()) != 1 || d.Violated()[0] != "failures" {
			t.Errorf("%v", d.Violated())
		}
		r.find() // the log knows it too
		r.refuse(askFor(ana))
		r.mails(0)
	})
}

func TestSuppressByHandAndLift(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		s := r.bar("ana.maria@EXAMPLE.com", time.Hour)
		if s.Cause != store.Manual || s.Detail != "asked by telephone" || s.By != "ops" || s.App != "" || s.Send != uuid.Nil || s.To != anaAs || s.Until.Sub(s.Since) != time.Hour {
			t.Errorf("%+v", s)
		}
		r.fails(ana, "suppressed")
		lift := Lifting{Channel: "email", To: ana, Why: "mended", By: "ops"}
		for _, want := range []int{1, 0} {
			if list, err := r.svc.Lift(r.Context(), lift); len(list) != want || err != nil {
				t.Fatal(list, err)
			}
		}
		r.send(askFor(ana))
		r.mails(1)
		again := r.bar(ana, time.Hour)
		waited(minute)
		if n, err := r.svc.Lift(r.Context(), Lifting{Channel: "email", Address: again.Address, Why: "as listed"}); len(n) != 1 || err != nil {
			t.Fatal(n, err)
		}
		r.send(askFor(ana))

		for field, wish := range map[string]Barring{
			"to": {Channel: "email", To: "nobody", Why: "x"}, "channel": {Channel: "pigeon", To: ana, Why: "x"}, "app": {Channel: "email", To: ana, App: "nope", Why: "x"},
			"reason": {Channel: "email", To: ana}, "for": {Channel: "email", To: ana, Why: "x", For: MaxSuppression + 1},
		} {
			_, err := r.svc.Suppress(r.Context(), wish)
			var bad *InvalidError
			if !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
			if field == "for" {
				continue
			}
			if _, err := r.svc.Lift(r.Context(), Lifting{Channel: wish.Channel, To: wish.To, App: wish.App, Why: wish.Why}); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("lift, %s: %v", field, err)
			}
		}
		if _, err := r.svc.Lift(r.Context(), Lifting{Channel: "email", Address: again.Address, Why: strings.Repeat("x", 201)}); err == nil {
			t.Error("a reason without end")
		}
	})
}

// A process that dies after Begin leaves the row to another one, which sends it to nobody either; nor does what waited in
// the log for room.
func TestSuppressedIsTakenOver(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		r.bar(ana, time.Hour)
		dead := r.replica(&postbox{}) // its workers never run: there are none
		dead.outbox.capacity = 0      // what it lets in goes back to the log at once
		a, err := dead.Send(r.Context(), askFor(ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		waited(10 * time.Second)
		if s := r.get(a.View.ID).Send; s.Status != store.Failed || s.Reason != "suppressed" || s.Attempt != 2 {
			t.Errorf("%+v", s)
		}
		r.mails(0)
	})
}

// A pause stops what is asked for and what waits for its next try, for whom it names alone; when it ends, codes go out
// again.
func TestPaused(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		terms := func(pauses ...Pause) {
			next := r.svc.Terms()
			next.Pauses = pauses
			r.svc.Change(next)
		}
		r.post.tell(failing(delivery.Temporary, "dial", 0, ""))
		waiting := r.send(askFor("bo@example.com"))
		began := time.Now()
		terms(Pause{Channel: recipient.Email, Reason: "the server moves"})
		a := r.fails(ana, "paused")
		if got := r.get(a.View.ID); got.Send.Status != store.Failed {
			t.Errorf("%+v", got.Send)
		}
		waited(30 * time.Second)
		if s := r.get(waiting.View.ID).Send; s.Status != store.Failed || s.Reason != "paused" {
			t.Errorf("what waited: %+v", s)
		}
		r.mails(1)
		terms(Pause{Channel: recipient.SMS}, Pause{Purpose: "login", Reason: "abuse"}, Pause{Channel: recipient.Email, Reason: "the server moves"})
		if p, ok := r.svc.Paused(recipient.Email, "default"); !ok || !p.Since.Equal(began) || p.Reason != "the server moves" {
			t.Errorf("known since %v: %+v", p.Since.Sub(began), p)
		}
		terms(Pause{Purpose: "login"}, Pause{Channel: recipient.SMS, Purpose: "default"})
		r.send(askFor(ana))
		r.mails(2)
		login := askFor(ana)
		login.Purpose, login.Wait = "login", time.Second
		if a := r.send(login); a.View.Send.Reason != "paused" {
			t.Errorf("%+v", a.View.Send)
		}
		if p, _ := r.svc.Paused(recipient.Email, "login"); !p.Since.Equal(time.Now()) {
			t.Errorf("another reason is another pause: %v", p.Since)
		}
		terms()
		if _, ok := r.svc.Paused(recipient.Email, "login"); ok {
			t.Error("still paused")
		}
	})
}

// Test recipients go on while all is paused: nothing of theirs leaves the machine.
func TestPausedButForTestRecipients(t *testing.T) {
	change := func(s *Settings) {
		barring(s)
		s.Pauses = []Pause{{Channel: recipient.Email}}
		s.TestRecipients = map[recipient.Hash]TestRecipient{emailOf(t, ana).Hash(s.IndexKey): {Code: "424242", Expires: time.Now().Add(time.Hour)}}
	}
	inBubbleWith(t, change, func(r *rig) {
		a := r.send(askFor(ana))
		if s := r.get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		r.fails("bo@example.com", "paused")
		if p, ok := r.svc.Paused(recipient.Email, "x"); !ok || p.Since.IsZero() {
			t.Errorf("%+v", p)
		}
		if !slices.ContainsFunc(r.svc.Terms().Pauses, func(p Pause) bool { return !p.Since.IsZero() }) {
			t.Error("nobody knows since when")
		}
	})
}
