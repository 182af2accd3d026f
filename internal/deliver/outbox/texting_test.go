package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

func textQuota(r *vtest.Rig, to string) quota.Decision {
	a, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", to, "")
	r.NoError(err)
	return a.Quota
}

func TestTextMessages(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		a := r.Send(vtest.TextTo("+49 151 23456789"))
		got := r.Carrier.Accepted()
		if len(got) != 1 || len(r.MailServer.Attempts()) != 0 {
			r.Fatalf("%d text messages, %d mails", len(got), len(r.MailServer.Attempts()))
		}
		m := got[0]
		want := sms.Message{
			ID: a.View.Send.ID, App: "shop", To: vtest.Mobile, Country: "DE", Prefix: "+49151", Segments: 1,
			Language: "zh-Hans",
			Purpose:  "default", Code: m.Code, Minutes: 10, Life: 10 * time.Minute,
			Text: fmt.Sprintf("【Shop】验证码 %s，10 分钟内有效，请勿告诉任何人。", m.Code),
		}
		r.Want("the message", fmt.Sprintf("%+v", m), fmt.Sprintf("%+v", want))
		vtest.Equal(r, "view: To", a.View.To, "+49 151•••789")
		vtest.Equal(r, "view: Channel", a.View.Channel, "sms")
		r.WantSend(a.View.ID, vtest.Send{Status: store.Sent, Provider: "fake", ProviderCode: "202", Attempt: 1})
		r.WantApproved(a.View.ID, m.Code)
		r.SendTo(vtest.Ana) // each channel and each recipient is counted separately
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.Refuse(vtest.TextTo(vtest.Mobile))
	})
}

// A message says whether it is for a stranger, because spend caps depend on that.
func TestCarriersKnowStrangers(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		stranger := vtest.BackEnd
		stranger.Trust = verification.ImpliedStranger
		for n, by := range []verification.Caller{vtest.BackEnd, vtest.Browser, stranger} {
			ask := vtest.TextTo(vtest.NthNumber(n))
			ask.Caller = by
			r.Send(ask)
			r.Want("for a stranger", r.Carrier.Accepted()[n].Stranger, n > 0)
		}
	})
}

// If a country is denied, nothing is counted, written or sent for its numbers, and the answer says
// so. The country of the number decides, not its calling code.
func TestDeniedCountries(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("US"), func(r *vtest.Rig) {
		for _, to := range []string{vtest.Jamaican, vtest.Mobile} {
			r.WantInvalid(r.SendError(vtest.TextTo(to)), "to", "country_not_served")
			r.Want(to, textQuota(r, to).Rules[0].Used, 0)
		}
		r.Send(vtest.TextTo(vtest.American))
		r.Want("text messages", len(r.Carrier.Accepted()), 1)
	})
}

// If a country is removed from the list while a send waits, the send ends, no message leaves, and
// its place is given back.
func TestCountryDeniedMeanwhile(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Carrier.Fail(&delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		set := r.Settings.Set
		set.Numbers = policy.ServedNumbers{Countries: []string{"FR"}}
		r.Svc.Change(set)
		r.Carrier.Fail(nil)
		r.Sleep(time.Minute)
		r.WantStatus(a, "failed country_not_served")
		r.Want("messages", len(r.Carrier.Accepted()), 0)
		r.Svc.Change(r.Settings.Set)
		r.Want("places", textQuota(r, vtest.Mobile).Rules[1].Used, 0)
	})
}

// A recipient who opted out at the carrier is suppressed: the next message is not even tried.
func TestOptingOutSuppresses(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		set := r.Settings.Set
		set.SuppressFor = time.Hour
		r.Svc.Change(set)
		r.Carrier.Fail(&delivery.Error{Class: delivery.Rejected, Reason: sms.ReasonOptedOut})
		r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.WantStatus(a, "failed suppressed")
		r.Want("messages", len(r.Carrier.Accepted()), 0)
	})
}

// A carrier's own limit of at least a second holds the recipient for that time, and every answer
// says so. It holds no other recipient.
func TestCarrierLimitsHoldTheRecipient(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		holds := map[string]time.Duration{vtest.Mobile: time.Hour, vtest.NthNumber(1): time.Second - 1, vtest.NthNumber(2): time.Second}
		for to, hold := range holds {
			r.Carrier.Fail(&delivery.Error{Class: delivery.Rejected, Reason: sms.ReasonCarrierLimit, Hold: hold})
			a := r.Send(vtest.TextTo(to))
			r.WantStatus(a, "failed carrier_limit")
			held, err := r.Store.CarrierHold(r.Context(), recipient.SMS, r.Verification(a.View.ID).Recipient)
			r.NoError(err)
			r.Want(hold.String()+": held", held.Left > 0, hold >= time.Second)
		}
		r.Carrier.Fail(nil)
		r.Sleep(20 * time.Minute)
		refused := r.Refuse(vtest.TextTo(vtest.Mobile))
		r.WantBlockedBy(refused.Quota, policy.CarrierName, 40*time.Minute)
		r.WantBlockedBy(textQuota(r, vtest.Mobile), policy.CarrierName, 40*time.Minute)
		r.Want("messages", len(r.Carrier.Accepted()), 0)
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.SendTo(vtest.Ana)
		r.Sleep(40*time.Minute - time.Microsecond)
		r.Refuse(vtest.TextTo(vtest.Mobile))
		r.Sleep(time.Microsecond)
		r.Send(vtest.TextTo(vtest.Mobile))
	})
}

func TestWithoutACarrierThereAreNoTextMessages(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Svc.Texts = nil
		r.WantInvalid(r.SendError(vtest.TextTo(vtest.Mobile)), "channel", "not_configured")
	})
}
