package support_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

func TestResetClearsBothGates(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		v := r.SendTo(vtest.Ana).View
		vtest.Equal(r, "after the reset: ID", v.ID, first.View.ID)
		vtest.Equal(r, "after the reset: Number", v.Send.Number, 2)
		r.RefuseTo(vtest.Ana) // after the reset, sends count again
		r.ReplaceLimiter()
		r.WantQuota("after a flush the database knows of one", r.RefuseTo(vtest.Ana).Quota, "[0 4 9]", time.Minute)
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		r.ReplaceLimiter()
		r.SendTo(vtest.Ana) // only the database counts this send
		r.WantActions("quota.reset begun; quota.reset done; quota.reset begun; quota.reset done")
	})
}

func TestResetClearsTheLockouts(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(
		quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 100, Window: time.Hour},
		quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 1, Window: 24 * time.Hour},
	), func(r *vtest.Rig) {
		var ids []string
		for i := range 5 {
			ids = append(ids, r.SendTo(vtest.Ana, vtest.InSession(fmt.Sprint(i))).View.ID)
		}
		r.Guess(vtest.BackEnd, 20, ids[:4]...)
		_, compared, _ := r.Try(vtest.BackEnd, ids[4], r.Code(4))
		r.Want("compared", compared, false)
		r.WantLockedOut(vtest.AskFor(vtest.Ana))
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana) // at once, even in a process that remembered the lockout
		r.Want("refused by", r.RefuseTo(vtest.Ana).Quota.Violated(), "[failures]")
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		r.Want("tries left of a pending code", r.Check(ids[4], r.WrongCode(r.Code(4))).AttemptsRemaining, 4)
		r.SendTo(vtest.Ana)
		r.ReplaceLimiter() // the database's failures are reset, too
		r.SendTo(vtest.Ana)
	})
}

// Without the limiter, the part of the reset in the database is done, and the audit entry says
// which part is missing.
func TestResetWithoutTheLimiter(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.LoseLimiter()
		r.WantError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")), fault.Unavailable)
		r.Limiter.Intercept(nil)
		r.Sleep(2 * gates.LimiterRetryDelay)
		r.RefuseTo(vtest.Ana) // the limiter counts what the database has reset
		r.LoseLimiter()
		r.QuotaOf("")
		r.Limiter.Intercept(nil) // the gates still regard the limiter as away, but ResetQuota calls it
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		r.Sleep(2 * gates.LimiterRetryDelay)
		r.SendTo(vtest.Ana)
		r.WantActions("quota.reset begun; quota.reset failed limiter; quota.reset begun; quota.reset done")
		r.FailStore(sqlitetest.Down, "ResetCounters")
		r.WantError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")), fault.Unavailable)
		r.EndStoreFaults()
		r.RefuseTo(vtest.Ana) // without a record, nothing was done
	})
}

func TestEraseEndsWhatWaits(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1"))
		a := r.SendTo(vtest.Ana)
		r.RefuseTo(vtest.Ana)
		other := r.Replica(r.MailServer)
		r.AskAt(other, vtest.AskFor(vtest.Ana), false)
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		r.Sleep(time.Minute)
		other.Refusals.Flush(r.Context())
		r.WantMails(1)
		v := r.Get(a.View.ID)
		vtest.Equal(r, "afterwards: Status", r.Status(a), "failed erased")
		vtest.Equal(r, "afterwards: State", v.State, "canceled")
		vtest.Equal(r, "afterwards: To", v.To, store.ErasedMask)
		for _, s := range r.Rows() {
			vtest.Equal(r, "a row: To", s.To, store.ErasedMask)
			vtest.Equal(r, "a row: Reference", s.Reference, "")
			vtest.Equal(r, "a row: Network", s.Network, "")
		}
		r.Want("rows, with the refusals that waited to be written, here and at another replica", len(r.Rows()), 3)
		r.SendTo(vtest.Ana)
		r.ReplaceLimiter()
		r.WantQuota("as the database teaches it", r.RefuseTo(vtest.Ana).Quota, "[0 3 8]", time.Minute)
		r.WantError(r.SendError(verification.Request{Caller: vtest.BackEnd, Resend: a.View.ID}), fault.NotFound)
		r.WantActions("recipient.erase done")
	})
}

func TestVerificationForgetsAnErasedRecipient(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Tick, s.Lease = time.Hour, time.Hour }, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		hash := r.AnaTarget().Recipient
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		r.Sleep(30 * 24 * time.Hour)
		r.Want("while a bound needs the hash", r.Verification(a.View.ID).Recipient, hash)
		r.Sleep(2*24*time.Hour + 2*time.Hour)
		r.Want("forgotten", r.Verification(a.View.ID).Recipient.IsZero(), true)
	})
}

func TestCancelAndResendByAnAdministrator(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		resend := func(v store.Verification) (verification.Answer, error) {
			return r.Svc.Administration.Resend(r.Context(), v, vtest.BackEnd.IP, vtest.AuditEntry("resend"))
		}
		v := r.Verification(r.SendTo(vtest.Ana).View.ID)
		for _, admitted := range []bool{false, true} { // the gates refuse the first resend, and admit the second
			again, err := resend(v)
			r.NoError(err)
			r.Want("admitted", again.Admitted, admitted)
			r.Sleep(time.Minute)
		}
		r.WantMails(2)
		r.Want("the code again", r.Code(1), r.Code(0))
		for _, want := range []bool{true, false} {
			done, err := r.Svc.Administration.CancelVerification(r.Context(), v, vtest.AuditEntry("cancel"))
			vtest.Equal(r, "canceled: done", done, want)
			r.NoError(err)
		}
		r.WantInvalid(vtest.Err(resend(v)), "id", "ended")
		late := r.SendTo("late@example.com")
		r.Sleep(8*time.Minute + time.Second)
		r.WantInvalid(vtest.Err(resend(r.Verification(late.View.ID))), "id", "ended") // the code is about to end
		callers := r.SendTo("caller@example.com", func(a *verification.Request) { a.Code = "123456" })
		r.WantInvalid(vtest.Err(resend(r.Verification(callers.View.ID))), "id", "not_kept")
		stopped := r.SendTo("bo@example.com")
		r.Sleep(time.Minute)
		ask := support.SuppressRequest{Channel: "email", To: "bo@example.com", Reason: "asked"}
		r.NoError(vtest.Err(r.Svc.Administration.Suppress(r.Context(), ask, vtest.AuditEntry("suppress"))))
		again, err := resend(r.Verification(stopped.View.ID))
		r.NoError(err)
		vtest.Equal(r, "admitted, and failed at once: Admitted", again.Admitted, true)
		vtest.Equal(r, "admitted, and failed at once: Status", again.View.Send.Status, store.Failed)
		vtest.Equal(r, "admitted, and failed at once: Reason", again.View.Send.Reason, "suppressed")
		r.WantActions("resend begun; resend failed minute; resend begun; resend done; cancel done; cancel failed ended; " +
			"suppress done b•••@example.com; resend begun b•••@example.com; resend failed suppressed b•••@example.com")
	})
}

func TestRevealIsRecordedFirst(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		v := r.Verification(r.SendTo(vtest.Ana).View.ID)
		r.FailStore(sqlitetest.Down, "AddAuditEntry")
		reveal := func(what, want, wantError string) {
			to, err := r.Svc.Administration.RevealRecipient(r.Context(), r.Verification(v.ID), vtest.AuditEntry("reveal"))
			vtest.Equal(r, what, to, want)
			r.Want(what+": error", err, wantError)
		}
		reveal("without a record", "", "unavailable: down for a test")
		r.EndStoreFaults()
		reveal("with one", vtest.Ana, "<nil>")
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		reveal("erased", "", "id: not_kept")
		r.WantActions("reveal done; recipient.erase done; reveal done; reveal failed unreadable")
	})
}

// Without an audit entry, an export returns no row. The second entry has the real outcome of the
// export.
func TestExportIsRecordedFirst(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		for _, method := range []string{"AddAuditEntry", "ExportPerson"} {
			var out strings.Builder
			r.FailStore(sqlitetest.Down, method)
			r.WantError(r.Svc.Administration.ExportRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("person.export"), &out), fault.Unavailable)
			r.Want("written without "+method, out.String(), "")
			r.EndStoreFaults()
		}
		r.WantActions("person.export begun; person.export failed rows=0")
	})
}

func TestReasonsNameNoRecipient(t *testing.T) {
	for reason, good := range map[string]bool{
		"ticket 7": true, "Zendesk 12345678": true, "asked by phone,\n2 times": true, "工单 42": true,
		"banana bread": true, strings.Repeat("木", 500): true,
		"2026-03-04, 5 codes": true, "#20260304-17": false, // ten digits may be a phone number; it is better to refuse one text too many
		"": false, " \n": false, "a\x00": false, "\xff": false, strings.Repeat("木", 501): false, "x\x1b[2J": false,
		"ticket \u202e7": false, "a\u2028b": false, "<b>ticket</b>": true,
		"for ana.maria@example.com": false, "ana＠example": false, "+49 30 1234567": false, "call 138 0013 8000": false,
		"(030) 1234-5678": false,
		"Ana.Maria asked": false, "it was ANA.MARIA": false, "Ana Maria asked": false, "ａｎａ．ｍａｒｉａ asked": false,
		"ana%40example.com": false, "ana (at) example.com": false, "ana at example dot com": false, "ana&#64;example.com": false,
		"+(49) 30 1234": false, "＋49 30 1234": false, "%2B49301234": false, "①③⑧⓪⓪①③⑧⓪⓪": false, "138‑0013‑8000": false,
		"we looked at example.com": true, "100% sure": true, "AT&T; ticket 7": true,
	} {
		servertest.Same(t, reason, support.CheckReason(reason, vtest.Ana) == nil, good)
	}
	servertest.Same(t, "without a known recipient", support.CheckReason("ana.maria asked", ""), nil)
	servertest.Same(t, "a part of a word, twice", support.CheckReason("annann asked", "ann@example.com"), nil)
	servertest.Same(t, "after such a part", support.CheckReason("annann or ann asked", "ann@example.com") == nil, false)
	servertest.Same(t, "too short to be a name", support.CheckReason("jo asked", "jo@example.com"), nil)
}

func TestParseTarget(t *testing.T) {
	r := vtest.NewRig(t, nil)
	for _, c := range []struct{ app, channel, to, purpose, reason, field string }{
		{"none", "email", vtest.Ana, "", "x", "app"},
		{"", "pigeon", vtest.Ana, "", "x", "channel"},
		{"", "email", "ana", "", "x", "to"},
		{"", "email", vtest.Ana, "none", "x", "purpose"},
		{"", "email", vtest.Ana, "", "", "reason"},
		{"shop", "email", vtest.Ana, "login", vtest.Ana, "reason"},
	} {
		r.WantInvalid(vtest.Err(r.Svc.Administration.ParseTarget(c.app, c.channel, c.to, c.purpose, c.reason)), c.field, "")
	}
}
