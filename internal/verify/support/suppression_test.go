package support_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A suppression stops mails for exactly the time SuppressFor, of the app whose mail bounced, and to
// exactly this address, even if the limiter fails.
func TestSuppressed(t *testing.T) {
	folds := func(s *vtest.Settings) {
		vtest.SuppressBounces(s)
		s.Vault.Folding = recipient.Folding{"example.com": {PlusTags: true}}
		s.SuppressFor = 2 * time.Hour // a month would have too many ticks for a test
	}
	vtest.InBubbleWith(t, vtest.MinuteTick(folds), func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.NoMailbox)
		first := r.SendTo(vtest.Ana)
		since := time.Now()
		r.ReplaceLimiter()
		r.SendFails(strings.ToUpper(vtest.Ana), "suppressed")
		s := r.Suppressions()[0]
		vtest.Equal(r, "the suppression: Cause", s.Cause, "hard_bounce")
		vtest.Equal(r, "the suppression: Detail", s.Detail, "550 5.1.1")
		vtest.Equal(r, "the suppression: App", s.App, "shop")
		vtest.Equal(r, "the suppression: To", s.To, vtest.AnaMasked)
		vtest.Equal(r, "the suppression: Send", s.Send.String(), first.View.Send.ID)
		r.LoseLimiter()
		r.WantStatus(r.SendTo(vtest.Ana), "failed suppressed")
		r.ReplaceLimiter()
		other := r.SendTo("ana.maria+b@example.com") // perhaps the same mailbox, but not the address that bounced
		r.SendTo(vtest.Ana, vtest.InApp("desk"))
		r.WantMails(3)
		r.WantStatus(other, "sent")
		r.Sleep(2*time.Hour - time.Since(since) - time.Microsecond)
		r.SendFails(vtest.Ana, "suppressed")
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
		r.WantMails(4)
	})
}

// The simulator's recipients bounce as often as a front end wants. Test recipients get no message
// that could bounce.
func TestSimulatorIsNeverSuppressed(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		for range 3 {
			r.MailServer.Answer(vtest.NoMailbox)
			r.SendFails("bounce@simulator.test", "rejected")
		}
		r.Want("suppressions", len(r.Suppressions()), 0)
	})
}

func TestNothingSuppressesWhereItIsOff(t *testing.T) {
	off := func(s *vtest.Settings) { vtest.SuppressBounces(s); s.SuppressFor = 0 }
	vtest.InBubbleWith(t, off, func(r *vtest.Rig) {
		for range 3 {
			r.MailServer.Answer(vtest.NoMailbox)
			r.SendFails(vtest.Ana, "rejected")
		}
		r.Suppress(vtest.Ana, 0) // an administrator can still suppress, for the default duration
		r.SendFails(vtest.Ana, "suppressed")
		s := r.Suppressions()[0]
		r.Want("how long", s.Until.Sub(s.Since), support.DefaultSuppressionPeriod)
	})
}

func TestSuppressByHandAndLift(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		s := r.Suppress("ana.maria@EXAMPLE.com", time.Hour)
		vtest.Equal(r, "the suppression: Cause", s.Cause, "manual")
		vtest.Equal(r, "the suppression: Detail", s.Detail, "asked by telephone")
		vtest.Equal(r, "the suppression: By", s.By, "mei")
		vtest.Equal(r, "the suppression: App", s.App, "")
		vtest.Equal(r, "the suppression: Send", s.Send, uuid.Nil)
		vtest.Equal(r, "the suppression: To", s.To, vtest.AnaMasked)
		vtest.Equal(r, "the suppression: lasts", s.Until.Sub(s.Since), time.Hour)
		r.SendFails(vtest.Ana, "suppressed")
		lift := func(l support.LiftSuppressionsRequest) ([]store.Suppression, error) {
			return r.Svc.Administration.LiftSuppressions(r.Context(), l, vtest.AuditEntry("suppression.lift"))
		}
		for _, want := range []int{1, 0} {
			list, err := lift(support.LiftSuppressionsRequest{Channel: "email", To: vtest.Ana, Reason: "mended"})
			vtest.Equal(r, "lifted", len(list), want)
			r.NoError(err)
		}
		r.SendTo(vtest.Ana)
		r.WantMails(1)
		again := r.Suppress(vtest.Ana, time.Hour)
		r.Sleep(time.Minute)
		list, err := lift(support.LiftSuppressionsRequest{Channel: "email", Address: again.Address, Reason: "as listed"})
		vtest.Equal(r, "lifted", len(list), 1)
		r.NoError(err)
		r.SendTo(vtest.Ana)

		for field, wish := range map[string]support.SuppressRequest{
			"to":      {Channel: "email", To: "noone", Reason: "x"},
			"channel": {Channel: "pigeon", To: vtest.Ana, Reason: "x"},
			"app":     {Channel: "email", To: vtest.Ana, App: "nope", Reason: "x"},
			"reason":  {Channel: "email", To: vtest.Ana},
		} {
			r.WantInvalid(vtest.Err(r.Svc.Administration.Suppress(r.Context(), wish, vtest.AuditEntry("suppression.add"))), field, "")
			r.WantInvalid(vtest.Err(lift(support.LiftSuppressionsRequest{
				Channel: wish.Channel, To: wish.To, App: wish.App,
				Reason: wish.Reason,
			})), field, "")
		}
		_, err = lift(support.LiftSuppressionsRequest{Channel: "email", Address: again.Address, Reason: strings.Repeat("x", 201)})
		r.WantInvalid(err, "reason", "too_long")
		_, err = lift(support.LiftSuppressionsRequest{Channel: "email", Address: again.Address, Reason: "ticket \u202e7"})
		r.WantInvalid(err, "reason", "hidden_character")
	})
}

// A suppression of a phone number, the end of the suppression, and an erasure apply to both forms
// of the number, with and without Argentina's 9 and Mexico's 1.
func TestSuppressionsOfNumbersFollowTheCountedForm(t *testing.T) {
	for _, pair := range [][2]string{
		{"+541166773399", "+5491166773399"},
		{"+5491166773399", "+541166773399"},
		{"+5215512345678", "+525512345678"},
		{"+525512345678", "+5215512345678"},
	} {
		vtest.InBubbleWith(t, vtest.MinuteTick(func(s *vtest.Settings) { vtest.SuppressBounces(s); vtest.ServeCountries("AR", "MX")(s) }),
			func(r *vtest.Rig) {
				r.Svc.Administration.Suppress(r.Context(), support.SuppressRequest{Channel: "sms", To: pair[0], Reason: "asked"},
					vtest.AuditEntry("suppression.add"))
				r.Want("suppressed", r.Status(r.Send(vtest.TextTo(pair[1]))), "failed suppressed")
				lifted, err := r.Svc.Administration.LiftSuppressions(r.Context(),
					support.LiftSuppressionsRequest{Channel: "sms", To: pair[1], Reason: "asked"}, vtest.AuditEntry("suppression.lift"))
				vtest.Equal(r, "lifted", len(lifted), 1)
				r.NoError(err)

				r.Carrier.Fail(&delivery.Error{Class: delivery.Rejected, Reason: sms.ReasonOptedOut})
				r.Sleep(time.Hour)
				r.Want("opted out", r.Status(r.Send(vtest.TextTo(pair[0]))), "failed opted_out")
				r.Carrier.Fail(nil)
				r.Want("after it", r.Status(r.Send(vtest.TextTo(pair[1]))), "failed suppressed")

				target, err := r.Svc.Administration.ParseTarget("", "sms", pair[0], "", "asked")
				r.NoError(err)
				r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), target, vtest.AuditEntry("erase")))
				for _, row := range r.Rows() {
					r.Want("erased", row.To, "•••")
				}
			})
	}
}

// If a process dies after Begin, another process takes the row over and does not send it either.
// Nor is a row sent that waited in the database for capacity.
func TestSuppressedIsTakenOver(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		r.Suppress(vtest.Ana, time.Hour)
		dead := r.Replica(&vtest.MailServer{}) // not started, so it takes over no row
		dead.Outbox.Capacity = 0               // without capacity, it leaves the row that it writes to another process
		a := r.AskAt(dead, vtest.AskFor(vtest.Ana), true)
		r.Sleep(10 * time.Second)
		vtest.Equal(r, "the send: Status", r.Status(a), "failed suppressed")
		vtest.Equal(r, "the send: Attempt", r.NewestSend(a.View.ID).Attempt, 2)
		r.WantMails(0)
	})
}

// A pause stops new sends and sends that wait for their next attempt, but only those that it names.
// When it ends, codes are sent again.
func TestPaused(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "dial", 0, ""))
		waiting := r.SendTo("bo@example.com")
		began := time.Now()
		r.Pause(policy.Pause{Channel: recipient.Email, Reason: "the server moves"})
		r.SendFails(vtest.Ana, "paused")
		r.Sleep(30 * time.Second)
		r.WantStatus(waiting, "failed paused")
		r.WantMails(1)
		r.Pause(policy.Pause{Channel: recipient.SMS}, policy.Pause{Purpose: "login", Reason: "abuse"},
			policy.Pause{Channel: recipient.Email, Reason: "the server moves"})
		p, _ := r.Svc.Administration.Paused(recipient.Email, "default")
		vtest.Equal(r, "the reason", p.Reason, "the server moves")
		vtest.Equal(r, "known since", p.Since.Sub(began), 0)
		r.Pause(policy.Pause{Purpose: "login"}, policy.Pause{Channel: recipient.SMS, Purpose: "default"})
		r.SendTo(vtest.Ana)
		r.WantMails(2)
		r.WantStatus(r.SendTo(vtest.Ana, vtest.For("login")), "failed paused")
		p, _ = r.Svc.Administration.Paused(recipient.Email, "login")
		r.Want("another reason is another pause, known since", time.Since(p.Since), "0s")
		r.Pause()
		_, paused := r.Svc.Administration.Paused(recipient.Email, "login")
		r.Want("paused", paused, false)
	})
}

// While everything is paused, test recipients still get codes, because their messages never leave
// the machine.
func TestPausedButForTestRecipients(t *testing.T) {
	change := func(s *vtest.Settings) {
		vtest.SuppressBounces(s)
		s.Pauses = []policy.Pause{{Channel: recipient.Email}}
		vtest.TestRecipient(t, vtest.Ana, "424242")(s)
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		r.WantStatus(r.SendTo(vtest.Ana), "sent")
		r.SendFails("bo@example.com", "paused")
		p, ok := r.Svc.Administration.Paused(recipient.Email, "x")
		vtest.Equal(r, "paused", ok, true)
		vtest.Equal(r, "since an instant that is known", p.Since.IsZero(), false)
	})
}
