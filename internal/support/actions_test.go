package support_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/gates"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/support"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

func TestResetClearsBothGates(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		if a := r.SendTo(vtest.Ana); a.View.ID != first.View.ID || a.View.Send.Number != 2 {
			t.Errorf("after the reset: %+v", a.View)
		}
		r.RefuseTo(vtest.Ana) // from now on it counts again
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		if a := r.RefuseTo(vtest.Ana); a.Quota.Rules[0].Used != 1 {
			t.Errorf("after a flush the log knows of %d sends", a.Quota.Rules[0].Used)
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		r.SendTo(vtest.Ana) // the log alone
		if got, want := r.Actions(), "quota.reset begun "+vtest.AnaMasked+"; quota.reset done "+vtest.AnaMasked; got != want+"; "+want {
			t.Errorf("acts: %s", got)
		}
	})
}

// A reset also clears what limiters of this process and of others remember or are still to be told.
func TestResetIsNoticedEverywhere(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		shared := quota.NewMemory(time.Now, "redis")
		r.Limiter.Set(quota.Remember(shared, time.Now))
		other := r.Replica(r.MailServer)
		other.Limiter.Set(quota.Remember(shared, time.Now))
		r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		if a, err := other.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || a.Admitted {
			t.Fatal(a, err)
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.SendTo(vtest.Ana)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.Sleep(250 * time.Millisecond)
		if a, err := other.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Errorf("another replica after 250 ms: %v %v", a.Quota.Violated(), err)
		}
	})
}

func TestResetClearsTheLockouts(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		for name, p := range s.Purposes {
			p.Policy.Rules = []quota.Rule{
				{Name: "hour", Scope: quota.Recipient, Limit: 100, Window: time.Hour},
				{Name: "failures", Scope: quota.Failures, Limit: 1, Window: 24 * time.Hour},
			}
			s.Purposes[name] = p
		}
	}, func(r *vtest.Rig) {
		var sent []verification.Answer
		for i := range 5 {
			ask := vtest.AskFor(vtest.Ana)
			ask.Session = string(rune('a' + i))
			sent = append(sent, r.Send(ask))
		}
		for i, a := range sent[:4] {
			for range 5 {
				_, _ = r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, vtest.WrongCode(vtest.CodeIn(r.MailServer.Attempts()[i])))
			}
		}
		last := sent[4]
		var barred *verification.TooManyChecksError
		if _, err := r.Svc.Check(r.Context(), vtest.BackEnd, last.View.ID, "000000"); !errors.As(err, &barred) {
			t.Fatalf("not locked out: %v", err)
		}
		if _, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana)); !errors.As(err, &barred) {
			t.Fatalf("a send while locked out: %v", err)
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.SendTo(vtest.Ana) // at once, also where the lockout was remembered
		if a := r.RefuseTo(vtest.Ana); a.Quota.Violated()[0] != "failures" {
			t.Fatalf("refused by %v", a.Quota.Violated())
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		if c := r.Check(last.View.ID, vtest.WrongCode(r.Code(4))); c.AttemptsRemaining != 4 {
			t.Errorf("tries left of a pending code: %d", c.AttemptsRemaining)
		}
		r.SendTo(vtest.Ana)
		r.Limiter.Set(quota.NewMemory(time.Now, "process")) // the log's failures, too
		r.SendTo(vtest.Ana)
	})
}

// Without the limiter the log's part is done, and the act says what is not.
func TestResetWithoutTheLimiter(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.LoseLimiter()
		if err := r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")); !errors.Is(err,
			verification.ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
		r.Limiter.Around(nil)
		r.Sleep(2 * gates.Pause)
		r.RefuseTo(vtest.Ana)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.SendTo(vtest.Ana)
		if got := r.Actions(); !strings.Contains(got, "begun "+vtest.AnaMasked+"; quota.reset failed limiter "+vtest.AnaMasked+"; quota.reset begun "+
			vtest.AnaMasked+"; quota.reset done") {
			t.Errorf("acts: %s", got)
		}
		r.Store.SetFault(func(string) sqlite.Fault { return sqlite.Down })
		err := r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset"))
		r.MendStore()
		if !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
		r.RefuseTo(vtest.Ana) // nothing happened that is not recorded
	})
}

func TestEraseEndsWhatWaits(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), vtest.AuditEntry("erase")))
		r.Sleep(time.Minute)
		if mails := r.MailServer.Attempts(); len(mails) != 1 {
			t.Errorf("%d attempts after the erasure", len(mails)-1)
		}
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "erased" || v.To != store.Erased || v.State != verification.Canceled {
			t.Errorf("afterwards: %+v", v)
		}
		all, err := r.Store.Sends(r.Context(), store.Filter{Limit: 100})
		r.NoError(err)
		for _, s := range all {
			if s.To != store.Erased || s.Reference != "" || s.IP != "" {
				t.Errorf("left: %+v", s)
			}
		}
		if len(all) != 2 {
			t.Errorf("%d rows: the refusal that waited to be written must be erased with the rest", len(all))
		}
		r.SendTo(vtest.Ana)
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		if a := r.RefuseTo(vtest.Ana); a.Quota.Rules[1].Used != 2 { // as the log teaches it
			t.Errorf("being erased freed quota: %+v", a.Quota.Rules)
		}
		resend := vtest.AskFor("")
		resend.Channel, resend.Resend = "", a.View.ID
		if _, err := r.Svc.Send(r.Context(), resend); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("a resend by its ID: %v", err)
		}
		if got := r.Actions(); got != "erase done "+store.Erased {
			t.Errorf("acts: %s", got)
		}
	})
}

func TestErasedAreForgotten(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Tick, s.Lease = 20*time.Minute, time.Hour }, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		hash := r.Person().Recipient
		r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), vtest.AuditEntry("erase")))
		r.Sleep(30 * 24 * time.Hour)
		if v := r.Verification(a.View.ID); v.Recipient != hash {
			t.Error("forgotten while a bound needs the hash")
		}
		r.Sleep(2*24*time.Hour + 2*time.Hour)
		if v := r.Verification(a.View.ID); !v.Recipient.IsZero() {
			t.Error("not forgotten")
		}
	})
}

func TestCancelAndResendByAnAdministrator(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		v := r.Verification(a.View.ID)
		again, err := r.Svc.Desk.ResendFor(r.Context(), v, vtest.BackEnd.IP, vtest.AuditEntry("resend"))
		r.NoError(err)
		if again.Admitted {
			t.Error("a gate was passed by")
		}
		r.Sleep(time.Minute)
		again, err = r.Svc.Desk.ResendFor(r.Context(), v, vtest.BackEnd.IP, vtest.AuditEntry("resend"))
		r.NoError(err)
		synctest.Wait()
		if mails := r.MailServer.Attempts(); !again.Admitted || again.View.ID != v.ID || len(mails) != 2 ||
			vtest.CodeIn(mails[0]) != vtest.CodeIn(mails[1]) {
			t.Errorf("sent again: %+v, %d mails", again.View, len(mails))
		}
		for _, want := range []bool{true, false} {
			done, err := r.Svc.Desk.CancelFor(r.Context(), v, vtest.AuditEntry("cancel"))
			r.NoError(err)
			if done != want {
				t.Errorf("canceled: %v", done)
			}
		}
		var bad *verification.InvalidError
		if _, err := r.Svc.Desk.ResendFor(r.Context(), v, vtest.BackEnd.IP, vtest.AuditEntry("resend")); !errors.As(err, &bad) ||
			bad.Reason != "ended" {
			t.Errorf("a canceled code: %v", err)
		}
		late := r.SendTo("late@example.com")
		r.Sleep(8*time.Minute + time.Second)
		if _, err := r.Svc.Desk.ResendFor(r.Context(), r.Verification(late.View.ID), vtest.BackEnd.IP, vtest.AuditEntry("resend")); !errors.As(err,
			&bad) {
			t.Errorf("a code that is about to end: %v", err)
		}
		want := strings.ReplaceAll("resend begun X; resend failed minute X; resend begun X; resend done X; cancel done X; cancel failed ended X",
			"X", vtest.AnaMasked)
		if got := r.Actions(); got != want {
			t.Errorf("acts: %s", got)
		}
	})
}

func TestRevealIsRecordedFirst(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		v := r.Verification(r.SendTo(vtest.Ana).View.ID)
		r.FailStore(sqlite.Down, "AddAuditEntry")
		if to, err := r.Svc.Desk.Reveal(r.Context(), v, vtest.AuditEntry("reveal")); to != "" || !errors.Is(err,
			verification.ErrUnavailable) {
			t.Errorf("shown without a record: %v", err)
		}
		r.MendStore()
		if to, err := r.Svc.Desk.Reveal(r.Context(), v, vtest.AuditEntry("reveal")); to != vtest.Ana || err != nil {
			t.Errorf("%q %v", to, err)
		}
		r.NoError(r.Svc.Desk.Erase(context.Background(), r.Person(), vtest.AuditEntry("erase")))
		if to, err := r.Svc.Desk.Reveal(r.Context(), r.Verification(v.ID), vtest.AuditEntry("reveal")); to != "" || err == nil {
			t.Errorf("erased: %v", err)
		}
		if got := r.Actions(); got != strings.ReplaceAll("reveal done X; erase done X; reveal done X; reveal failed unreadable X", "X", store.Erased) {
			t.Errorf("acts: %s", got)
		}
	})
}

func TestReasonsNameNoRecipient(t *testing.T) {
	for reason, good := range map[string]bool{
		"ticket 7": true, "Zendesk 12345678": true, "asked by phone,\n2 times": true, "工单 42": true, "banana bread": true, strings.Repeat("木", 500): true,
		"2026-03-04, 5 codes": true, "#20260304-17": false, // ten digits may be a number; rather one word too few
		"": false, " \n": false, "a\x00": false, "\xff": false, strings.Repeat("木", 501): false, "x\x1b[2J": false,
		"for ana.maria@example.com": false, "ana＠example": false, "+49 30 1234567": false, "call 138 0013 8000": false, "(030) 1234-5678": false,
		"Ana.Maria asked": false, "it was ANA.MARIA": false,
	} {
		if err := support.CheckReason(reason, vtest.Ana); (err == nil) != good {
			t.Errorf("%q: %v", reason, err)
		}
	}
	if err := support.CheckReason("ana.maria asked", ""); err != nil {
		t.Errorf("without a known recipient: %v", err)
	}
	if err := support.CheckReason("jo asked", "jo@example.com"); err != nil {
		t.Errorf("too short to be a name: %v", err)
	}
}

func TestPersonsAreUnderstood(t *testing.T) {
	r := vtest.NewRig(t, nil)
	for what, c := range map[string]struct{ app, channel, to, purpose, reason, field string }{
		"app": {"none", "email", vtest.Ana, "", "x", "app"}, "channel": {"", "pigeon", vtest.Ana, "", "x", "channel"},
		"to":      {"", "email", "ana", "", "x", "to"},
		"purpose": {"", "email", vtest.Ana, "none", "x", "purpose"}, "reason": {"", "email", vtest.Ana, "", "", "reason"},
		"named": {"shop", "email", vtest.Ana, "login", vtest.Ana, "reason"},
	} {
		var bad *verification.InvalidError
		if _, err := r.Svc.Desk.Person(c.app, c.channel, c.to, c.purpose, c.reason); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Sends that another process has still to tell the limiter do not count after a reset.
func TestResetHoldsForWhatOtherProcessesStillHaveToTell(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		other := r.Replica(r.MailServer)
		other.Limiter.Around(vtest.Unreachable())
		ctx, stop := context.WithCancel(context.Background())
		stopped := make(chan struct{})
		go func() { defer close(stopped); other.Run(ctx) }()
		if a, err := other.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatalf("%+v, %v", a, err)
		}
		r.Sleep(2 * time.Second)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		other.Limiter.Around(nil)
		r.Sleep(5 * time.Second)
		r.WantCounted("after the reset", 0)
		stop()
		<-stopped
	})
}
