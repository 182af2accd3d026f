package verification

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/message"
	"sendcode/internal/store"
	"sendcode/quota"
)

// hourly is a policy of one rule.
func hourly(name string, limit int, window time.Duration) quota.Policy {
	return quota.Policy{Name: name, Rules: []quota.Rule{{Name: "only", Scope: quota.Recipient, Limit: limit, Window: window}}}
}

// terms are the rig's with another policy for all purposes.
func (r *rig) terms(p quota.Policy) Terms {
	t := Terms{Purposes: maps.Clone(r.settings.Purposes), Titles: r.settings.Titles}
	for name, purpose := range t.Purposes {
		purpose.Policy = p
		t.Purposes[name] = purpose
	}
	return t
}

func (r *rig) change(p quota.Policy) { r.Helper(); r.svc.Change(r.terms(p)) }

// A limit that comes down counts what was sent before: its place frees when the (n-limit+1)-th oldest leaves (QUOTA-17).
func TestALoweredLimitCountsWhatWasSent(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.change(hourly("default", 5, time.Hour))
		for range 3 {
			r.send(askFor(ana))
			waited(10 * time.Minute)
		}
		r.change(hourly("default", 2, time.Hour))
		a := r.refuse(askFor(ana)) // at 30 min; sent at 0, 10 and 20, so the second has to leave
		if got := a.Quota.RetryAfter(); got != 40*time.Minute {
			t.Errorf("wait %v", got)
		}
		r.change(hourly("default", 4, time.Hour))
		r.send(askFor(ana))
		if got := r.refuse(askFor(ana)).Quota.RetryAfter(); got != 30*time.Minute {
			t.Errorf("wait %v", got)
		}
	})
}

// A window that grows sees what the limiter has dropped: after Rebuild by itself, and before it through the log.
func TestALongerWindowSeesTheHistory(t *testing.T) {
	for _, rebuilt := range []bool{true, false} {
		inBubble(t, func(r *rig) {
			r.change(hourly("default", 1, time.Minute))
			r.send(askFor(ana))
			waited(30 * time.Minute)
			r.send(askFor(ana)) // the limiter drops the first one here
			waited(10 * time.Minute)
			if !r.svc.Change(r.terms(hourly("default", 2, time.Hour))) {
				t.Error("a longer window needs no history")
			}
			if rebuilt {
				if err := r.svc.Rebuild(r.Context(), "process"); err != nil {
					t.Fatal(err)
				}
				if q, err := r.svc.Quota(r.Context(), backEnd, "email", ana, ""); err != nil || q.Quota.RetryAfter() != 20*time.Minute {
					t.Errorf("the limiter says %v, %v", q.Quota.RetryAfter(), err)
				}
			}
			if got := r.refuse(askFor(ana)).Quota.RetryAfter(); got != 20*time.Minute {
				t.Errorf("wait %v", got)
			}
			waited(20 * time.Minute)
			r.send(askFor(ana))
		})
	}
}

func TestWhatNeedsHistory(t *testing.T) {
	r := &rig{settings: testSettings(t)}
	with := func(change func(map[string]Purpose)) Terms {
		t := r.terms(hourly("default", 5, time.Hour))
		change(t.Purposes)
		return t
	}
	set := func(name string, change func(*Purpose)) func(map[string]Purpose) {
		return func(all map[string]Purpose) { p := all[name]; change(&p); all[name] = p }
	}
	same := with(func(map[string]Purpose) {})
	for _, c := range []struct {
		name string
		to   Terms
		want bool
	}{
		{"the same", with(func(map[string]Purpose) {}), false},
		{"a limit", with(set("login", func(p *Purpose) { p.Policy = hourly("default", 9, time.Hour) })), false},
		{"a shorter window", with(set("login", func(p *Purpose) { p.Policy = hourly("default", 5, time.Minute) })), false},
		{"a longer window", with(set("login", func(p *Purpose) { p.Policy = hourly("default", 5, 2*time.Hour) })), true},
		{"a longer window for networks", with(set("login", func(p *Purpose) {
			p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: 2 * time.Hour})
		})), false},
		{"another policy", with(set("login", func(p *Purpose) { p.Policy.Name = "other" })), true},
		{"others that share", with(set("login", func(p *Purpose) { p.Shares = []string{"login"} })), true},
		{"a new purpose", with(set("new", func(p *Purpose) { p.Policy = hourly("default", 5, time.Hour) })), true},
		{"one less", with(func(all map[string]Purpose) { delete(all, "login") }), false},
	} {
		if got := widened(same, c.to); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A purpose that goes while its mail waits for a server loses nothing: the mail goes out, private, with the same code.
func TestAPurposeGoesWhileItsSendIsQueued(t *testing.T) {
	inBubbleWith(t, func(s *Settings) {
		p := s.Purposes["login"]
		p.Notify = message.Glance
		s.Purposes["login"] = p
	}, func(r *rig) {
		r.post.tell(failing(delivery.Temporary, "mail", 451, "4.7.1"))
		ask := askFor(ana)
		ask.Purpose = "login"
		a := r.send(ask)
		left := maps.Clone(r.settings.Purposes)
		delete(left, "login")
		r.svc.Change(Terms{Purposes: left, Titles: map[string]string{"shop": "Store"}})
		waited(10 * time.Second)
		mails := r.post.all()
		if len(mails) != 2 || r.get(a.View.ID).Send.Status != store.Sent {
			t.Fatalf("%d attempts, %+v", len(mails), r.get(a.View.ID).Send)
		}
		code := codeIn(mails[1])
		if code != codeIn(mails[0]) || !strings.Contains(mails[0].Subject, code) || strings.Contains(mails[1].Subject, code) {
			t.Errorf("subjects %q and %q", mails[0].Subject, mails[1].Subject)
		}
		if !strings.Contains(mails[0].Text, "Shop") || !strings.Contains(mails[1].Text, "Store") {
			t.Error("the mails are not by the terms that held")
		}
		if !r.check(a.View.ID, code).Valid {
			t.Error("the code does not check")
		}
		if _, err := r.svc.Send(r.Context(), ask); err == nil || !strings.Contains(err.Error(), "purpose") {
			t.Errorf("a new request: %v", err)
		}
	})
}

// A send that fails for good after its purpose changed its policy, or went, gives back the place that it took.
func TestARefundFindsThePolicyOfBefore(t *testing.T) {
	for name, after := range map[string]func(r *rig) Terms{
		"another policy": func(r *rig) Terms { return r.terms(hourly("other", 1, time.Hour)) },
		"none":           func(r *rig) Terms { return Terms{} },
	} {
		inBubble(t, func(r *rig) {
			r.change(hourly("first", 1, time.Hour))
			r.change(hourly("one", 1, time.Hour))
			r.post.tell(failing(delivery.Temporary, "mail", 451, "4.7.1"), failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
			r.send(askFor(ana))
			r.refuse(askFor(ana))
			r.svc.Change(after(r))
			waited(10 * time.Second)
			if n := len(r.post.all()); n != 2 {
				t.Fatalf("%s: %d attempts", name, n)
			}
			r.change(hourly("one", 1, time.Hour))
			if q, err := r.svc.Quota(r.Context(), backEnd, "email", ana, ""); err != nil || !q.Quota.Allowed() {
				t.Errorf("%s: the place is taken: %+v, %v", name, q.Quota, err)
			}
			r.send(askFor(ana))
		})
	}
}

func TestWhatIsRememberedOfFormerPoliciesIsBounded(t *testing.T) {
	r := newRig(t, nil)
	for i := range 100 {
		r.change(hourly(fmt.Sprint("p", i%50), 1, time.Hour))
	}
	got := r.svc.terms.Load().counted("login")
	if len(got) != 17 || got[16] != "p49" || got[15] != "p48" {
		t.Errorf("%v", got)
	}
}

// Requests and checks while terms change all the time: each goes by one of them, and the log holds no more than the wider
// allows. With -race this also shows that nobody reads what is written.
func TestRequestsWhileTermsChange(t *testing.T) {
	r := newRig(t, nil)
	r.change(hourly("default", 7, time.Hour))
	r.run()
	defer func() { r.stop(); <-r.stopped }() // there is no bubble to wait for
	var in atomic.Int32
	var work, changes sync.WaitGroup
	done := make(chan struct{})
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				r.svc.Change(r.terms(hourly("default", []int{3, 7}[i%2], time.Hour)))
				if i%10 == 0 {
					if err := r.svc.Rebuild(r.Context(), "process"); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
	for i := range 8 {
		work.Go(func() {
			who := Caller{App: "shop", Kind: Secret, IP: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}
			for range 25 {
				a, err := r.svc.Send(r.Context(), Ask{Caller: who, Channel: "email", To: ana, Locale: "en"})
				if err != nil {
					t.Error(err)
					return
				}
				if limit := a.Quota.Rules[0].Limit; len(a.Quota.Rules) != 1 || limit != a.Policy.Rules[0].Limit {
					t.Errorf("decided by %+v, told %+v", a.Policy.Rules, a.Quota.Rules)
				}
				if a.Admitted {
					in.Add(1)
					_, _ = r.svc.Get(r.Context(), who, a.View.ID)
				}
			}
		})
	}
	work.Wait()
	close(done)
	changes.Wait()
	if n := in.Load(); n < 3 || n > 7 {
		t.Errorf("%d let in", n)
	}
}
