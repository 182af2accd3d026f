package verification

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

func TestSendArrives(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		if a.View.To != anaAs || a.View.State != Pending || a.View.Send.Status != store.Queued || a.View.Send.Number != 1 {
			t.Errorf("answer: %+v", a.View)
		}
		if got := a.View.ExpiresAt.Sub(a.View.CreatedAt); got != 10*minute {
			t.Errorf("life is %v", got)
		}
		if len(a.View.ID) < 26 {
			t.Errorf("id %q has fewer than 128 bits", a.View.ID)
		}
		if a.Quota.Allowed() || a.Quota.RetryAfter() != minute {
			t.Errorf("a success must tell the wait: %v", a.Quota.RetryAfter())
		}
		mails := r.post.all()
		if len(mails) != 1 || mails[0].To != ana || mails[0].ID != a.View.Send.ID+"@shop.example" {
			t.Fatalf("mails: %+v", mails)
		}
		v := r.get(a.View.ID)
		if v.Send.Status != store.Sent || v.Send.ProviderCode != "250 2.0.0" || v.Send.Provider != "mx.example" {
			t.Errorf("after delivery: %+v", v.Send)
		}
		if c := r.check(a.View.ID, codeIn(mails[0])); !c.Valid || c.State != Approved {
			t.Errorf("check: %+v", c)
		}
	})
}

func TestOneOfManyIsLetIn(t *testing.T) {
	inBubble(t, func(r *rig) {
		other := r.replica(r.post)
		var admitted, refused atomic.Int32
		var wg sync.WaitGroup
		for i := range 200 {
			svc := []*Service{r.svc, other}[i%2]
			wg.Go(func() {
				a, err := svc.Send(r.Context(), askFor(ana))
				switch {
				case err != nil:
					t.Error(err)
				case a.Admitted:
					admitted.Add(1)
				default:
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 1 || refused.Load() != 199 {
			t.Errorf("%d let in, %d refused", admitted.Load(), refused.Load())
		}
	})
}

func TestWaitIsExact(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		waited(20 * time.Second)
		a := r.refuse(askFor(ana))
		wait := a.Quota.RetryAfter()
		if worst, _ := a.Quota.Blocking(); wait != 40*time.Second || worst.Name != "minute" {
			t.Fatalf("wait is %v by %s", wait, worst.Name)
		}
		waited(wait - time.Microsecond)
		r.refuse(askFor(ana))
		waited(time.Microsecond)
		r.send(askFor(ana))
	})
}

func TestAskIsRefusedByField(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.send(askFor(ana))
		for _, c := range []struct {
			field  string
			change func(*Ask)
		}{
			{"channel", func(a *Ask) { a.Channel = "" }},
			{"channel", func(a *Ask) { a.Channel = "pigeon" }},
			{"to", func(a *Ask) { a.Channel, a.To = "sms", "+4915123456789" }},
			{"to", func(a *Ask) { a.To = "" }},
			{"to", func(a *Ask) { a.To = "nobody" }},
			{"to", func(a *Ask) { a.To = "a@example.com\r\nBcc: b@example.com" }},
			{"to", func(a *Ask) { a.To = strings.Repeat("a", 400) + "@example.com" }},
			{"purpose", func(a *Ask) { a.Purpose = "unknown" }},
			{"reference", func(a *Ask) { a.Reference = strings.Repeat("ä", 65) }},
			{"reference", func(a *Ask) { a.Reference = "a\nb" }},
			{"session", func(a *Ask) { a.Session = strings.Repeat("s", 129) }},
			{"session", func(a *Ask) { a.Caller, a.Session = browser, "s" }},
			{"locale", func(a *Ask) { a.Locale = "en\x00" }},
			{"to", func(a *Ask) { a.Resend, a.To = first.View.ID, "bea@example.com" }},
			{"purpose", func(a *Ask) { a.Resend, a.Purpose = first.View.ID, "login" }},
			{"channel", func(a *Ask) { a.Resend, a.Channel, a.To = first.View.ID, "sms", "" }},
		} {
			ask := askFor(ana)
			c.change(&ask)
			_, err := r.svc.Send(r.Context(), ask)
			var bad *InvalidError
			if !errors.As(err, &bad) || bad.Field != c.field || bad.Detail == "" {
				t.Errorf("%+v: %v, want field %s", ask, err, c.field)
			}
		}
		if n := len(r.post.all()); n != 1 {
			t.Errorf("%d mails", n)
		}
	})
}

func TestIPRule(t *testing.T) {
	change := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:len(p.Policy.Rules):len(p.Policy.Rules)], quota.Rule{Name: "net", Scope: quota.IP, Limit: 2, Window: time.Minute})
		s.Purposes["default"] = p
	}
	inBubbleWith(t, change, func(r *rig) {
		from := func(to, ip string) Ask {
			a := askFor(to)
			a.IP = netip.MustParseAddr(ip)
			return a
		}
		r.send(from("a1@example.com", "2001:db8:0:1::1"))
		r.send(from("a2@example.com", "2001:db8:0:1::2"))
		if a := r.refuse(from("a3@example.com", "2001:db8:0:1:ffff::3")); a.Quota.Violated()[0] != "net" {
			t.Errorf("refused by %v", a.Quota.Violated())
		}
		r.send(from("a3@example.com", "2001:db8:0:2::1")) // and the refusal above spent nothing of a3's
		r.send(from("a4@example.com", "192.0.2.7"))
		r.send(from("a5@example.com", "::ffff:192.0.2.7"))
		r.refuse(from("a6@example.com", "192.0.2.7"))
	})
}

// The configuration may forget a purpose while its codes live: they can be looked at and checked.
func TestPurposeThatIsGone(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		r.svc.Change(Terms{})
		got, err := r.svc.Get(r.Context(), backEnd, a.View.ID)
		if err != nil || got.View.State != Pending || len(got.Quota.Rules) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if c := r.check(a.View.ID, codeIn(r.post.all()[0])); !c.Valid {
			t.Errorf("%+v", c)
		}
	})
}

func TestGetTellsTheQuotaNow(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		waited(25 * time.Second)
		got, err := r.svc.Get(r.Context(), backEnd, a.View.ID)
		if err != nil || got.Quota.RetryAfter() != 35*time.Second || len(got.Quota.Rules) != 3 {
			t.Errorf("%v %+v", err, got.Quota)
		}
	})
}

func TestWhatTheAdministratorAsks(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.send(askFor(ana))
		h, err := r.svc.Hash("email", "Ana.Maria@EXAMPLE.com")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.log.Sends(r.Context(), store.Filter{Recipient: &h, Limit: 5})
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows by hash, %v", len(rows), err)
		}
		d, err := r.svc.RecipientQuota(r.Context(), "shop", "email", "default", h)
		if err != nil || len(d.Rules) != 3 || d.RetryAfter() != minute {
			t.Errorf("%+v, %v", d, err)
		}
		var bad *InvalidError
		if _, err := r.svc.RecipientQuota(r.Context(), "shop", "email", "nothing", h); !errors.As(err, &bad) {
			t.Errorf("%v", err)
		}
		if _, err := r.svc.Hash("email", "nobody"); !errors.As(err, &bad) {
			t.Errorf("%v", err)
		}
	})
}
