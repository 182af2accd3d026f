package verification

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/message"
	"sendcode/internal/store"
	"sendcode/quota"
	"sendcode/templates"
)

const (
	mobile      = "+4915123456789"
	otherMobile = "+4915123456788"
	american    = "+12025550123"
	jamaican    = "+18765550123"
)

// handset receives text messages, or fails as it is told.
type handset struct {
	mu   sync.Mutex
	got  []sms.Message
	fail error
	id   string // the carrier's for the next messages
}

func (h *handset) Send(_ context.Context, m sms.Message) (sms.Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return sms.Receipt{Carrier: "fake"}, h.fail
	}
	h.got = append(h.got, m)
	id := h.id
	if id == "" {
		id = "id-1"
	}
	return sms.Receipt{Carrier: "fake", ID: id, Code: "202"}, nil
}

func (h *handset) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = err
}

func (h *handset) all() []sms.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

func testTexts(t *testing.T) *message.Texts {
	t.Helper()
	texts, err := message.NewTexts(templates.FS, nil, message.TextLimits{Segments: 1, Measure: func(text string) int { return sms.Measure(text).Segments }})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func toNumbers(countries ...string) func(*Settings) {
	return func(s *Settings) {
		s.Numbers.Countries = map[string]bool{}
		for _, c := range countries {
			s.Numbers.Countries[c] = true
		}
	}
}

func textTo(to string) Ask { return Ask{Caller: backEnd, Channel: "sms", To: to, Locale: "zh-CN"} }

func TestTextMessages(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		a := r.send(textTo("+49 151 23456789"))
		got := r.handset.all()
		if len(got) != 1 || len(r.post.all()) != 0 {
			r.Fatalf("%d text messages, %d mails", len(got), len(r.post.all()))
		}
		m := got[0]
		if m.To != mobile || m.Country != "DE" || m.ID != a.View.Send.ID || m.Language != "zh-Hans" || m.Purpose != "default" || m.Minutes != 10 ||
			m.Text != fmt.Sprintf("【Shop】验证码 %s，10 分钟内有效，请勿告诉任何人。", m.Code) || m.Life != 10*minute {
			r.Errorf("to %s, text %q, %+v", m.To, m.Text, m.Life)
		}
		if a.View.To != "+49 151•••789" || a.View.Channel != "sms" {
			r.Errorf("%+v", a.View)
		}
		if v := r.get(a.View.ID); v.Send.Status != store.Sent || v.Send.Provider != "fake" || v.Send.ProviderCode != "202" {
			r.Errorf("%+v", v.Send)
		}
		if !r.check(a.View.ID, m.Code).Valid {
			r.Error("the code is not the right one")
		}
	})
}

// Each channel counts for itself, and so does each recipient.
func TestChannelsHaveBucketsOfTheirOwn(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		r.send(textTo(mobile))
		r.send(askFor(ana))
		r.refuse(textTo(mobile))
		r.refuse(askFor(ana))
		r.send(textTo(otherMobile))
	})
}

// A denied country: nothing is counted, written or sent, and the person is told. By region, not by dial code (SMS-2).
func TestDeniedCountries(t *testing.T) {
	inBubbleWith(t, toNumbers("US"), func(r *rig) {
		for _, to := range []string{jamaican, mobile} {
			_, err := r.svc.Send(r.Context(), textTo(to))
			var bad *InvalidError
			if !errors.As(err, &bad) || bad.Field != "to" || bad.Reason != "country_not_served" || strings.Contains(bad.Detail, to) {
				r.Errorf("%s: %v", to, err)
			}
			d, err := r.svc.Quota(r.Context(), backEnd, "sms", to, "")
			if err != nil || d.Quota.Rules[0].Used != 0 {
				r.Errorf("%s: %+v, %v", to, d.Quota, err)
			}
		}
		r.send(textTo(american))
		if n := len(r.handset.all()); n != 1 {
			r.Errorf("%d text messages", n)
		}
	})
}

// A country that is taken off the list while a send waits: it ends, and nothing leaves.
func TestCountryDeniedMeanwhile(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		r.handset.fails(&sms.Error{Class: delivery.Temporary, Stage: sms.StageDial})
		a := r.send(textTo(mobile))
		terms := r.settings.Terms
		terms.Numbers = Numbers{Countries: map[string]bool{"FR": true}}
		r.svc.Change(terms)
		r.handset.fails(nil)
		time.Sleep(minute)
		synctest.Wait()
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != reasonCountry || len(r.handset.all()) != 0 {
			r.Errorf("%+v", v.Send)
		}
	})
}

func TestVoIPIsRefusedWhereConfigured(t *testing.T) {
	const voip = "+445612345678"
	for _, refuse := range []bool{false, true} {
		inBubbleWith(t, func(s *Settings) { toNumbers("GB")(s); s.Numbers.RefuseVoIP = refuse }, func(r *rig) {
			_, err := r.svc.Send(r.Context(), textTo(voip))
			var bad *InvalidError
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
		"rejected":  {sms.Error{Class: delivery.Rejected, Status: 400, Code: "21211"}, store.Failed, reasonRejected, true},
		"opted out": {sms.Error{Class: delivery.Rejected, Reason: sms.ReasonOptOut}, store.Failed, "opted_out", true},
		"limit":     {sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit}, store.Failed, "carrier_limit", true},
		"unknown":   {sms.Error{Class: delivery.Unknown, Stage: sms.StageRequest}, store.Unknown, reasonNoAnswer, false},
		"temporary": {sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer}, store.Queued, "temporary_answer", false},
	} {
		inBubbleWith(t, toNumbers("DE"), func(r *rig) {
			r.handset.fails(&c.fail)
			a := r.send(textTo(mobile))
			v := r.get(a.View.ID)
			if v.Send.Status != c.status || v.Send.Reason != c.reason || v.Send.Provider != "fake" || v.Send.ProviderCode != c.fail.Word() {
				r.Errorf("%s: %+v", name, v.Send)
			}
			d, err := r.svc.Quota(r.Context(), backEnd, "sms", mobile, "")
			if err != nil || d.Quota.Allowed() != c.free {
				r.Errorf("%s: allowed %v, %v", name, d.Quota.Allowed(), err)
			}
			r.svc.Cancel(r.Context(), backEnd, a.View.ID)
			r.handset.fails(nil)
		})
	}
}

// Who told the carrier to stop is suppressed: the next message is not even tried.
func TestOptingOutSuppresses(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		terms := r.settings.Terms
		terms.SuppressFor = time.Hour
		r.svc.Change(terms)
		r.handset.fails(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonOptOut})
		r.send(textTo(mobile))
		r.handset.fails(nil)
		a := r.send(textTo(mobile))
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != reasonSuppressed || len(r.handset.all()) != 0 {
			r.Errorf("%+v", v.Send)
		}
	})
}

// A carrier's own limit: the recipient is held for the window named, which every answer tells, and no other recipient is.
func TestCarrierLimitsHoldTheRecipient(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		r.handset.fails(&sms.Error{Class: delivery.Rejected, Reason: sms.ReasonLimit, Hold: time.Hour})
		a := r.send(textTo(mobile))
		r.handset.fails(nil)
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "carrier_limit" {
			r.Errorf("%+v", v.Send)
		}
		time.Sleep(20 * minute)
		refused := r.refuse(textTo(mobile))
		if worst, _ := refused.Quota.Blocking(); worst.Name != CarrierRule || worst.RetryAfter != 40*minute {
			r.Errorf("%+v", worst)
		}
		looked, err := r.svc.Quota(r.Context(), backEnd, "sms", mobile, "")
		if err != nil || looked.Quota.RetryAfter() != 40*minute || looked.Quota.Allowed() {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
		if len(r.handset.all()) != 0 {
			r.Error("the carrier was asked again")
		}
		r.send(textTo(otherMobile))
		r.send(askFor(ana))
		time.Sleep(40*minute - time.Microsecond)
		r.refuse(textTo(mobile))
		time.Sleep(time.Microsecond)
		r.send(textTo(mobile))
	})
}

// A carrier that asks to be left alone is.
func TestRetryAfterIsHeeded(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		r.handset.fails(&sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer, Status: 429, RetryAfter: 2 * minute})
		a := r.send(textTo(mobile))
		r.handset.fails(nil)
		time.Sleep(2*minute - time.Second)
		synctest.Wait()
		if len(r.handset.all()) != 0 {
			r.Error("it was asked again too early")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := r.get(a.View.ID); v.Send.Status != store.Sent || v.Send.Attempt != 2 {
			r.Errorf("%+v", v.Send)
		}
	})
}

// Rules on countries count the numbers of each, and let mails pass.
func TestRulesOnCountries(t *testing.T) {
	change := func(s *Settings) {
		toNumbers("DE", "US")(s)
		p := s.Purposes["default"]
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "country", Scope: quota.Country, Limit: 2, Window: time.Hour})
		s.Purposes["default"] = p
	}
	inBubbleWith(t, change, func(r *rig) {
		first := r.send(textTo(mobile))
		r.send(textTo(otherMobile))
		third := r.refuse(textTo("+4915123456787"))
		if worst, _ := third.Quota.Blocking(); worst.Name != "country" || worst.RetryAfter != time.Hour {
			r.Errorf("%+v", worst)
		}
		r.send(textTo(american))
		for n := range 4 {
			a := r.send(askFor(fmt.Sprintf("person%d@example.com", n)))
			if slices.ContainsFunc(a.Quota.Rules, func(s quota.State) bool { return s.Scope == quota.Country }) {
				r.Error("a mail is told of a rule on countries")
			}
		}
		looked, err := r.svc.Get(r.Context(), backEnd, first.View.ID)
		if i := slices.IndexFunc(looked.Quota.Rules, func(s quota.State) bool { return s.Name == "country" }); err != nil || i < 0 || looked.Quota.Rules[i].Used != 2 {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
	})
}

// Numbers that differ in their last four digits alone share a prefix; what the limiter's buckets are called tells nothing of it.
func TestRulesOnPrefixes(t *testing.T) {
	change := func(s *Settings) {
		toNumbers("DE", "US")(s)
		p := s.Purposes["default"]
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "range", Scope: quota.Prefix, Limit: 2, Window: time.Hour})
		s.Purposes["default"] = p
	}
	inBubbleWith(t, change, func(r *rig) {
		first := r.send(textTo("+4915123450000"))
		r.send(textTo("+4915123459999"))
		refused := r.refuse(textTo("+4915123455555"))
		if worst, _ := refused.Quota.Blocking(); worst.Name != "range" || worst.RetryAfter != time.Hour {
			r.Errorf("%+v", worst)
		}
		r.send(textTo("+4915123460000"))
		r.send(textTo(american))
		for n := range 4 {
			r.send(askFor(fmt.Sprintf("person%d@example.com", n)))
		}
		looked, err := r.svc.Get(r.Context(), backEnd, first.View.ID)
		if i := slices.IndexFunc(looked.Quota.Rules, func(s quota.State) bool { return s.Name == "range" }); err != nil || i < 0 || looked.Quota.Rules[i].Used != 2 {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
		a, err := r.svc.understand(r.Context(), textTo("+4915123450000"))
		if err != nil || strings.Contains(a.buckets()[quota.Prefix], "1512345") {
			r.Errorf("%v: a bucket names %q", err, a.buckets()[quota.Prefix])
		}
	})
}

func TestWithoutACarrierThereAreNoTextMessages(t *testing.T) {
	inBubbleWith(t, toNumbers("DE"), func(r *rig) {
		r.svc.Carrier = nil
		_, err := r.svc.Send(r.Context(), textTo(mobile))
		var bad *InvalidError
		if !errors.As(err, &bad) || bad.Field != "channel" || bad.Reason != "not_configured" {
			r.Errorf("%v", err)
		}
	})
}
