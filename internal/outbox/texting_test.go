package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

func TestTextMessages(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		a := r.Send(vtest.TextTo("+49 151 23456789"))
		got := r.Carrier.All()
		if len(got) != 1 || len(r.MailServer.All()) != 0 {
			r.Fatalf("%d text messages, %d mails", len(got), len(r.MailServer.All()))
		}
		m := got[0]
		if m.To != vtest.Mobile || m.Country != "DE" || m.ID != a.View.Send.ID || m.Language != "zh-Hans" || m.Purpose != "default" ||
			m.Minutes != 10 ||
			m.Text != fmt.Sprintf("【Shop】验证码 %s，10 分钟内有效，请勿告诉任何人。", m.Code) || m.Life != 10*time.Minute {
			r.Errorf("to %s, text %q, %+v", m.To, m.Text, m.Life)
		}
		if a.View.To != "+49 151•••789" || a.View.Channel != "sms" {
			r.Errorf("%+v", a.View)
		}
		if v := r.Get(a.View.ID); v.Send.Status != store.Sent || v.Send.Provider != "fake" || v.Send.ProviderCode != "202" {
			r.Errorf("%+v", v.Send)
		}
		if !r.Check(a.View.ID, m.Code).Valid {
			r.Error("the code is not the right one")
		}
	})
}

// Each channel counts for itself, and so does each recipient.
func TestChannelsHaveBucketsOfTheirOwn(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Send(vtest.TextTo(vtest.Mobile))
		r.SendTo(vtest.Ana)
		r.Refuse(vtest.TextTo(vtest.Mobile))
		r.RefuseTo(vtest.Ana)
		r.Send(vtest.TextTo(vtest.OtherMobile))
	})
}

// A denied country: nothing is counted, written or sent, and the person is told. By region, not by dial code (SMS-2).
func TestDeniedCountries(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("US"), func(r *vtest.Rig) {
		for _, to := range []string{vtest.Jamaican, vtest.Mobile} {
			_, err := r.Svc.Send(r.Context(), vtest.TextTo(to))
			var bad *verification.InvalidError
			if !errors.As(err, &bad) || bad.Field != "to" || bad.Reason != "country_not_served" || strings.Contains(bad.Detail, to) {
				r.Errorf("%s: %v", to, err)
			}
			d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", to, "")
			if err != nil || d.Quota.Rules[0].Used != 0 {
				r.Errorf("%s: %+v, %v", to, d.Quota, err)
			}
		}
		r.Send(vtest.TextTo(vtest.American))
		if n := len(r.Carrier.All()); n != 1 {
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
		terms.Numbers = policy.Numbers{Countries: map[string]bool{"FR": true}}
		r.Svc.Change(terms)
		r.Carrier.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != outbox.ReasonCountry || len(r.Carrier.All()) != 0 {
			r.Errorf("%+v", v.Send)
		}
		r.Svc.Change(r.Settings.Set)
		d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", vtest.Mobile, "")
		r.NoError(err)
		if used := d.Quota.Rules[1].Used; used != 0 {
			r.Errorf("%d places are taken", used)
		}
	})
}

func TestVoIPIsRefusedWhereConfigured(t *testing.T) {
	const voip = "+445612345678"
	for _, refuse := range []bool{false, true} {
		vtest.InBubbleWith(t, func(s *vtest.Settings) {
			vtest.ServeCountries("GB")(s)
			s.Numbers.RefuseVoIP = refuse
		}, func(r *vtest.Rig) {
			_, err := r.Svc.Send(r.Context(), vtest.TextTo(voip))
			var bad *verification.InvalidError
			if refused := errors.As(err, &bad) && bad.Reason == "voip"; refused != refuse {
				r.Errorf("%v: %v", refuse, err)
			}
			synctest.Wait()
		})
	}
}

// What a carrier says decides what becomes of the send and of its place, as with mail.
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
			d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", vtest.Mobile, "")
			if err != nil || d.Quota.Allowed() != c.free {
				r.Errorf("%s: allowed %v, %v", name, d.Quota.Allowed(), err)
			}
			r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID)
			r.Carrier.Fail(nil)
		})
	}
}

// Who told the carrier to stop is suppressed: the next message is not even tried.
func TestOptingOutSuppresses(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		terms := r.Settings.Set
		terms.SuppressFor = time.Hour
		r.Svc.Change(terms)
		r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonOptOut})
		r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		a := r.Send(vtest.TextTo(vtest.Mobile))
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != store.ReasonSuppressed || len(r.Carrier.All()) != 0 {
			r.Errorf("%+v", v.Send)
		}
	})
}

// A carrier's own limit: the recipient is held for the window named, which every answer tells, and no other recipient is.
func TestCarrierLimitsHoldTheRecipient(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: time.Hour})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "carrier_limit" {
			r.Errorf("%+v", v.Send)
		}
		time.Sleep(20 * time.Minute)
		refused := r.Refuse(vtest.TextTo(vtest.Mobile))
		if worst, _ := refused.Quota.Blocking(); worst.Name != verification.CarrierRule || worst.RetryAfter != 40*time.Minute {
			r.Errorf("%+v", worst)
		}
		looked, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", vtest.Mobile, "")
		if err != nil || looked.Quota.RetryAfter() != 40*time.Minute || looked.Quota.Allowed() {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
		if len(r.Carrier.All()) != 0 {
			r.Error("the carrier was asked again")
		}
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.SendTo(vtest.Ana)
		time.Sleep(40*time.Minute - time.Microsecond)
		r.Refuse(vtest.TextTo(vtest.Mobile))
		time.Sleep(time.Microsecond)
		r.Send(vtest.TextTo(vtest.Mobile))
	})
}

// A limit of a carrier is noted from a second on: for less a recipient need not wait.
func TestCarrierLimitsOfASecondAreNoted(t *testing.T) {
	for hold, noted := range map[time.Duration]bool{time.Second - 1: false, time.Second: true} {
		vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
			r.Carrier.Fail(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: hold})
			a := r.Send(vtest.TextTo(vtest.Mobile))
			held, err := r.Store.HeldBack(r.Context(), recipient.SMS, r.Verification(a.View.ID).Recipient)
			r.NoError(err)
			if got := held.Left > 0; got != noted {
				t.Errorf("%v: noted %v", hold, got)
			}
		})
	}
}

// A carrier that asks to be left alone is.
func TestRetryAfterIsHeeded(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Carrier.Fail(&sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer, Status: 429, RetryAfter: 2 * time.Minute})
		a := r.Send(vtest.TextTo(vtest.Mobile))
		r.Carrier.Fail(nil)
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()
		if len(r.Carrier.All()) != 0 {
			r.Error("it was asked again too early")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := r.Get(a.View.ID); v.Send.Status != store.Sent || v.Send.Attempt != 2 {
			r.Errorf("%+v", v.Send)
		}
	})
}

// Rules on countries count the numbers of each, and let mails pass.
func TestRulesOnCountries(t *testing.T) {
	change := func(s *vtest.Settings) {
		vtest.ServeCountries("DE", "US")(s)
		p := s.Purposes["default"]
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "country", Scope: quota.Country, Limit: 2, Window: time.Hour})
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		first := r.Send(vtest.TextTo(vtest.Mobile))
		r.Send(vtest.TextTo(vtest.OtherMobile))
		third := r.Refuse(vtest.TextTo("+4915123456787"))
		if worst, _ := third.Quota.Blocking(); worst.Name != "country" || worst.RetryAfter != time.Hour {
			r.Errorf("%+v", worst)
		}
		r.Send(vtest.TextTo(vtest.American))
		for n := range 4 {
			a := r.Send(vtest.AskFor(fmt.Sprintf("person%d@example.com", n)))
			if slices.ContainsFunc(a.Quota.Rules, func(s quota.State) bool { return s.Scope == quota.Country }) {
				r.Error("a mail is told of a rule on countries")
			}
		}
		looked, err := r.Svc.Get(r.Context(), vtest.BackEnd, first.View.ID)
		if i := slices.IndexFunc(looked.Quota.Rules, func(s quota.State) bool { return s.Name == "country" }); err != nil || i < 0 ||
			looked.Quota.Rules[i].Used != 2 {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
	})
}

func TestWithoutACarrierThereAreNoTextMessages(t *testing.T) {
	vtest.InBubbleWith(t, vtest.ServeCountries("DE"), func(r *vtest.Rig) {
		r.Svc.Texts = nil
		_, err := r.Svc.Send(r.Context(), vtest.TextTo(vtest.Mobile))
		var bad *verification.InvalidError
		if !errors.As(err, &bad) || bad.Field != "channel" || bad.Reason != "not_configured" {
			r.Errorf("%v", err)
		}
	})
}
