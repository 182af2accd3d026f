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
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

func TestTextMessages(t *testing.T) {
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		a := r.Send(rig.TextTo("+49 151 23456789"))
		got := r.Handset.All()
		if len(got) != 1 || len(r.Post.All()) != 0 {
			r.Fatalf("%d text messages, %d mails", len(got), len(r.Post.All()))
		}
		m := got[0]
		if m.To != rig.Mobile || m.Country != "DE" || m.ID != a.View.Send.ID || m.Language != "zh-Hans" || m.Purpose != "default" ||
			m.Minutes != 10 ||
			m.Text != fmt.Sprintf("【Shop】验证码 %s，10 分钟内有效，请勿告诉任何人。", m.Code) || m.Life != 10*rig.Minute {
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
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		r.Send(rig.TextTo(rig.Mobile))
		r.Send(rig.AskFor(rig.Ana))
		r.Refuse(rig.TextTo(rig.Mobile))
		r.Refuse(rig.AskFor(rig.Ana))
		r.Send(rig.TextTo(rig.OtherMobile))
	})
}

// A denied country: nothing is counted, written or sent, and the person is told. By region, not by dial code (SMS-2).
func TestDeniedCountries(t *testing.T) {
	rig.InBubbleWith(t, rig.ToNumbers("US"), func(r *rig.Rig) {
		for _, to := range []string{rig.Jamaican, rig.Mobile} {
			_, err := r.Svc.Send(r.Context(), rig.TextTo(to))
			var bad *verification.InvalidError
			if !errors.As(err, &bad) || bad.Field != "to" || bad.Reason != "country_not_served" || strings.Contains(bad.Detail, to) {
				r.Errorf("%s: %v", to, err)
			}
			d, err := r.Svc.Quota(r.Context(), rig.BackEnd, "sms", to, "")
			if err != nil || d.Quota.Rules[0].Used != 0 {
				r.Errorf("%s: %+v, %v", to, d.Quota, err)
			}
		}
		r.Send(rig.TextTo(rig.American))
		if n := len(r.Handset.All()); n != 1 {
			r.Errorf("%d text messages", n)
		}
	})
}

// A country that is taken off the list while a send waits: it ends, nothing leaves, and its place is given back.
func TestCountryDeniedMeanwhile(t *testing.T) {
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		r.Handset.Fails(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.Send(rig.TextTo(rig.Mobile))
		terms := r.Settings.Set
		terms.Numbers = policy.Numbers{Countries: map[string]bool{"FR": true}}
		r.Svc.Change(terms)
		r.Handset.Fails(nil)
		time.Sleep(rig.Minute)
		synctest.Wait()
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != outbox.ReasonCountry || len(r.Handset.All()) != 0 {
			r.Errorf("%+v", v.Send)
		}
		r.Svc.Change(r.Settings.Set)
		d, err := r.Svc.Quota(r.Context(), rig.BackEnd, "sms", rig.Mobile, "")
		r.NoError(err)
		if used := d.Quota.Rules[1].Used; used != 0 {
			r.Errorf("%d places are taken", used)
		}
	})
}

func TestVoIPIsRefusedWhereConfigured(t *testing.T) {
	const voip = "+445612345678"
	for _, refuse := range []bool{false, true} {
		rig.InBubbleWith(t, func(s *rig.Settings) { rig.ToNumbers("GB")(s); s.Numbers.RefuseVoIP = refuse }, func(r *rig.Rig) {
			_, err := r.Svc.Send(r.Context(), rig.TextTo(voip))
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
		rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
			r.Handset.Fails(&c.fail)
			a := r.Send(rig.TextTo(rig.Mobile))
			v := r.Get(a.View.ID)
			if v.Send.Status != c.status || v.Send.Reason != c.reason || v.Send.Provider != "fake" || v.Send.ProviderCode != c.fail.Reply() {
				r.Errorf("%s: %+v", name, v.Send)
			}
			d, err := r.Svc.Quota(r.Context(), rig.BackEnd, "sms", rig.Mobile, "")
			if err != nil || d.Quota.Allowed() != c.free {
				r.Errorf("%s: allowed %v, %v", name, d.Quota.Allowed(), err)
			}
			r.Svc.Cancel(r.Context(), rig.BackEnd, a.View.ID)
			r.Handset.Fails(nil)
		})
	}
}

// Who told the carrier to stop is suppressed: the next message is not even tried.
func TestOptingOutSuppresses(t *testing.T) {
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		terms := r.Settings.Set
		terms.SuppressFor = time.Hour
		r.Svc.Change(terms)
		r.Handset.Fails(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonOptOut})
		r.Send(rig.TextTo(rig.Mobile))
		r.Handset.Fails(nil)
		a := r.Send(rig.TextTo(rig.Mobile))
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != store.ReasonSuppressed || len(r.Handset.All()) != 0 {
			r.Errorf("%+v", v.Send)
		}
	})
}

// A carrier's own limit: the recipient is held for the window named, which every answer tells, and no other recipient is.
func TestCarrierLimitsHoldTheRecipient(t *testing.T) {
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		r.Handset.Fails(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: time.Hour})
		a := r.Send(rig.TextTo(rig.Mobile))
		r.Handset.Fails(nil)
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "carrier_limit" {
			r.Errorf("%+v", v.Send)
		}
		time.Sleep(20 * rig.Minute)
		refused := r.Refuse(rig.TextTo(rig.Mobile))
		if worst, _ := refused.Quota.Blocking(); worst.Name != verification.CarrierRule || worst.RetryAfter != 40*rig.Minute {
			r.Errorf("%+v", worst)
		}
		looked, err := r.Svc.Quota(r.Context(), rig.BackEnd, "sms", rig.Mobile, "")
		if err != nil || looked.Quota.RetryAfter() != 40*rig.Minute || looked.Quota.Allowed() {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
		if len(r.Handset.All()) != 0 {
			r.Error("the carrier was asked again")
		}
		r.Send(rig.TextTo(rig.OtherMobile))
		r.Send(rig.AskFor(rig.Ana))
		time.Sleep(40*rig.Minute - time.Microsecond)
		r.Refuse(rig.TextTo(rig.Mobile))
		time.Sleep(time.Microsecond)
		r.Send(rig.TextTo(rig.Mobile))
	})
}

// A limit of a carrier is noted from a second on: for less a recipient need not wait.
func TestCarrierLimitsOfASecondAreNoted(t *testing.T) {
	for hold, noted := range map[time.Duration]bool{time.Second - 1: false, time.Second: true} {
		rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
			r.Handset.Fails(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: hold})
			a := r.Send(rig.TextTo(rig.Mobile))
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
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		r.Handset.Fails(&sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer, Status: 429, RetryAfter: 2 * rig.Minute})
		a := r.Send(rig.TextTo(rig.Mobile))
		r.Handset.Fails(nil)
		time.Sleep(2*rig.Minute - time.Second)
		synctest.Wait()
		if len(r.Handset.All()) != 0 {
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
	change := func(s *rig.Settings) {
		rig.ToNumbers("DE", "US")(s)
		p := s.Purposes["default"]
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "country", Scope: quota.Country, Limit: 2, Window: time.Hour})
		s.Purposes["default"] = p
	}
	rig.InBubbleWith(t, change, func(r *rig.Rig) {
		first := r.Send(rig.TextTo(rig.Mobile))
		r.Send(rig.TextTo(rig.OtherMobile))
		third := r.Refuse(rig.TextTo("+4915123456787"))
		if worst, _ := third.Quota.Blocking(); worst.Name != "country" || worst.RetryAfter != time.Hour {
			r.Errorf("%+v", worst)
		}
		r.Send(rig.TextTo(rig.American))
		for n := range 4 {
			a := r.Send(rig.AskFor(fmt.Sprintf("person%d@example.com", n)))
			if slices.ContainsFunc(a.Quota.Rules, func(s quota.State) bool { return s.Scope == quota.Country }) {
				r.Error("a mail is told of a rule on countries")
			}
		}
		looked, err := r.Svc.Get(r.Context(), rig.BackEnd, first.View.ID)
		if i := slices.IndexFunc(looked.Quota.Rules, func(s quota.State) bool { return s.Name == "country" }); err != nil || i < 0 ||
			looked.Quota.Rules[i].Used != 2 {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
	})
}

func TestWithoutACarrierThereAreNoTextMessages(t *testing.T) {
	rig.InBubbleWith(t, rig.ToNumbers("DE"), func(r *rig.Rig) {
		r.Svc.Texts = nil
		_, err := r.Svc.Send(r.Context(), rig.TextTo(rig.Mobile))
		var bad *verification.InvalidError
		if !errors.As(err, &bad) || bad.Field != "channel" || bad.Reason != "not_configured" {
			r.Errorf("%v", err)
		}
	})
}
