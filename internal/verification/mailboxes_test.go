package verification_test

import (
	"context"
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

// Sixty spellings of one mailbox get it twenty mails a day from browsers, and no more; back ends are not limited by it.
func TestBrowsersReachAMailboxTwentyTimesADay(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		for n := range 20 {
			r.Send(spelling(n))
		}
		for n := 20; n < 60; n++ {
			a := r.Refuse(spelling(n))
			worst, _ := a.Quota.Blocking()
			if worst.Name != "spellings" || a.Quota.RetryAfter() != 24*time.Hour || worst.ResetAfter != worst.RetryAfter || worst.Used != 20 ||
				len(a.Quota.Rules) != 1 {
				t.Fatalf("%+v", a.Quota)
			}
		}
		if n := len(r.MailServer.All()); n != 20 {
			t.Errorf("%d mails", n)
		}
		for n := range 25 {
			a := spelling(100 + n)
			a.Caller = vtest.BackEnd
			if d := r.Send(a).Quota; slices.ContainsFunc(d.Rules, func(s quota.State) bool { return s.Scope == policy.Spellings }) {
				t.Errorf("a back end's answer has the rule: %+v", d)
			}
		}
		r.Sleep(24 * time.Hour)
		r.Send(spelling(70)) // back ends have taken none of its places
	})
}

// One mailbox's spellings are no other's, and a phone number has none.
func TestSpellingsOfAnotherMailbox(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		for n := range 20 {
			r.Send(spelling(n))
		}
		r.Refuse(spelling(20))
		for _, to := range []string{"victi.m@example.com", "other@gmail.com", "victim@gmail.example"} {
			a := spelling(30)
			a.To = to
			r.Send(a)
		}
		a := spelling(31)
		a.Channel, a.To = "sms", "+4915123456789"
		r.Send(a)
		bank := spelling(32)
		bank.App = "bank"
		r.Send(bank)
		gift := spelling(33)
		gift.Purpose = "login"
		r.Refuse(gift)
	})
}

// What a browser reads is the same whatever other spellings were asked for, until the rule refuses.
func TestAnswersSayNothingOfOtherSpellings(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		names := func(d quota.Decision) (all []string) {
			for _, s := range d.Rules {
				all = append(all, s.Name)
			}
			return all
		}
		first := r.Send(spelling(0)).Quota
		var id string
		for n := 1; n < 19; n++ {
			a := r.Send(spelling(n))
			id = a.View.ID
			if !slices.Equal(names(a.Quota), names(first)) || slices.Contains(names(a.Quota), "spellings") || a.Quota.RetryAfter() != 0 {
				t.Fatalf("send %d: %v, %v", n, names(a.Quota), a.Quota.RetryAfter())
			}
		}
		look, err := r.Svc.Get(r.Context(), spelling(18).Caller, id)
		if err != nil || slices.Contains(names(look.Quota), "spellings") {
			t.Errorf("a look: %v, %v", names(look.Quota), err)
		}
		r.Sleep(time.Second)
		if last := r.Send(spelling(19)).Quota; !slices.Contains(names(last), "spellings") || last.RetryAfter() != 24*time.Hour-time.Second {
			t.Errorf("the send that takes the last place: %v, %v", names(last), last.RetryAfter())
		}
		look, err = r.Svc.Get(r.Context(), spelling(18).Caller, id)
		if err != nil || look.Quota.RetryAfter() != 24*time.Hour-time.Second {
			t.Errorf("a look at a full mailbox: %v, %v", look.Quota.RetryAfter(), err)
		}
	})
}

// A request that another rule refuses takes no place, and one that this rule refuses takes none of the recipient's.
func TestSpellingsAreDecidedInTheSameStep(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(func(s *vtest.Settings) {
		spelled(s)
		vtest.WithRules(quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute})(s)
		s.Spellings.Limit = 2
	}), func(r *vtest.Rig) {
		r.Send(spelling(0))
		for range 3 {
			r.Refuse(spelling(0))
		}
		r.Send(spelling(3))
		a := r.Refuse(spelling(6))
		if worst, _ := a.Quota.Blocking(); worst.Name != "spellings" {
			t.Errorf("%+v", a.Quota)
		}
		back := spelling(6)
		back.Caller = vtest.BackEnd
		r.Send(back) // it has its place of the minute
	})
}

// While the limiter is away each process counts by itself, and an administrator's reset frees the mailbox.
func TestSpellingsWithoutTheLimiterAndAfterAReset(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		r.LoseLimiter()
		for n := range 20 {
			r.Send(spelling(n))
		}
		r.Refuse(spelling(20))
		who, err := r.Svc.Desk.Person("shop", "email", "victim+7@gmail.com", "", "bombed by strangers")
		r.NoError(err)
		r.EmptyLimiter()
		r.Sleep(2 * time.Second)
		for n := range 20 {
			r.Send(spelling(n))
		}
		r.Refuse(spelling(20))
		r.NoError(r.Svc.Desk.ResetQuota(context.Background(), who, vtest.AuditEntry("quota.reset")))
		r.Send(spelling(20))
	})
}

// The limiter's keys have the mailbox as a keyed hash alone.
func TestTheBucketOfSpellingsIsAHash(t *testing.T) {
	r := vtest.NewRig(t, spelled)
	mailbox := r.Settings.Vault.Mailbox(vtest.ParseEmail(t, "victim@gmail.com"))
	if got := policy.SpellingsBucket("shop", mailbox); !strings.Contains(got, mailbox.String()) || strings.Contains(got, "victim") ||
		mailbox == (recipient.Hash{}) {
		t.Errorf("%s", got)
	}
}
