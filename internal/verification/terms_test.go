package verification_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/message"
	"sendcode/internal/policy"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// hourly is a policy of one rule.
func hourly(name string, limit int, window time.Duration) quota.Policy {
	return quota.Policy{Name: name, Rules: []quota.Rule{{Name: "only", Scope: quota.Recipient, Limit: limit, Window: window}}}
}

// A limit that comes down counts what was sent before: its place frees when the (n-limit+1)-th oldest leaves.
func TestALoweredLimitCountsWhatWasSent(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Change(hourly("default", 5, time.Hour))
		for range 3 {
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Minute)
		}
		r.Change(hourly("default", 2, time.Hour))
		a := r.RefuseTo(vtest.Ana) // at 30 min; sent at 0, 10 and 20, so the second has to leave
		if got := a.Quota.RetryAfter(); got != 40*time.Minute {
			t.Errorf("wait %v", got)
		}
		r.Change(hourly("default", 4, time.Hour))
		r.SendTo(vtest.Ana)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 30*time.Minute)
	})
}

// A window that grows sees what the limiter has dropped: after Rebuild by itself, and before it through the log.
func TestALongerWindowSeesTheHistory(t *testing.T) {
	for _, rebuilt := range []bool{true, false} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.Change(hourly("default", 1, time.Minute))
			r.SendTo(vtest.Ana)
			r.Sleep(30 * time.Minute)
			r.SendTo(vtest.Ana) // the limiter drops the first one here
			r.Sleep(10 * time.Minute)
			if !r.Svc.Change(r.Terms(hourly("default", 2, time.Hour))) {
				t.Error("a longer window needs no history")
			}
			if rebuilt {
				r.Rebuild()
				r.WantWait(r.QuotaOf(""), 20*time.Minute)
			}
			r.WantWait(r.RefuseTo(vtest.Ana).Quota, 20*time.Minute)
			r.Sleep(20 * time.Minute)
			r.SendTo(vtest.Ana)
		})
	}
}

func TestWhatNeedsHistory(t *testing.T) {
	r := &vtest.Rig{Settings: vtest.TestSettings(t)}
	with := func(change func(map[string]policy.Purpose)) policy.Set {
		t := r.Terms(hourly("default", 5, time.Hour))
		change(t.Purposes)
		return t
	}
	set := func(name string, change func(*policy.Purpose)) func(map[string]policy.Purpose) {
		return func(all map[string]policy.Purpose) { p := all[name]; change(&p); all[name] = p }
	}
	same := with(func(map[string]policy.Purpose) {})
	for _, c := range []struct {
		name string
		to   policy.Set
		want bool
	}{
		{"the same", with(func(map[string]policy.Purpose) {}), false},
		{"a limit", with(set("login", func(p *policy.Purpose) { p.Policy = hourly("default", 9, time.Hour) })), false},
		{"a shorter window", with(set("login", func(p *policy.Purpose) { p.Policy = hourly("default", 5, time.Minute) })), false},
		{"a longer window", with(set("login", func(p *policy.Purpose) { p.Policy = hourly("default", 5, 2*time.Hour) })), true},
		{"a longer window for networks", with(set("login", func(p *policy.Purpose) {
			p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: 2 * time.Hour})
		})), false},
		{"failures for longer", with(set("login", func(p *policy.Purpose) {
			p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 1, Window: 2 * time.Hour})
		})), true},
		{"another policy", with(set("login", func(p *policy.Purpose) { p.Policy.Name = "other" })), true},
		{"others that share", with(set("login", func(p *policy.Purpose) { p.Shares = []string{"login"} })), true},
		{"a new purpose", with(set("new", func(p *policy.Purpose) { p.Policy = hourly("default", 5, time.Hour) })), true},
		{"one less", with(func(all map[string]policy.Purpose) { delete(all, "login") }), false},
	} {
		if got := policy.NewInForce(same, time.Now).Change(c.to); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A purpose that goes while its mail waits for a server loses nothing: the mail goes out, private, with the same code.
func TestAPurposeGoesWhileItsSendIsQueued(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		p := s.Purposes["login"]
		p.Notify = message.Glance
		s.Purposes["login"] = p
	}, func(r *vtest.Rig) {
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "mail", 451, "4.7.1"))
		ask := vtest.AskFor(vtest.Ana)
		ask.Purpose = "login"
		a := r.Send(ask)
		left := maps.Clone(r.Settings.Purposes)
		delete(left, "login")
		r.Svc.Change(policy.Set{Purposes: left, Apps: map[string]policy.App{"shop": {Title: "Store"}}})
		r.Sleep(10 * time.Second)
		mails := r.MailServer.Attempts()
		if len(mails) != 2 || r.Status(a) != "sent" {
			t.Fatalf("%d attempts, %s", len(mails), r.Status(a))
		}
		code := r.Code(1)
		if code != r.Code(0) || !strings.Contains(mails[0].Subject, code) || strings.Contains(mails[1].Subject, code) {
			t.Errorf("subjects %q and %q", mails[0].Subject, mails[1].Subject)
		}
		if !strings.Contains(mails[0].Text, "Shop") || !strings.Contains(mails[1].Text, "Store") {
			t.Error("the mails are not by the terms that held")
		}
		r.WantApproved(a.View.ID, code)
		r.WantInvalid(r.SendError(ask), "purpose", "")
	})
}

// A send that fails for good after its purpose changed its policy, or went, gives back the place that it took.
func TestARefundFindsThePolicyOfBefore(t *testing.T) {
	for name, after := range map[string]func(r *vtest.Rig) policy.Set{
		"another policy": func(r *vtest.Rig) policy.Set { return r.Terms(hourly("other", 1, time.Hour)) },
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
			if d := r.QuotaOf(""); !d.Allowed() {
				t.Errorf("%s: the place is taken: %+v", name, d)
			}
			r.SendTo(vtest.Ana)
		})
	}
}

func TestWhatIsRememberedOfFormerPoliciesIsBounded(t *testing.T) {
	r := vtest.NewRig(t, nil)
	for i := range 100 {
		r.Change(hourly(fmt.Sprint("p", i%50), 1, time.Hour))
	}
	got := r.Svc.Terms().CountedUnder("login")
	if len(got) != 17 || got[16] != "p49" || got[15] != "p48" {
		t.Errorf("%v", got)
	}
}

// Requests while terms change all the time: each goes by one of them, and the log holds no more than the wider allows. With -race
// this also shows that what is written is not read meanwhile.
func TestRequestsWhileTermsChange(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Change(hourly("default", 7, time.Hour))
		var in atomic.Int32
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				for i := range 25 {
					r.Svc.Change(r.Terms(hourly("default", []int{3, 7}[i%2], time.Hour)))
					if i%10 == 0 {
						r.Svc.Rebuilder.Rebuild(r.Context(), "process")
					}
					a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
					if err != nil || len(a.Quota.Rules) != 1 || a.Quota.Rules[0].Limit != a.Policy.Rules[0].Limit {
						t.Errorf("decided by %+v, told %+v, %v", a.Policy.Rules, a.Quota.Rules, err)
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

// trial adds a stricter rule for recipients, with the longest window of all, and one for addresses; both observe.
var trial = vtest.WithRules(
	quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 2, Window: 48 * time.Hour, Observe: true},
	quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: time.Hour, Observe: true},
)

func TestObservingRulesRefuseNothingAndAreInTheLog(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		w := &vtest.Noted{}
		r.Svc.Observe(w)
		for range 4 {
			a := r.SendTo(vtest.Ana)
			if len(a.Quota.Rules) != 1 || a.Quota.RetryAfter() != time.Minute {
				t.Fatalf("a success: %+v", a.Quota)
			}
			if refused := r.RefuseTo(vtest.Ana); len(refused.Quota.Rules) != 1 || fmt.Sprint(refused.Quota.Violated()) != "[minute]" {
				t.Fatalf("a refusal: %+v", refused.Quota)
			}
			r.Sleep(time.Minute)
		}
		if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 {
			t.Errorf("a look: %+v", d)
		}
		r.WantObserved(nil, nil, []string{"stricter"}, []string{"stricter", "office"})
		if want := "[email shop stricter email shop stricter email shop office]"; fmt.Sprint(w.All) != want {
			t.Errorf("metrics: %v", w.All)
		}
	})
}

// The log holds three sends of a rule that observes two; a limiter that forgot all asks it, and is let in.
func TestTheLogDoesNotDecideWhatObserves(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		for range 3 {
			r.SendTo(vtest.Ana)
			r.Sleep(time.Minute)
		}
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		r.WantBlockedBy(r.RefuseTo(vtest.Ana).Quota, "minute", time.Minute)
	})
}

func TestAloneObservingRulesAreDecidedInProcess(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		r.LoseLimiter()
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana) // given back by the recipient, not by the address
		for range 3 {
			a := r.SendTo(vtest.Ana)
			if len(a.Quota.Rules) != 1 {
				t.Errorf("%+v", a.Quota.Rules)
			}
			r.Sleep(time.Minute)
		}
		r.WantObserved(nil, nil, nil, []string{"stricter", "office"})
	})
}

// A limiter that starts with the process counts for an observing rule what the log has for as long as that rule looks back.
func TestRebuildForObservingRules(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(trial), func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.SendTo(vtest.Ana)
		r.Sleep(47 * time.Hour)
		r.EmptyLimiter()
		r.Rebuild()
		r.SendTo(vtest.Ana)
		r.Sleep(time.Hour)
		r.SendTo(vtest.Ana)
		r.WantObserved(nil, nil, []string{"stricter"}, nil)
	})
}
