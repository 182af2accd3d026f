package verification_test

import (
	"fmt"
	"net/netip"
	"sendcode/internal/policy"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// spelled has the rule on spellings, 20 a day, beside wide rules of the recipient.
func spelled(s *vtest.Settings) {
	vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 30, Window: time.Hour})(s)
	s.Numbers.Everywhere = true
	s.Spellings = quota.Rule{Name: policy.SpellingsName, Scope: policy.Spellings, Limit: 20, Window: 24 * time.Hour}
}

// spelling is a vtest.Browser's request for the nth spelling of one mailbox, from an address of its own.
func spelling(n int) verification.Ask {
	to := fmt.Sprintf("victim+%d@gmail.com", n)
	switch n % 3 {
	case 1:
		to = fmt.Sprintf("v.ictim+%d@googlemail.com", n)
	case 2:
		to = strings.ToUpper(to)
	}
	a := vtest.AskFor(to)
	a.Caller = verification.Caller{App: "shop", Kind: verification.Browser, IP: netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})}
	return a
}

// fill sends to twenty spellings, and wants the twenty-first refused.
func fill(r *vtest.Rig) verification.Answer {
	r.Helper()
	for n := range 20 {
		r.Send(spelling(n))
	}
	return r.Refuse(spelling(20))
}

// Sixty spellings of one mailbox get it twenty mails a day from browsers, and no more. Back ends are not limited by it, nor are other
// mailboxes, phone numbers and other apps; other purposes are.
func TestBrowsersReachAMailboxTwentyTimesADay(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		a := fill(r)
		for n := 21; n < 60; n++ {
			worst, _ := a.Quota.Blocking()
			if worst.Name != "spellings" || a.Quota.RetryAfter() != 24*time.Hour || worst.ResetAfter != worst.RetryAfter || worst.Used != 20 ||
				len(a.Quota.Rules) != 1 {
				t.Fatalf("%+v", a.Quota)
			}
			a = r.Refuse(spelling(n))
		}
		r.WantMails(20)
		for n := range 25 {
			a := spelling(100 + n)
			a.Caller = vtest.BackEnd
			if d := r.Send(a).Quota; slices.Contains(ruleNames(d), "spellings") {
				t.Errorf("a back end's answer has the rule: %+v", d)
			}
		}
		for _, to := range []string{"victi.m@example.com", "other@gmail.com", "victim@gmail.example"} {
			a := spelling(30)
			a.To = to
			r.Send(a)
		}
		text, bank, login := spelling(31), spelling(32), spelling(33)
		text.Channel, text.To, bank.App, login.Purpose = "sms", vtest.Mobile, "bank", "login"
		r.Send(text)
		r.Send(bank)
		r.Refuse(login)
		r.Sleep(24 * time.Hour)
		r.Send(spelling(70)) // back ends have taken none of its places
	})
}

func ruleNames(d quota.Decision) (all []string) {
	for _, s := range d.Rules {
		all = append(all, s.Name)
	}
	return all
}

// A browser reads the same whatever other spellings were asked for, until the rule refuses.
func TestAnswersSayNothingOfOtherSpellings(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		first := ruleNames(r.Send(spelling(0)).Quota)
		look := func(id string) quota.Decision {
			a, err := r.Svc.Get(r.Context(), spelling(18).Caller, id)
			r.NoError(err)
			return a.Quota
		}
		var id string
		for n := 1; n < 19; n++ {
			a := r.Send(spelling(n))
			id = a.View.ID
			if got := ruleNames(a.Quota); !slices.Equal(got, first) || slices.Contains(got, "spellings") || a.Quota.RetryAfter() != 0 {
				t.Fatalf("send %d: %v, %v", n, got, a.Quota.RetryAfter())
			}
		}
		if d := look(id); slices.Contains(ruleNames(d), "spellings") {
			t.Errorf("a look: %+v", d)
		}
		r.Sleep(time.Second)
		last := r.Send(spelling(19)).Quota
		if !slices.Contains(ruleNames(last), "spellings") || last.RetryAfter() != 24*time.Hour-time.Second {
			t.Errorf("the send that takes the last place: %+v", last)
		}
		if d := look(id); d.RetryAfter() != 24*time.Hour-time.Second {
			t.Errorf("a look at a full mailbox: %+v", d)
		}
	})
}

// A request that another rule refuses takes no place, and one that this rule refuses takes none of the recipient's.
func TestSpellingsAreDecidedInTheSameStep(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		spelled(s)
		vtest.WithRules(quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute})(s)
		s.Spellings.Limit = 2
	}, func(r *vtest.Rig) {
		r.Send(spelling(0))
		for range 3 {
			r.Refuse(spelling(0))
		}
		r.Send(spelling(3))
		if d := r.Refuse(spelling(6)).Quota; !slices.Equal(d.Violated(), []string{"spellings"}) {
			t.Errorf("%+v", d)
		}
		back := spelling(6)
		back.Caller = vtest.BackEnd
		r.Send(back) // it has its place of the minute
	})
}

// While the limiter is away each process counts by itself, and an administrator's reset frees the mailbox. Its bucket is a keyed hash.
func TestSpellingsWithoutTheLimiterAndAfterAReset(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		r.LoseLimiter()
		fill(r)
		r.EmptyLimiter()
		r.Sleep(2 * time.Second)
		fill(r)
		who, err := r.Svc.Desk.Person("shop", "email", "victim+7@gmail.com", "", "bombed by strangers")
		r.NoError(err)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), who, vtest.AuditEntry("quota.reset")))
		r.Send(spelling(20))
		mailbox := r.Settings.Vault.Hashes(vtest.ParseEmail(t, "victim@gmail.com")).Mailbox
		if got := policy.SpellingsBucket("shop", mailbox); mailbox == (recipient.Hash{}) || strings.Contains(got, "victim") {
			t.Errorf("%s", got)
		}
	})
}
