package verification

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

func actOf(what string) store.AuditEntry {
	return store.AuditEntry{ID: uuid.Must(uuid.NewV7()), Who: "mei", Role: "operator", What: what, Reason: "ticket 7", Outcome: store.AuditDone}
}

func (r *rig) person() Person {
	r.Helper()
	p, err := r.svc.Person("", "email", ana, "", "ticket 7")
	r.noError(err)
	return p
}

func (r *rig) noError(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// ends are the outcomes of all acts, the oldest first, with whom they were on.
func (r *rig) ends() string {
	r.Helper()
	list, err := r.log.AuditEntries(r.Context(), store.AuditFilter{Limit: 100})
	r.noError(err)
	var out []string
	for i := len(list) - 1; i >= 0; i-- {
		a := list[i]
		out = append(out, strings.Join(strings.Fields(strings.Join([]string{a.What, string(a.Outcome), a.Detail, a.To}, " ")), " "))
	}
	return strings.Join(out, "; ")
}

func (r *rig) verification(id string) store.Verification {
	r.Helper()
	v, _, _, err := r.log.Verification(r.Context(), id)
	r.noError(err)
	return v
}

func TestResetClearsBothGates(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.send(askFor(ana))
		r.refuse(askFor(ana))
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		if a := r.send(askFor(ana)); a.View.ID != first.View.ID || a.View.Send.Number != 2 {
			t.Errorf("after the reset: %+v", a.View)
		}
		r.refuse(askFor(ana)) // from now on it counts again
		r.limiter.set(quota.NewMemory(time.Now, "process"))
		if a := r.refuse(askFor(ana)); a.Quota.Rules[0].Used != 1 {
			t.Errorf("after a flush the log knows of %d sends", a.Quota.Rules[0].Used)
		}
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		r.limiter.set(quota.NewMemory(time.Now, "process"))
		r.send(askFor(ana)) // the log alone
		if got, want := r.ends(), "quota.reset begun "+anaAs+"; quota.reset done "+anaAs; got != want+"; "+want {
			t.Errorf("acts: %s", got)
		}
	})
}

// What the limiter remembers in this process and in another one's, and what it was still to be told, is gone as well.
func TestResetIsNoticedEverywhere(t *testing.T) {
	inBubble(t, func(r *rig) {
		shared := quota.NewMemory(time.Now, "redis")
		r.limiter.set(quota.Remember(shared, time.Now))
		other := r.replica(r.post)
		other.limits.Limiter = quota.Remember(shared, time.Now)
		r.send(askFor(ana))
		r.refuse(askFor(ana))
		if a, err := other.Send(r.Context(), askFor(ana)); err != nil || a.Admitted {
			t.Fatal(a, err)
		}
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		r.send(askFor(ana))
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		waited(250 * time.Millisecond)
		if a, err := other.Send(r.Context(), askFor(ana)); err != nil || !a.Admitted {
			t.Errorf("another replica after 250 ms: %v %v", a.Quota.Violated(), err)
		}
	})
}

func TestResetClearsTheLockouts(t *testing.T) {
	inBubbleWith(t, func(s *Settings) {
		for name, p := range s.Purposes {
			p.Policy.Rules = []quota.Rule{
				{Name: "hour", Scope: quota.Recipient, Limit: 100, Window: time.Hour},
				{Name: "failures", Scope: quota.Failures, Limit: 1, Window: 24 * time.Hour},
			}
			s.Purposes[name] = p
		}
	}, func(r *rig) {
		var sent []Answer
		for i := range 5 {
			ask := askFor(ana)
			ask.Session = string(rune('a' + i))
			sent = append(sent, r.send(ask))
		}
		for i, a := range sent[:4] {
			for range 5 {
				_, _ = r.svc.Check(r.Context(), backEnd, a.View.ID, wrongFor(codeIn(r.post.all()[i])))
			}
		}
		last := sent[4]
		var barred *TooManyChecksError
		if _, err := r.svc.Check(r.Context(), backEnd, last.View.ID, "000000"); !errors.As(err, &barred) {
			t.Fatalf("not locked out: %v", err)
		}
		if _, err := r.svc.Send(r.Context(), askFor(ana)); !errors.As(err, &barred) {
			t.Fatalf("a send while locked out: %v", err)
		}
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.send(askFor(ana)) // at once, also where the lockout was remembered
		if a := r.refuse(askFor(ana)); a.Quota.Violated()[0] != "failures" {
			t.Fatalf("refused by %v", a.Quota.Violated())
		}
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		if c := r.check(last.View.ID, wrongFor(codeIn(r.post.all()[4]))); c.AttemptsRemaining != 4 {
			t.Errorf("tries left of a pending code: %d", c.AttemptsRemaining)
		}
		r.send(askFor(ana))
		r.limiter.set(quota.NewMemory(time.Now, "process")) // the log's failures, too
		r.send(askFor(ana))
	})
}

// Without the limiter the log's part is done, and the act says what is not.
func TestResetWithoutTheLimiter(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		memory := *r.limiter.now.Load()
		r.limiter.set(noLimiter{})
		if err := r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
		r.limiter.set(memory)
		waited(2 * pause)
		r.refuse(askFor(ana))
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		r.send(askFor(ana))
		if got := r.ends(); !strings.Contains(got, "begun "+anaAs+"; quota.reset failed limiter "+anaAs+"; quota.reset begun "+anaAs+"; quota.reset done") {
			t.Errorf("acts: %s", got)
		}
		r.log.SetFault(func(string) sqlite.Fault { return sqlite.Down })
		err := r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset"))
		r.log.SetFault(nil)
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
		r.refuse(askFor(ana)) // nothing happened that is not recorded
	})
}

func TestEraseEndsWhatWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.post.tell(failing(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.send(askFor(ana))
		r.refuse(askFor(ana))
		r.noError(r.svc.Erase(r.Context(), r.person(), actOf("erase")))
		waited(minute)
		if mails := r.post.all(); len(mails) != 1 {
			t.Errorf("%d attempts after the erasure", len(mails)-1)
		}
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "erased" || v.To != store.Erased || v.State != Canceled {
			t.Errorf("afterwards: %+v", v)
		}
		all, err := r.log.Sends(r.Context(), store.Filter{Limit: 100})
		r.noError(err)
		for _, s := range all {
			if s.To != store.Erased || s.Reference != "" || s.IP != "" {
				t.Errorf("left: %+v", s)
			}
		}
		if len(all) != 2 {
			t.Errorf("%d rows: the refusal that waited to be written must be erased with the rest", len(all))
		}
		r.send(askFor(ana))
		r.limiter.set(quota.NewMemory(time.Now, "process"))
		if a := r.refuse(askFor(ana)); a.Quota.Rules[1].Used != 2 { // as the log teaches it
			t.Errorf("being erased freed quota: %+v", a.Quota.Rules)
		}
		resend := askFor("")
		resend.Channel, resend.Resend = "", a.View.ID
		if _, err := r.svc.Send(r.Context(), resend); !errors.Is(err, ErrNotFound) {
			t.Errorf("a resend by its ID: %v", err)
		}
		if got := r.ends(); got != "erase done "+store.Erased {
			t.Errorf("acts: %s", got)
		}
	})
}

// A mail that waits in another replica's memory is not sent to somebody who was erased meanwhile, nor one whose code was canceled.
func TestLongWaitersAreReadAgain(t *testing.T) {
	for what, end := range map[string]func(r *rig, id string){
		"erased":   func(r *rig, _ string) { r.noError(r.svc.Erase(r.Context(), r.person(), actOf("erase"))) },
		"canceled": func(r *rig, id string) { _, err := r.log.Cancel(r.Context(), id); r.noError(err) },
	} {
		inBubbleWith(t, func(s *Settings) { s.Workers = 1 }, func(r *rig) {
			release := make(chan struct{})
			r.post.tell(hanging(release))
			_, err := r.svc.Send(r.Context(), askFor("first@example.com"))
			r.noError(err)
			synctest.Wait()
			a, err := r.svc.Send(r.Context(), askFor(ana))
			r.noError(err)
			waited(3 * time.Second)
			end(r, a.View.ID)
			close(release)
			waited(time.Second)
			for _, m := range r.post.all() {
				if m.To == ana {
					t.Errorf("%s: a mail went out all the same", what)
				}
			}
			if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != map[string]string{"erased": "erased", "canceled": "ended"}[what] {
				t.Errorf("%s: %+v", what, v.Send)
			}
		})
	}
}

func TestErasedAreForgotten(t *testing.T) {
	inBubbleWith(t, func(s *Settings) { s.Tick, s.Lease = 20*time.Minute, time.Hour }, func(r *rig) {
		a := r.send(askFor(ana))
		hash := r.person().Recipient
		r.noError(r.svc.Erase(r.Context(), r.person(), actOf("erase")))
		waited(30 * 24 * time.Hour)
		if v := r.verification(a.View.ID); v.Recipient != hash {
			t.Error("forgotten while a bound needs the hash")
		}
		waited(2*24*time.Hour + 2*time.Hour)
		if v := r.verification(a.View.ID); !v.Recipient.IsZero() {
			t.Error("not forgotten")
		}
	})
}

func TestCancelAndResendByAnAdministrator(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		v := r.verification(a.View.ID)
		again, err := r.svc.ResendFor(r.Context(), v, backEnd.IP, actOf("resend"))
		r.noError(err)
		if again.Admitted {
			t.Error("a gate was passed by")
		}
		waited(minute)
		again, err = r.svc.ResendFor(r.Context(), v, backEnd.IP, actOf("resend"))
		r.noError(err)
		synctest.Wait()
		if mails := r.post.all(); !again.Admitted || again.View.ID != v.ID || len(mails) != 2 || codeIn(mails[0]) != codeIn(mails[1]) {
			t.Errorf("sent again: %+v, %d mails", again.View, len(mails))
		}
		for _, want := range []bool{true, false} {
			done, err := r.svc.CancelFor(r.Context(), v, actOf("cancel"))
			r.noError(err)
			if done != want {
				t.Errorf("canceled: %v", done)
			}
		}
		var bad *InvalidError
		if _, err := r.svc.ResendFor(r.Context(), v, backEnd.IP, actOf("resend")); !errors.As(err, &bad) || bad.Reason != "ended" {
			t.Errorf("a canceled code: %v", err)
		}
		late := r.send(askFor("late@example.com"))
		waited(8*minute + time.Second)
		if _, err := r.svc.ResendFor(r.Context(), r.verification(late.View.ID), backEnd.IP, actOf("resend")); !errors.As(err, &bad) {
			t.Errorf("a code that is about to end: %v", err)
		}
		want := strings.ReplaceAll("resend begun X; resend failed minute X; resend begun X; resend done X; cancel done X; cancel failed ended X", "X", anaAs)
		if got := r.ends(); got != want {
			t.Errorf("acts: %s", got)
		}
	})
}

func TestRevealIsRecordedFirst(t *testing.T) {
	inBubble(t, func(r *rig) {
		v := r.verification(r.send(askFor(ana)).View.ID)
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "AddAuditEntry" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if to, err := r.svc.Reveal(r.Context(), v, actOf("reveal")); to != "" || !errors.Is(err, ErrUnavailable) {
			t.Errorf("shown without a record: %v", err)
		}
		r.log.SetFault(nil)
		if to, err := r.svc.Reveal(r.Context(), v, actOf("reveal")); to != ana || err != nil {
			t.Errorf("%q %v", to, err)
		}
		r.noError(r.svc.Erase(context.Background(), r.person(), actOf("erase")))
		if to, err := r.svc.Reveal(r.Context(), r.verification(v.ID), actOf("reveal")); to != "" || err == nil {
			t.Errorf("erased: %v", err)
		}
		if got := r.ends(); got != strings.ReplaceAll("reveal done X; erase done X; reveal done X; reveal failed unreadable X", "X", store.Erased) {
			t.Errorf("acts: %s", got)
		}
	})
}

func TestReasonsNameNobody(t *testing.T) {
	for reason, good := range map[string]bool{
		"ticket 7": true, "Zendesk 12345678": true, "asked by phone,\n2 times": true, "工单 42": true, "banana bread": true, strings.Repeat("木", 500): true,
		"2026-03-04, 5 codes": true, "#20260304-17": false, // ten digits may be a number; rather one word too few
		"": false, " \n": false, "a\x00": false, "\xff": false, strings.Repeat("木", 501): false, "x\x1b[2J": false,
		"for ana.maria@example.com": false, "ana＠example": false, "+49 30 1234567": false, "call 138 0013 8000": false, "(030) 1234-5678": false,
		"Ana.Maria asked": false, "it was ANA.MARIA": false,
	} {
		if err := CheckReason(reason, ana); (err == nil) != good {
			t.Errorf("%q: %v", reason, err)
		}
	}
	if err := CheckReason("ana.maria asked", ""); err != nil {
		t.Errorf("nobody is known: %v", err)
	}
	if err := CheckReason("jo asked", "jo@example.com"); err != nil {
		t.Errorf("too short to be a name: %v", err)
	}
}

func TestPersonsAreUnderstood(t *testing.T) {
	r := newRig(t, nil)
	for what, c := range map[string]struct{ app, channel, to, purpose, reason, field string }{
		"app": {"none", "email", ana, "", "x", "app"}, "channel": {"", "pigeon", ana, "", "x", "channel"}, "to": {"", "email", "ana", "", "x", "to"},
		"purpose": {"", "email", ana, "none", "x", "purpose"}, "reason": {"", "email", ana, "", "", "reason"}, "named": {"shop", "email", ana, "login", ana, "reason"},
	} {
		var bad *InvalidError
		if _, err := r.svc.Person(c.app, c.channel, c.to, c.purpose, c.reason); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%s: %v", what, err)
		}
	}
}
