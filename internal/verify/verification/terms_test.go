package verification_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

func hourly(name string, limit int, window time.Duration) quota.Policy {
	return quota.Policy{Name: name, Rules: []quota.Rule{{Name: "only", Scope: quota.Recipient, Limit: limit, Window: window}}}
}

// If a window is made longer, the database still counts the events that the limiter has dropped.
func TestLongerWindowCountsEventsOfTheDatabase(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Change(hourly("default", 1, time.Minute))
		r.SendTo(vtest.Ana)
		r.Sleep(30 * time.Minute)
		r.SendTo(vtest.Ana) // here the limiter drops the first send
		r.Sleep(10 * time.Minute)
		r.Change(hourly("default", 2, time.Hour))
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 20*time.Minute)
		r.Sleep(20 * time.Minute)
		r.SendTo(vtest.Ana)
	})
}

// If a purpose is removed while its mail waits for a server, the mail is still sent, with the same
// code, and does not show the code in notifications.
func TestRemovedPurposeStillSendsQueuedMails(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		p := s.Purposes["login"]
		p.Notify = message.NotifyGlance
		s.Purposes["login"] = p
	}, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "mail", 451, "4.7.1"))
		ask := vtest.AskFor(vtest.Ana, vtest.For("login"))
		a := r.Send(ask)
		left := maps.Clone(r.Settings.Purposes)
		delete(left, "login")
		r.Svc.Change(policy.Set{Purposes: left, Apps: map[string]policy.App{"shop": {Title: "Store"}}})
		r.Sleep(10 * time.Second)
		mails := r.MailServer.Attempts()
		vtest.Equal(r, "attempts", len(mails), 2)
		vtest.Equal(r, "status", r.Status(a), "sent")
		code := r.Code(1)
		for n, app := range []string{"Shop", "Store"} { // the title at the time of each send
			m := mails[n]
			vtest.Equal(r, "a mail", r.Code(n), code)
			vtest.Equal(r, "a mail", strings.Contains(m.Subject, code), n == 0)
			vtest.Equal(r, "a mail", strings.Contains(m.Text, app), true)
		}
		r.WantApproved(a.View.ID, code)
		r.WantInvalid(r.SendError(ask), "purpose", "")
	})
}

// If a send fails for good after its purpose got another policy, or was removed, it gives back the
// place that it took.
func TestRefundAfterThePolicyChanged(t *testing.T) {
	for name, after := range map[string]func(r *vtest.Rig) policy.Set{
		"another policy": func(r *vtest.Rig) policy.Set { return r.PoliciesWith(hourly("other", 1, time.Hour)) },
		"none":           func(r *vtest.Rig) policy.Set { return policy.Set{} },
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.Change(hourly("first", 1, time.Hour))
			r.Change(hourly("one", 1, time.Hour))
			r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "mail", 451, "4.7.1"), vtest.NoMailbox)
			r.SendTo(vtest.Ana)
			r.RefuseTo(vtest.Ana)
			r.Svc.Change(after(r))
			r.Sleep(10 * time.Second)
			r.WantMails(2)
			r.Change(hourly("one", 1, time.Hour))
			r.WantQuota(name, r.QuotaOf(""), "[1]", 0)
			r.SendTo(vtest.Ana)
		})
	}
}

func TestFormerPoliciesAreBounded(t *testing.T) {
	r := vtest.NewRig(t, nil)
	for i := range 100 {
		r.Change(hourly(fmt.Sprint("p", i%50), 1, time.Hour))
	}
	got := r.Svc.Policies().CurrentAndFormerBucketNames("login")
	if len(got) != 17 || got[16] != r.Svc.Policies().Purposes["login"].SharedBucketName() || !strings.HasPrefix(got[15], "p48") {
		t.Errorf("%v", got)
	}
}

// Requests come while the settings change all the time. Each request uses one of the two policies,
// and at most as many sends are admitted as the wider policy allows. With -race, the test also
// shows that no data is read while it is written.
func TestRequestsWhileTermsChange(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Change(hourly("default", 7, time.Hour))
		var in atomic.Int32
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				for i := range 25 {
					r.Svc.Change(r.PoliciesWith(hourly("default", []int{3, 7}[i%2], time.Hour)))
					a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
					if err != nil || len(a.Quota.Rules) != 1 || a.Quota.Rules[0].Limit != 3 && a.Quota.Rules[0].Limit != 7 {
						t.Errorf("told %+v, %v", a.Quota.Rules, err)
					}
					if a.Admitted {
						in.Add(1)
					}
				}
			})
		}
		work.Wait()
		if n := in.Load(); n < 3 || n > 7 {
			t.Errorf("%d let in", n)
		}
	})
}

// trial has one rule that refuses, and three that observe: a stricter one on recipients, with the
// longest window of all, one on the client's address, and one on failures.
var trial = vtest.WithRules(
	quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 2, Window: 48 * time.Hour, Observe: true},
	quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: time.Hour, Observe: true},
	quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 1, Window: time.Hour, Observe: true},
)

func TestObservedRulesAreStored(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		for range 4 {
			r.WantQuota("a success", r.SendTo(vtest.Ana).Quota, "[0]", time.Minute)
			r.WantQuota("a refusal", r.RefuseTo(vtest.Ana).Quota, "[0]", time.Minute)
			r.Sleep(time.Minute)
		}
		r.WantQuota("a look", r.QuotaOf(""), "[1]", 0)
		r.WantObserved(nil, nil, []string{"stricter"}, []string{"stricter", "office"})
		vtest.Equal(r, "metrics", r.Metrics.Take("observed email shop stricter"), 2)
		vtest.Equal(r, "metrics", r.Metrics.Take("observed email shop office"), 1)
	})
}

// In each form, the rows decide the observing rules on recipients and their failures; the limiter
// or this process decides the other observing rules.
func TestObservingRulesInEachForm(t *testing.T) {
	vtest.InForms(t, trial, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana) // the recipient's place is given back, the address's is not
		for range 3 {
			r.Want("rules", len(r.SendTo(vtest.Ana).Quota.Rules), 1)
			r.Sleep(time.Minute)
		}
		failed := []string{"failures"}
		r.WantObserved(nil, failed, failed, []string{"stricter", "failures", "office"})
	})
}

// The rows decide an observing rule on recipients for its whole window, even if the limiter has
// lost events.
func TestObservingRulesSeeTheRows(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(trial), func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.SendTo(vtest.Ana)
		r.Sleep(47 * time.Hour)
		r.ReplaceLimiter()
		r.SendTo(vtest.Ana)
		r.Sleep(time.Hour)
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.ReplaceLimiter()
		r.SendTo(vtest.Ana)
		r.WantObserved(nil, nil, []string{"stricter"}, nil, []string{"stricter"})
	})
}
