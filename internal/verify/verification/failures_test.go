package verification_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// wide admits 10,000 codes an hour for each recipient, so that refusals have another reason.
var wide = vtest.WithRules(quota.Rule{Name: "wide", Scope: quota.Recipient, Limit: 10_000, Window: time.Hour})

// For the codes of one recipient that callers of one class requested, only 20 wrong codes are
// compared in a day, in all sessions and purposes together, even if each verification is canceled
// after its guesses.
func TestGuessesOfOneRecipientADay(t *testing.T) {
	vtest.EachInForm(t, map[string]func(n int) verification.Request{
		"browsers":    func(int) verification.Request { return byBrowser(vtest.Ana) },
		"secret keys": func(n int) verification.Request { return vtest.AskFor(vtest.Ana, vtest.InSession(fmt.Sprint(n))) },
	}, vtest.DayTick(wide), func(r *vtest.Rig, asks func(n int) verification.Request) {
		guess := func() (compared int) {
			for n := range 12 {
				ask := asks(n)
				ask.Purpose = []string{"", "login"}[n%2]
				a, err := r.Svc.Send(r.Context(), ask)
				if _, locked := errors.AsType[*verification.FailedCheckLimitError](err); locked {
					continue
				}
				r.NoError(err)
				synctest.Wait()
				compared += r.Guess(vtest.BackEnd, verification.MaxAttempts, a.View.ID)
				r.Cancel(a.View.ID)
			}
			return compared
		}
		a := r.Send(asks(100))
		code := r.LastCode()
		r.Want("wrong codes compared", guess(), 20)
		_, compared, wait := r.Try(vtest.BackEnd, a.View.ID, code)
		// The wait is rounded, because many refusals wait for a shared read.
		vtest.Equal(r, "the right code at the bound: compared", compared, false)
		vtest.Equal(r, "the right code at the bound", wait.Round(time.Second), 24*time.Hour)
		r.Want("tries left", r.Get(a.View.ID).AttemptsRemaining, verification.MaxAttempts)
		r.Sleep(wait - time.Second)
		r.Want("compared early", guess(), 0)
		r.Sleep(time.Second)
		r.Want("compared on the next day", guess(), 20)
	})
}

// A code that confirms an address lives a day in a mail and ten minutes in a text message.
func TestAConfirmationLivesADay(t *testing.T) {
	confirm := func(s *vtest.Settings) {
		vtest.ServeCountries("DE")(s)
		p := s.Purposes["default"]
		p.TTL = store.MaxCodeLife
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, confirm, func(r *vtest.Rig) {
		life := func(ask verification.Request) time.Duration {
			v := r.Send(ask).View
			return v.ExpiresAt.Sub(v.CreatedAt)
		}
		r.Want("life in a text message", life(vtest.TextTo(vtest.Mobile)), policy.MaxTextLife)
		r.Want("life in a mail", life(vtest.AskFor("bob@example.com")), store.MaxCodeLife)
	})
}

// Each client's network has a bound, and the wider network has a bound for all of them. The log has
// the refusals, but no address.
func TestFailuresOfANetwork(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(wide), func(r *vtest.Rig) {
		var sent []string // verifications; each keeps at least one try
		fail := func(ip string, n int) (compared int, wait time.Duration) {
			c := verification.Caller{App: "shop", Kind: verification.BackEnd}
			if ip != "" {
				c = from(ip)
			}
			for i := range n {
				if i%4 == 0 {
					sent = append(sent, r.Send(vtest.AskFor(fmt.Sprintf("r%d@example.com", len(sent)), vtest.By(c))).View.ID)
				}
				_, was, w := r.Try(c, sent[len(sent)-1], r.WrongCode(r.LastCode()))
				if was {
					compared++
				}
				wait = max(wait, w)
			}
			return compared, wait
		}
		want := func(ip string, n, want int) {
			t.Helper()
			got, _ := fail(ip, n)
			r.Want("compared from "+ip, got, want)
		}
		n, wait := fail("192.0.2.1", 105)
		vtest.Equal(r, "compared", n, 100)
		vtest.Equal(r, "wait", wait, time.Hour)
		want("198.51.100.7", 1, 1)
		want("", 1, 1) // the back end names no client
		right := r.Send(byBrowser(vtest.Ana))
		_, compared, _ := r.Try(vtest.Browser, right.View.ID, r.LastCode())
		r.Want("compared from a network over its limit", compared, false)
		r.Want("tries left", r.Get(right.View.ID).AttemptsRemaining, verification.MaxAttempts)
		r.NoError(vtest.Err(r.Store.Cancel(r.Context(), right.View.ID)))
		ended, err := r.Svc.Check(r.Context(), vtest.Browser, right.View.ID, r.LastCode())
		r.NoError(err) // a check of an ended code is no guess
		r.WantChecked("an ended code, from a network over its limit", ended, verification.Canceled, false)
		r.Sleep(time.Hour)
		want("192.0.2.1", 1, 1)
		r.Metrics.Take("checked refused")
		for _, network := range []string{"203.0.113.%d", "2001:db8:1:%d::1"} {
			for i := range 3 {
				want(fmt.Sprintf(network, i), 100, 100)
			}
			want(fmt.Sprintf(network, 9), 2, 0)
		}
		want("203.0.114.9", 1, 1)
		want("2001:db8:2:9::1", 1, 1)
		vtest.Equal(r, "refused by the wide bound", r.Metrics.Take("bound wide_network"), 4)
		vtest.Equal(r, "refused by the wide bound", r.Metrics.Take("checked refused"), 4)
		r.Sleep(2 * time.Minute)
		if out := r.Printed.String(); !strings.Contains(out, `level=WARN msg="checks refused`) ||
			!strings.Contains(out, "shop email wide_network:") || strings.Contains(out, "203.0.113") {
			t.Error("the refusals were not logged, or an address was")
		}
	})
}

// A check counts as a failure only if a wrong code was compared. A right code, an ended code, an
// unknown ID, and a check that the database or a missing key prevented don't count.
func TestWhatIsNoFailure(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		used := func() int {
			checks := r.Svc.Policies().Checks
			in := buckets.NetworkFailedChecks("shop", vtest.BackEnd.IP, "email")
			in[quota.App] = buckets.AppFailedChecks("shop", "email")
			d, err := r.Limiter.Peek(r.Context(), quota.Request{
				Rules: []quota.Rule{checks.Network, checks.WideNetwork, checks.App}, Buckets: in,
			})
			r.NoError(err)
			vtest.Equal(r, "of the network", d.Rules[1].Used, d.Rules[0].Used)
			vtest.Equal(r, "of the app", d.Rules[2].Used, d.Rules[0].Used)
			return d.Rules[0].Used
		}
		is := func(want int, what string) {
			t.Helper()
			r.Sleep(time.Minute)
			r.Want(what, used(), want)
		}
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Check(a.View.ID, r.WrongCode(code))
		is(1, "a wrong code")
		r.Check(a.View.ID, code)
		is(1, "the right code")
		r.Check(a.View.ID, r.WrongCode(code))
		is(1, "an ended code")
		b := r.SendTo(vtest.Ana)
		r.FailStore(sqlitetest.Down, "Check")
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, b.View.ID, "000000")), fault.Unavailable)
		is(1, "a check that the database did not take")
		r.EndStoreFaults()
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, "unknown", "000000")), fault.NotFound)
		is(1, "an unknown ID")
		good := r.Settings.Vault
		r.Svc.SetVault(keys.Vault{IndexKey: good.IndexKey, Ring: vtest.KeyRing(t, "k2:"+vtest.NewKey)})
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, b.View.ID, "000000")), fault.Unavailable)
		is(1, "a code that could not be derived")
		r.Want("its tries", r.Get(b.View.ID).AttemptsRemaining, verification.MaxAttempts)
		r.Svc.SetVault(good)
		r.Svc.Checks = &disturbed{DB: r.Store, before: func(id string) { r.NoError(vtest.Err(r.Store.Cancel(r.Context(), id))) }}
		c := r.Check(b.View.ID, r.LastCode())
		r.WantChecked("canceled meanwhile", c, verification.Canceled, false)
		is(1, "a check that compared nothing")
	})
}

// Without the limiter the database decides alone: codes can be checked, up to the recipient's
// bound.
func TestChecksWithoutTheLimiter(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		r.LoseLimiter()
		var ids []string
		for range 6 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.Want("compared", r.Guess(vtest.Browser, 30, ids...), rowrules.FailedCheckLimit)
		r.ReplaceLimiter()
	})
}
