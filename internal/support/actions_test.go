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
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

func TestResetClearsBothGates(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		first := r.Send(rig.AskFor(rig.Ana))
		r.Refuse(rig.AskFor(rig.Ana))
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		if a := r.Send(rig.AskFor(rig.Ana)); a.View.ID != first.View.ID || a.View.Send.Number != 2 {
			t.Errorf("after the reset: %+v", a.View)
		}
		r.Refuse(rig.AskFor(rig.Ana)) // from now on it counts again
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		if a := r.Refuse(rig.AskFor(rig.Ana)); a.Quota.Rules[0].Used != 1 {
			t.Errorf("after a flush the log knows of %d sends", a.Quota.Rules[0].Used)
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		r.Send(rig.AskFor(rig.Ana)) // the log alone
		if got, want := r.Ends(), "quota.reset begun "+rig.AnaAs+"; quota.reset done "+rig.AnaAs; got != want+"; "+want {
			t.Errorf("acts: %s", got)
		}
	})
}

// What the limiter remembers in this process and in another one's, and what it was still to be told, is gone as well.
func TestResetIsNoticedEverywhere(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		shared := quota.NewMemory(time.Now, "redis")
		r.Limiter.Set(quota.Remember(shared, time.Now))
		other := r.Replica(r.Post)
		other.Limiter.Set(quota.Remember(shared, time.Now))
		r.Send(rig.AskFor(rig.Ana))
		r.Refuse(rig.AskFor(rig.Ana))
		if a, err := other.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || a.Admitted {
			t.Fatal(a, err)
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		r.Send(rig.AskFor(rig.Ana))
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		rig.Waited(250 * time.Millisecond)
		if a, err := other.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
			t.Errorf("another replica after 250 ms: %v %v", a.Quota.Violated(), err)
		}
	})
}

func TestResetClearsTheLockouts(t *testing.T) {
	rig.InBubbleWith(t, func(s *rig.Settings) {
		for name, p := range s.Purposes {
			p.Policy.Rules = []quota.Rule{
				{Name: "hour", Scope: quota.Recipient, Limit: 100, Window: time.Hour},
				{Name: "failures", Scope: quota.Failures, Limit: 1, Window: 24 * time.Hour},
			}
			s.Purposes[name] = p
		}
	}, func(r *rig.Rig) {
		var sent []verification.Answer
		for i := range 5 {
			ask := rig.AskFor(rig.Ana)
			ask.Session = string(rune('a' + i))
			sent = append(sent, r.Send(ask))
		}
		for i, a := range sent[:4] {
			for range 5 {
				_, _ = r.Svc.Check(r.Context(), rig.BackEnd, a.View.ID, rig.WrongFor(rig.CodeIn(r.Post.All()[i])))
			}
		}
		last := sent[4]
		var barred *verification.TooManyChecksError
		if _, err := r.Svc.Check(r.Context(), rig.BackEnd, last.View.ID, "000000"); !errors.As(err, &barred) {
			t.Fatalf("not locked out: %v", err)
		}
		if _, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana)); !errors.As(err, &barred) {
			t.Fatalf("a send while locked out: %v", err)
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		r.Post.Tell(rig.Failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.Send(rig.AskFor(rig.Ana)) // at once, also where the lockout was remembered
		if a := r.Refuse(rig.AskFor(rig.Ana)); a.Quota.Violated()[0] != "failures" {
			t.Fatalf("refused by %v", a.Quota.Violated())
		}
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		if c := r.Check(last.View.ID, rig.WrongFor(rig.CodeIn(r.Post.All()[4]))); c.AttemptsRemaining != 4 {
			t.Errorf("tries left of a pending code: %d", c.AttemptsRemaining)
		}
		r.Send(rig.AskFor(rig.Ana))
		r.Limiter.Set(quota.NewMemory(time.Now, "process")) // the log's failures, too
		r.Send(rig.AskFor(rig.Ana))
	})
}

// Without the limiter the log's part is done, and the act says what is not.
func TestResetWithoutTheLimiter(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		memory := *r.Limiter.Now.Load()
		r.Limiter.Set(rig.NoLimiter{})
		if err := r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")); !errors.Is(err, verification.ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
		r.Limiter.Set(memory)
		rig.Waited(2 * gates.Pause)
		r.Refuse(rig.AskFor(rig.Ana))
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		r.Send(rig.AskFor(rig.Ana))
		if got := r.Ends(); !strings.Contains(got, "begun "+rig.AnaAs+"; quota.reset failed limiter "+rig.AnaAs+"; quota.reset begun "+rig.AnaAs+"; quota.reset done") {
			t.Errorf("acts: %s", got)
		}
		r.Store.SetFault(func(string) sqlite.Fault { return sqlite.Down })
		err := r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset"))
		r.Store.SetFault(nil)
		if !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
		r.Refuse(rig.AskFor(rig.Ana)) // nothing happened that is not recorded
	})
}

func TestEraseEndsWhatWaits(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		r.Post.Tell(rig.Failing(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.Send(rig.AskFor(rig.Ana))
		r.Refuse(rig.AskFor(rig.Ana))
		r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), rig.ActOf("erase")))
		rig.Waited(rig.Minute)
		if mails := r.Post.All(); len(mails) != 1 {
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
		r.Send(rig.AskFor(rig.Ana))
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
		if a := r.Refuse(rig.AskFor(rig.Ana)); a.Quota.Rules[1].Used != 2 { // as the log teaches it
			t.Errorf("being erased freed quota: %+v", a.Quota.Rules)
		}
		resend := rig.AskFor("")
		resend.Channel, resend.Resend = "", a.View.ID
		if _, err := r.Svc.Send(r.Context(), resend); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("a resend by its ID: %v", err)
		}
		if got := r.Ends(); got != "erase done "+store.Erased {
			t.Errorf("acts: %s", got)
		}
	})
}

// A mail that waits in another replica's memory is not sent to a person who was erased meanwhile, nor one whose code was canceled.
func TestLongWaitersAreReadAgain(t *testing.T) {
	for what, end := range map[string]func(r *rig.Rig, id string){
		"erased":   func(r *rig.Rig, _ string) { r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), rig.ActOf("erase"))) },
		"canceled": func(r *rig.Rig, id string) { _, err := r.Store.Cancel(r.Context(), id); r.NoError(err) },
	} {
		rig.InBubbleWith(t, func(s *rig.Settings) { s.Workers = 1 }, func(r *rig.Rig) {
			release := make(chan struct{})
			r.Post.Tell(rig.Hanging(release))
			_, err := r.Svc.Send(r.Context(), rig.AskFor("first@example.com"))
			r.NoError(err)
			synctest.Wait()
			a, err := r.Svc.Send(r.Context(), rig.AskFor(rig.Ana))
			r.NoError(err)
			rig.Waited(3 * time.Second)
			end(r, a.View.ID)
			close(release)
			rig.Waited(time.Second)
			for _, m := range r.Post.All() {
				if m.To == rig.Ana {
					t.Errorf("%s: a mail went out all the same", what)
				}
			}
			if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != map[string]string{"erased": "erased", "canceled": "ended"}[what] {
				t.Errorf("%s: %+v", what, v.Send)
			}
		})
	}
}

func TestErasedAreForgotten(t *testing.T) {
	rig.InBubbleWith(t, func(s *rig.Settings) { s.Tick, s.Lease = 20*time.Minute, time.Hour }, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		hash := r.Person().Recipient
		r.NoError(r.Svc.Desk.Erase(r.Context(), r.Person(), rig.ActOf("erase")))
		rig.Waited(30 * 24 * time.Hour)
		if v := r.Verification(a.View.ID); v.Recipient != hash {
			t.Error("forgotten while a bound needs the hash")
		}
		rig.Waited(2*24*time.Hour + 2*time.Hour)
		if v := r.Verification(a.View.ID); !v.Recipient.IsZero() {
			t.Error("not forgotten")
		}
	})
}

func TestCancelAndResendByAnAdministrator(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		a := r.Send(rig.AskFor(rig.Ana))
		v := r.Verification(a.View.ID)
		again, err := r.Svc.Desk.ResendFor(r.Context(), v, rig.BackEnd.IP, rig.ActOf("resend"))
		r.NoError(err)
		if again.Admitted {
			t.Error("a gate was passed by")
		}
		rig.Waited(rig.Minute)
		again, err = r.Svc.Desk.ResendFor(r.Context(), v, rig.BackEnd.IP, rig.ActOf("resend"))
		r.NoError(err)
		synctest.Wait()
		if mails := r.Post.All(); !again.Admitted || again.View.ID != v.ID || len(mails) != 2 || rig.CodeIn(mails[0]) != rig.CodeIn(mails[1]) {
			t.Errorf("sent again: %+v, %d mails", again.View, len(mails))
		}
		for _, want := range []bool{true, false} {
			done, err := r.Svc.Desk.CancelFor(r.Context(), v, rig.ActOf("cancel"))
			r.NoError(err)
			if done != want {
				t.Errorf("canceled: %v", done)
			}
		}
		var bad *verification.InvalidError
		if _, err := r.Svc.Desk.ResendFor(r.Context(), v, rig.BackEnd.IP, rig.ActOf("resend")); !errors.As(err, &bad) || bad.Reason != "ended" {
			t.Errorf("a canceled code: %v", err)
		}
		late := r.Send(rig.AskFor("late@example.com"))
		rig.Waited(8*rig.Minute + time.Second)
		if _, err := r.Svc.Desk.ResendFor(r.Context(), r.Verification(late.View.ID), rig.BackEnd.IP, rig.ActOf("resend")); !errors.As(err, &bad) {
			t.Errorf("a code that is about to end: %v", err)
		}
		want := strings.ReplaceAll("resend begun X; resend failed minute X; resend begun X; resend done X; cancel done X; cancel failed ended X", "X", rig.AnaAs)
		if got := r.Ends(); got != want {
			t.Errorf("acts: %s", got)
		}
	})
}

func TestRevealIsRecordedFirst(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		v := r.Verification(r.Send(rig.AskFor(rig.Ana)).View.ID)
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "AddAuditEntry" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if to, err := r.Svc.Desk.Reveal(r.Context(), v, rig.ActOf("reveal")); to != "" || !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("shown without a record: %v", err)
		}
		r.Store.SetFault(nil)
		if to, err := r.Svc.Desk.Reveal(r.Context(), v, rig.ActOf("reveal")); to != rig.Ana || err != nil {
			t.Errorf("%q %v", to, err)
		}
		r.NoError(r.Svc.Desk.Erase(context.Background(), r.Person(), rig.ActOf("erase")))
		if to, err := r.Svc.Desk.Reveal(r.Context(), r.Verification(v.ID), rig.ActOf("reveal")); to != "" || err == nil {
			t.Errorf("erased: %v", err)
		}
		if got := r.Ends(); got != strings.ReplaceAll("reveal done X; erase done X; reveal done X; reveal failed unreadable X", "X", store.Erased) {
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
		if err := support.CheckReason(reason, rig.Ana); (err == nil) != good {
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
	r := rig.NewRig(t, nil)
	for what, c := range map[string]struct{ app, channel, to, purpose, reason, field string }{
		"app": {"none", "email", rig.Ana, "", "x", "app"}, "channel": {"", "pigeon", rig.Ana, "", "x", "channel"}, "to": {"", "email", "ana", "", "x", "to"},
		"purpose": {"", "email", rig.Ana, "none", "x", "purpose"}, "reason": {"", "email", rig.Ana, "", "", "reason"}, "named": {"shop", "email", rig.Ana, "login", rig.Ana, "reason"},
	} {
		var bad *verification.InvalidError
		if _, err := r.Svc.Desk.Person(c.app, c.channel, c.to, c.purpose, c.reason); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What another process has still to tell the limiter does not count again after a reset.
func TestResetHoldsForWhatOtherProcessesStillHaveToTell(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		other := r.Replica(r.Post)
		other.Limiter.Set(rig.NoLimiter{Memory: quota.NewMemory(time.Now, "process")})
		ctx, stop := context.WithCancel(context.Background())
		stopped := make(chan struct{})
		go func() { defer close(stopped); other.Run(ctx) }()
		if a, err := other.Send(r.Context(), rig.AskFor(rig.Ana)); err != nil || !a.Admitted {
			t.Fatalf("%+v, %v", a, err)
		}
		rig.Waited(2 * time.Second)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), rig.ActOf("quota.reset")))
		other.Limiter.Set(r.Limiter)
		rig.Waited(5 * time.Second)
		r.Holds("after the reset", 0)
		stop()
		<-stopped
	})
}
