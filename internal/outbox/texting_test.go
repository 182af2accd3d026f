package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
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
			ID: a.View.Send.ID, App: "shop", To: vtest.Mobile, Country: "DE", Segments: 1, Language: "zh-Hans",
			Purpose: "default", Code: m.Code, Minutes: 10, Life: 10 * time.Minute,
			Text: fmt.Sprintf("【Shop】验证码 %s，10 分钟内有效，请勿告诉任何人。", m.Code),
		}
		if diff := fmt.Sprintf("%+v", m); diff != fmt.Sprintf("%+v", want) || a.View.To != "+49 151•••789" || a.View.Channel != "sms" {
			r.Errorf("%s; %+v", diff, a.View)
		}
		if v := r.Get(a.View.ID); v.Send.Status != store.Sent || v.Send.Provider != "fake" || v.Send.ProviderCode != "202" {
			r.Errorf("%+v", v.Send)
		}
		r.WantApproved(a.View.ID, m.Code)
		r.SendTo(vtest.Ana) // each channel counts for itself, and so does each recipient
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.Refuse(vtest.TextTo(vtest.Mobile))
	})
}

// A denied country: nothing is counted, written or sent, and the person is told. By region, not by dial code.
func TestDeniedCountries(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("US"), func(r *vtest.Rig) {
		for _, to := range []string{vtest.Jamaican, vtest.Mobile} {
			r.WantInvalid(r.SendError(vtest.TextTo(to)), "to", "country_not_served")
			if d := textQuota(r, to); d.Rules[0].Used != 0 {
				r.Errorf("%s: %+v", to, d)
			}
		}
		r.Send(vtest.TextTo(vtest.American))
		if n := len(r.Carrier.Accepted()); n != 1 {
			r.Errorf("%d text messages", n)
		}
	})
}

// A country that is taken off the list while a send waits: it ends, nothing leaves, and its place is given back.
func TestCountryDeniedMeanwhile(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Carrier.Fail(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		terms := r.Settings.Set
		terms.Numbers = policy.Numbers{Countries: []string{"FR"}}
		r.Svc.Change(terms)
		r.Carrier.Fail(nil)
		r.Sleep(time.Minute)
		if r.Status(a) != "failed "+outbox.ReasonCountry || len(r.Carrier.Accepted()) != 0 {
			r.Error(r.Status(a))
		}
		r.Svc.Change(r.Settings.Set)
		if used := textQuota(r, vtest.Mobile).Rules[1].Used; used != 0 {
			r.Errorf("%d places are taken", used)
		}
	})
}

// A carrier's answer decides the state of the send and of its place, as with mail.
func TestWhatACarrierSays(t *testing.T) {
	for name, c := range map[string]struct {
		fail   sms.Error
		status store.Status
		reason string
		free   bool
	}{
		"rejected":  {sms.Error{Class: delivery.Rejected, Status: 400, Code: "21211"}, store.Failed, store.ReasonRejected, true},
		"opted out": {sms.Error{Class: delivery.Rejected, Reason: sms.ReasonOptOut}, store.Failed, "opted_out", true},
		"limit":     {sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit}, store.Failed, "carrier_limit", true},
		"unknown":   {sms.Error{Class: delivery.Unknown, Stage: sms.StageRequest}, store.Unknown, outbox.ReasonNoAnswer, false},
		"temporary": {sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer}, store.Queued, "temporary_answer", false},
	} {
		vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
			r.Carrier.Fail(&c.fail)
			a := r.Send(vtest.TextTo(vtest.Mobile))
			v := r.Get(a.View.ID)
			if v.Send.Status != c.status || v.Send.Reason != c.reason || v.Send.Provider != "fake" || v.Send.ProviderCode != c.fail.Reply() {
				r.Errorf("%s: %+v", name, v.Send)
			}
			if allowed := textQuota(r, vtest.Mobile).Allowed(); allowed != c.free {
				r.Errorf("%s: allowed %v", name, allowed)
			}
			r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID)
			r.Carrier.Fail(nil)
		})
	}
}

// A recipient who opted out at the carrier is suppressed: the next message is not even tried.
func TestOptingOutSuppresses(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		terms := r.Settings.Set
		terms.SuppressFor = time.Hour
		r.Svc.Change(terms)
		r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonOptOut})
		r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		a := r.Send(vtest.TextTo(vtest.Mobile))
		if r.Status(a) != "failed "+store.ReasonSuppressed || len(r.Carrier.Accepted()) != 0 {
			r.Error(r.Status(a))
		}
	})
}

// A carrier's own limit of a second or more holds the recipient for its window, which every answer tells, and no other recipient.
func TestCarrierLimitsHoldTheRecipient(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: time.Hour})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		r.WantStatus(a, "failed carrier_limit")
		r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: time.Second - 1})
		brief := r.Send(vtest.TextTo(vtest.NthNumber(1)))
		r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: time.Second})
		second := r.Send(vtest.TextTo(vtest.NthNumber(2)))
		r.Carrier.Fail(nil)
		for a, want := range map[string]bool{brief.View.ID: false, second.View.ID: true} {
			held, err := r.Store.CarrierHold(r.Context(), recipient.SMS, r.Verification(a).Recipient)
			if err != nil || held.Left > 0 != want {
				r.Errorf("held back for %v, %v", held.Left, err)
			}
		}
		r.Sleep(20 * time.Minute)
		refused := r.Refuse(vtest.TextTo(vtest.Mobile))
		r.WantBlockedBy(refused.Quota, verification.CarrierRule, 40*time.Minute)
		r.WantBlockedBy(textQuota(r, vtest.Mobile), verification.CarrierRule, 40*time.Minute)
		if len(r.Carrier.Accepted()) != 0 {
			r.Error("the carrier was asked again")
		}
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.SendTo(vtest.Ana)
		r.Sleep(40*time.Minute - time.Microsecond)
		r.Refuse(vtest.TextTo(vtest.Mobile))
		r.Sleep(time.Microsecond)
		r.Send(vtest.TextTo(vtest.Mobile))
	})
}

// A carrier that asks to be left alone is.
func TestRetryAfterIsHeeded(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Carrier.Fail(&sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer, Status: 429, RetryAfter: 2 * time.Minute})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		r.Sleep(2*time.Minute - time.Second)
		if len(r.Carrier.Accepted()) != 0 {
			r.Error("it was asked again too early")
		}
		r.Sleep(3 * time.Second)
		if v := r.Get(a.View.ID); v.Send.Status != store.Sent || v.Send.Attempt != 2 {
			r.Errorf("%+v", v.Send)
		}
	})
}

func TestWithoutACarrierThereAreNoTextMessages(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Svc.Texts = nil
		r.WantInvalid(r.SendError(vtest.TextTo(vtest.Mobile)), "channel", "not_configured")
	})
}
