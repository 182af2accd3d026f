package support_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// Only a reply to the recipient that there is no such mailbox for good suppresses.
func TestMail16BounceSuppresses(t *testing.T) {
	for _, x := range []struct {
		class           delivery.Class
		stage, enhanced string
		want            bool
	}{
		{delivery.Rejected, "rcpt", "5.1.1", true},
		{delivery.Rejected, "dot", "5.1.1", true},
		{delivery.Rejected, "data", "5.1.10", true},
		{delivery.Rejected, "rcpt", "5.1.0", true},
		{delivery.Rejected, "mail", "5.1.1", false}, // no recipient had been named
		{delivery.Rejected, "rcpt", "5.1.8", false}, // about the sender
		{delivery.Rejected, "rcpt", "5.1.7", false},
		{delivery.Rejected, "rcpt", "5.7.1", false}, // policy
		{delivery.Rejected, "rcpt", "5.2.1", false}, // a mailbox that is there
		{delivery.Rejected, "rcpt", "5.2.2", false},
		{delivery.Rejected, "rcpt", "", false}, // may be policy
		{delivery.Rejected, "rcpt", "5.10.1", false},
		{delivery.Unknown, "dot", "5.1.1", false},
	} {
		if got := (&delivery.Error{Class: x.class, Stage: x.stage, Code: x.enhanced}).NoMailbox(); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// It holds for thirty days to the microsecond, for the app that met it, for this very address, and through whatever happens to
// the limiter.
func TestSuppressed(t *testing.T) {
	folds := func(s *vtest.Settings) {
		vtest.SuppressBounces(s)
		s.Vault.Folding = recipient.Folding{"example.com": {PlusTags: true}}
		s.SuppressFor = 2 * time.Hour // a month has millions of ticks
	}
	vtest.InBubbleWith(t, folds, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.NoMailbox)
		first := r.SendTo(vtest.Ana)
		since := time.Now()
		r.EmptyLimiter()
		r.SendFails(strings.ToUpper(vtest.Ana), "suppressed")
		if s := r.Suppressions()[0]; s.Cause != store.HardBounce || s.Detail != "550 5.1.1" || s.Send.String() != first.View.Send.ID || s.App != "shop" || s.To != vtest.AnaMasked {
			t.Errorf("%+v", s)
		}
		r.LoseLimiter()
		ask := vtest.AskFor(vtest.Ana)
		ask.Wait = time.Second
		if a := r.Send(ask); a.View.Send.Reason != "suppressed" {
			t.Errorf("%+v", a.View.Send)
		}
		r.EmptyLimiter()
		other := r.SendTo("ana.maria+b@example.com") // the same mailbox perhaps, but not what bounced
		elsewhere := vtest.AskFor(vtest.Ana)
		elsewhere.App = "desk"
		r.Send(elsewhere)
		r.WantMails(3)
		if v := r.Get(other.View.ID); v.Send.Status != store.Sent {
			t.Errorf("another spelling: %+v", v.Send)
		}
		r.Sleep(2*time.Hour - time.Since(since) - time.Microsecond)
		r.SendFails(vtest.Ana, "suppressed")
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
		r.WantMails(4)
	})
}

// The simulator's recipients bounce as often as a front end wants; test recipients are sent nothing that could bounce.
func TestSimulatorIsNeverSuppressed(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		for range 3 {
			r.MailServer.Answer(vtest.NoMailbox)
			r.SendFails("bounce@simulator.test", "rejected")
		}
		if list := r.Suppressions(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

func TestNothingSuppressesWhereItIsOff(t *testing.T) {
	off := func(s *vtest.Settings) { vtest.SuppressBounces(s); s.SuppressFor = 0 }
	vtest.InBubbleWith(t, off, func(r *vtest.Rig) {
		for range 3 {
			r.MailServer.Answer(vtest.NoMailbox)
			r.SendFails(vtest.Ana, "rejected")
		}
		r.Suppress(vtest.Ana, 0) // by hand all the same, for as long as by default
		r.SendFails(vtest.Ana, "suppressed")
		if s := r.Suppressions()[0]; s.Until.Sub(s.Since) != support.DefaultSuppression {
			t.Errorf("%+v", s)
		}
	})
}

// Asking for a suppressed recipient is free, and bounded by the rule on failures.
func TestSuppressedIsBoundedByFailures(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		r.Suppress(vtest.Ana, 30*24*time.Hour)
		for range vtest.MaxFailures {
			r.SendFails(vtest.Ana, "suppressed")
		}
		if d := r.RefuseTo(vtest.Ana).Quota; len(d.Violated()) != 1 || d.Violated()[0] != "failures" {
			t.Errorf("%v", d.Violated())
		}
		r.EmptyLimiter() // the log knows it too
		r.RefuseTo(vtest.Ana)
		r.WantMails(0)
	})
}

func TestSuppressByHandAndLift(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		s := r.Suppress("ana.maria@EXAMPLE.com", time.Hour)
		if s.Cause != store.Manual || s.Detail != "asked by telephone" || s.By != "mei" || s.App != "" || s.Send != uuid.Nil ||
			s.To != vtest.AnaMasked || s.Until.Sub(s.Since) != time.Hour {
			t.Errorf("%+v", s)
		}
		r.SendFails(vtest.Ana, "suppressed")
		lift := func(l support.LiftRequest) ([]store.Suppression, error) {
			return r.Svc.Desk.Lift(r.Context(), l, vtest.AuditEntry("suppression.lift"))
		}
		for _, want := range []int{1, 0} {
			if list, err := lift(support.LiftRequest{Channel: "email", To: vtest.Ana, Reason: "mended"}); len(list) != want || err != nil {
				t.Fatal(list, err)
			}
		}
		r.SendTo(vtest.Ana)
		r.WantMails(1)
		again := r.Suppress(vtest.Ana, time.Hour)
		r.Sleep(time.Minute)
		if n, err := lift(support.LiftRequest{Channel: "email", Address: again.Address, Reason: "as listed"}); len(n) != 1 || err != nil {
			t.Fatal(n, err)
		}
		r.SendTo(vtest.Ana)

		for field, wish := range map[string]support.SuppressRequest{
			"to":      {Channel: "email", To: "noone", Reason: "x"},
			"channel": {Channel: "pigeon", To: vtest.Ana, Reason: "x"}, "app": {Channel: "email", To: vtest.Ana, App: "nope", Reason: "x"},
			"reason": {Channel: "email", To: vtest.Ana},
		} {
			_, err := r.Svc.Desk.Suppress(r.Context(), wish, vtest.AuditEntry("suppression.add"))
			var bad *verification.InvalidError
			if !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
			_, err = lift(support.LiftRequest{Channel: wish.Channel, To: wish.To, App: wish.App, Reason: wish.Reason})
			if !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("lift, %s: %v", field, err)
			}
		}
		if _, err := lift(support.LiftRequest{Channel: "email", Address: again.Address, Reason: strings.Repeat("x", 201)}); err == nil {
			t.Error("a reason without end")
		}
	})
}

// A process that dies after Begin leaves the row to another one, which does not send it either; nor does what waited in
// the log for room.
func TestSuppressedIsTakenOver(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		r.Suppress(vtest.Ana, time.Hour)
		dead := r.Replica(&vtest.MailServer{}) // its workers never run: there are none
		dead.Queue.Capacity = 0                // what it lets in goes back to the log at once
		a, err := dead.Send(r.Context(), vtest.AskFor(vtest.Ana))
		if err != nil || !a.Admitted {
			t.Fatal(err)
		}
		r.Sleep(10 * time.Second)
		if s := r.Get(a.View.ID).Send; s.Status != store.Failed || s.Reason != "suppressed" || s.Attempt != 2 {
			t.Errorf("%+v", s)
		}
		r.WantMails(0)
	})
}

// A pause stops what is asked for and what waits for its next try, for whom it names alone; when it ends, codes go out
// again.
func TestPaused(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		terms := func(pauses ...policy.Pause) {
			next := r.Svc.Terms()
			next.Pauses = pauses
			r.Svc.Change(next)
		}
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "dial", 0, ""))
		waiting := r.SendTo("bo@example.com")
		began := time.Now()
		terms(policy.Pause{Channel: recipient.Email, Reason: "the server moves"})
		a := r.SendFails(vtest.Ana, "paused")
		if got := r.Get(a.View.ID); got.Send.Status != store.Failed {
			t.Errorf("%+v", got.Send)
		}
		r.Sleep(30 * time.Second)
		if s := r.Get(waiting.View.ID).Send; s.Status != store.Failed || s.Reason != "paused" {
			t.Errorf("what waited: %+v", s)
		}
		r.WantMails(1)
		terms(policy.Pause{Channel: recipient.SMS}, policy.Pause{Purpose: "login", Reason: "abuse"}, policy.Pause{Channel: recipient.Email, Reason: "the server moves"})
		if p, ok := r.Svc.Desk.Paused(recipient.Email, "default"); !ok || !p.Since.Equal(began) || p.Reason != "the server moves" {
			t.Errorf("known since %v: %+v", p.Since.Sub(began), p)
		}
		terms(policy.Pause{Purpose: "login"}, policy.Pause{Channel: recipient.SMS, Purpose: "default"})
		r.SendTo(vtest.Ana)
		r.WantMails(2)
		login := vtest.AskFor(vtest.Ana)
		login.Purpose, login.Wait = "login", time.Second
		if a := r.Send(login); a.View.Send.Reason != "paused" {
			t.Errorf("%+v", a.View.Send)
		}
		if p, _ := r.Svc.Desk.Paused(recipient.Email, "login"); !p.Since.Equal(time.Now()) {
			t.Errorf("another reason is another pause: %v", p.Since)
		}
		terms()
		if _, ok := r.Svc.Desk.Paused(recipient.Email, "login"); ok {
			t.Error("still paused")
		}
	})
}

// Test recipients go on while all is paused: nothing of theirs leaves the machine.
func TestPausedButForTestRecipients(t *testing.T) {
	change := func(s *vtest.Settings) {
		vtest.SuppressBounces(s)
		s.Pauses = []policy.Pause{{Channel: recipient.Email}}
		s.TestRecipients = map[recipient.Hash]policy.TestRecipient{
			s.Vault.AddressHash(vtest.ParseEmail(t, vtest.Ana)): {Code: "424242", Expires: time.Now().Add(time.Hour)}}
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		if s := r.Get(a.View.ID).Send; s.Status != store.Sent {
			t.Errorf("%+v", s)
		}
		r.SendFails("bo@example.com", "paused")
		if p, ok := r.Svc.Desk.Paused(recipient.Email, "x"); !ok || p.Since.IsZero() {
			t.Errorf("%+v", p)
		}
		if !slices.ContainsFunc(r.Svc.Terms().Pauses, func(p policy.Pause) bool { return !p.Since.IsZero() }) {
			t.Error("it is not known since when")
		}
	})
}
