package verification_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// roundedRules has rules whose waits are rounded for browsers.
var roundedRules = []quota.Rule{
	{Name: "hour", Scope: quota.Recipient, Limit: 3, Window: time.Hour},
	{Name: "hours", Scope: quota.Recipient, Limit: 4, Window: 3 * time.Hour},
}

var withRoundedRules = vtest.WithRules(roundedRules...)

// shownToBrowser returns the header and the body by which a browser learns of the rules.
func shownToBrowser(d quota.Decision) string {
	h := http.Header{}
	_ = quotahttp.SetRateLimit(h, d)
	if !d.Allowed() {
		quotahttp.SetRetryAfter(h, d.RetryAfter())
	}
	body, _ := json.Marshal(quotahttp.ProblemMembers(d))
	return fmt.Sprintf("%v %s", h, body)
}

func look(r *vtest.Rig, id string) quota.Decision {
	r.Helper()
	a, err := r.Svc.Get(r.Context(), vtest.Browser, id)
	r.NoError(err)
	return a.Quota
}

// shownRule has the fields of a quota.State that an answer shows.
type shownRule struct {
	name         string
	left, limit  int
	reset, retry time.Duration
}

// wantRules compares the recipient's rules.
func wantRules(r *vtest.Rig, what string, d quota.Decision, want ...shownRule) {
	r.Helper()
	var got []shownRule
	for _, s := range d.Rules {
		if s.Scope == quota.Recipient {
			got = append(got, shownRule{s.Name, s.Remaining(), s.Limit, s.ResetAfter, s.RetryAfter})
		}
	}
	vtest.Equal(r, what+": rules", len(got), len(want))
	for i := range min(len(got), len(want)) {
		vtest.Equal(r, what+": "+want[i].name, got[i], want[i])
	}
}

// While no rule refuses, a browser's answers show only its own sends, although a back end requested
// a code seven seconds before.
func TestABrowserIsToldOfItsOwnSends(t *testing.T) {
	vtest.InBubbleWith(t, withRoundedRules, func(r *vtest.Rig) {
		alone := []shownRule{
			{"hour", 2, 3, time.Hour, 0},
			{"hours", 3, 4, 3 * time.Hour, 0},
		}
		r.SendTo(vtest.Ana)
		r.Sleep(7 * time.Second)
		first := r.SendTo(vtest.Ana, vtest.By(vtest.Browser))
		wantRules(r, "the answer", first.Quota, alone...)
		wantRules(r, "a look", look(r, first.View.ID), alone...)
		r.Sleep(8*time.Minute + time.Second) // with less than two minutes left, a resend opens another verification
		second := r.SendTo(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(first.View.ID))
		r.Want("the same verification", second.View.ID == first.View.ID, false)
		// The rule admits three sends in an hour, and the first was at 00:00:00. Its place is free
		// at 01:00:00, which needs no rounding.
		used := []shownRule{
			{"hour", 0, 3, 51*time.Minute + 52*time.Second, 51*time.Minute + 52*time.Second},
			{"hours", 2, 4, 2*time.Hour + 51*time.Minute + 59*time.Second, 0},
		}
		wantRules(r, "a resend", second.Quota, used...)
		wantRules(r, "a look", look(r, second.View.ID), used...)
		r.Sleep(2 * time.Minute) // the first verification has ended
		for _, id := range []string{"", first.View.ID, second.View.ID} {
			refused := r.RefuseTo(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(id)).Quota
			refused.Rules = refused.Rules[:1]
			wantRules(r, "refused", refused, shownRule{"hour", 0, 3, 49*time.Minute + 52*time.Second, 49*time.Minute + 52*time.Second})
		}
	})
}

// If a browser's own sends have used up a rule, the browser gets the exact wait, although each
// resend replaced the verification by a new one.
func TestAWaitByOwnSendsIsExact(t *testing.T) {
	vtest.InBubbleWith(t, withRoundedRules, func(r *vtest.Rig) {
		r.Sleep(17 * time.Second)
		id := ""
		for range 3 {
			id = r.SendTo(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(id)).View.ID
			r.Sleep(9 * time.Minute)
		}
		want := []shownRule{
			{"hour", 0, 3, 33 * time.Minute, 33 * time.Minute},
			{"hours", 1, 4, 2*time.Hour + 33*time.Minute, 0},
		}
		wantRules(r, "three own", look(r, id), want...)
		r.FailStore(sqlitetest.Down, "ReadHistory")
		r.WantError(vtest.Err(r.Svc.Get(r.Context(), vtest.Browser, id)), fault.Unavailable)
		r.EndStoreFaults()
		r.LoseLimiter()
		wantRules(r, "without the limiter", look(r, id), want...)
		r.Sleep(33*time.Minute - time.Second)
		r.WantWait(r.RefuseTo(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(id)).Quota, time.Second)
		r.Sleep(time.Second)
		r.Want("a look then", look(r, id).Allowed(), true)
		r.SendTo(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(id))
	})
}

// If a wider rule refuses while the database does not answer, a browser sees only that rule.
func TestAWiderRuleIsToldWithoutTheDatabase(t *testing.T) {
	wider := vtest.AlsoRules(quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: time.Minute})
	vtest.InBubbleWith(t, wider, func(r *vtest.Rig) {
		id := r.SendTo(vtest.Ana, vtest.By(vtest.Browser)).View.ID
		r.RefuseTo("ben@example.com", vtest.By(vtest.Browser), vtest.Resending(""))
		r.FailStore(sqlitetest.Down, "ReadHistory")
		d := r.RefuseTo("ben@example.com", vtest.By(vtest.Browser)).Quota
		r.WantBlockedBy(d, "net", time.Minute)
		r.EndStoreFaults()
		r.Want("the look has the other rules", len(look(r, id).Rules) > 1, true)
	})
}

// If a network's rule refuses a browser without a verification, no row is read, even if the
// recipient's rules refuse it for longer. Other callers get the longer wait.
func TestANetworksRefusalReadsNoRows(t *testing.T) {
	rules := vtest.WithRules(quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: time.Minute},
		quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour})
	vtest.InForms(t, rules, func(r *vtest.Rig) {
		id := r.SendTo(vtest.Ana, vtest.By(vtest.Browser)).View.ID
		reads := 0
		r.Store.SetFault(func(method string) sqlitetest.Fault {
			if slices.Contains([]string{"Begin", "ReadHistory"}, method) {
				reads++
			}
			return sqlitetest.None
		})
		for range 3 {
			r.WantBlockedBy(r.RefuseTo(vtest.Ana, vtest.By(vtest.Browser)).Quota, "net", time.Minute)
		}
		r.Want("reads", reads, 0)
		r.WantWait(r.RefuseTo(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(id)).Quota, time.Hour)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, time.Hour)
	})
}

// While no rule refuses, a browser does not see sends that others requested before its first one. A
// rule of less than an hour shows its exact wait.
func TestRedactHidesEarlierSends(t *testing.T) {
	vtest.InBubbleWith(t, withRoundedRules, func(r *vtest.Rig) {
		for range 2 {
			r.Sleep(time.Minute)
			r.SendTo(vtest.Ana)
		}
		r.Sleep(59*time.Minute + 30*time.Second)
		id := r.SendTo(vtest.Ana, vtest.By(vtest.Browser)).View.ID
		wantRules(r, "a look", look(r, id), shownRule{"hour", 2, 3, time.Hour, 0}, shownRule{"hours", 3, 4, 3 * time.Hour, 0})
	})
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(7 * time.Second)
		refused := r.RefuseTo(vtest.Ana, vtest.By(vtest.Browser)).Quota
		wantRules(r, "refused", refused, shownRule{"minute", 0, 1, 53 * time.Second, 53 * time.Second})
	})
}

// browserAnswers makes other callers request codes at the times in others, and a browser at the
// times in asks, both counted from the start. It returns the answers to the browser's requests,
// then the answers to its reads, which come at intervals of every until end.
func browserAnswers(t *testing.T, others []time.Duration, asks []time.Duration, end,
	every time.Duration,
) (answers []quota.Decision) {
	servertest.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, withRoundedRules)
		began, id := time.Now(), ""
		for _, at := range others {
			r.Sleep(at - time.Since(began))
			_, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
		}
		for _, at := range asks {
			r.Sleep(at - time.Since(began))
			ask := vtest.AskFor(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(id))
			a, err := r.Svc.Send(r.Context(), ask)
			r.NoError(err)
			answers = append(answers, a.Quota)
			id = cmp.Or(a.View.ID, id)
		}
		for id != "" && time.Since(began) < end {
			r.Sleep(every)
			answers = append(answers, look(r, id))
		}
		r.Quit()
	})
	return answers
}

// A browser gets the same answers whether or not others asked, while no rule refuses. It always
// gets the same answers if each time at which others asked stays within the same interval of five
// minutes.
func TestABrowserCannotTellWhenOthersAsked(t *testing.T) {
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 0))
		cells := dice.Perm(20)[:dice.IntN(6)]
		slices.Sort(cells)
		var here, there, asks []time.Duration
		within := func(cell int) time.Duration { // an instant within the cell, never at its ends
			return time.Duration(cell)*5*time.Minute + time.Microsecond + rand.N(5*time.Minute-2*time.Microsecond)
		}
		for _, cell := range cells {
			here, there = append(here, within(cell)), append(there, within(cell))
		}
		for cell := 20; cell < 22; cell += 1 + dice.IntN(2) {
			asks = append(asks, time.Duration(cell)*5*time.Minute+time.Duration(dice.IntN(299))*time.Second)
		}
		every := time.Duration(40+dice.IntN(120)) * time.Second
		end := 6 * time.Hour
		a, b, alone := browserAnswers(t, here, asks, end, every), browserAnswers(t, there, asks, end, every),
			browserAnswers(t, nil, asks, end, every)
		if len(a) != len(b) {
			t.Fatalf("seed %d: %d and %d answers", seed, len(a), len(b))
		}
		for i := range a {
			if shownToBrowser(a[i]) != shownToBrowser(b[i]) {
				t.Fatalf("seed %d, %v or %v, asked at %v, answer %d of %d:\n%s\n%s", seed, here, there, asks, i, len(a),
					shownToBrowser(a[i]), shownToBrowser(b[i]))
			}
			if len(a) == len(alone) && a[i].Allowed() && shownToBrowser(a[i]) != shownToBrowser(alone[i]) {
				t.Fatalf("seed %d, %v, asked at %v, answer %d of %d:\n%s\nalone\n%s", seed, here, asks, i, len(a),
					shownToBrowser(a[i]), shownToBrowser(alone[i]))
			}
		}
	}
}

// Whatever happened before, a browser that waits as long as its answer says is admitted: after a
// refusal, after an admission, and after a read.
func TestABrowserThatWaitsAsToldIsAdmitted(t *testing.T) {
	rules := append([]quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "wide", Scope: quota.App, Limit: 9, Window: 2 * time.Hour},
	}, roundedRules...)
	idle := vtest.DayTick(vtest.WithRules(rules...))
	for seed := range uint64(10) {
		vtest.InForms(t, idle, func(r *vtest.Rig) {
			dice := rand.New(rand.NewPCG(seed, 1))
			var asks []vtest.Option
			for range 40 {
				r.Sleep(time.Duration(dice.IntN(400)) * time.Second)
				for range dice.IntN(3) { // requests of others, which may be refused
					_, err := r.Svc.Send(r.Context(), vtest.AskFor([]string{vtest.Ana, "bob@example.com"}[dice.IntN(2)]))
					r.NoError(err)
					r.Sleep(time.Duration(dice.IntN(90)) * time.Second)
				}
				browser := vtest.Browser
				browser.IP = netip.AddrFrom4([4]byte{192, 0, 2, byte(dice.IntN(9))})
				ask := vtest.AskFor(vtest.Ana, append(asks, vtest.By(browser))...)
				a, err := r.Svc.Send(r.Context(), ask)
				r.NoError(err)
				for n := 0; !a.Admitted; n++ { // a wider rule may hide the recipient's rule once
					if n == 2 {
						r.Fatalf("seed %d: refused again by %v", seed, a.Quota.Violated())
					}
					r.Sleep(a.Quota.RetryAfter())
					a, err = r.Svc.Send(r.Context(), ask)
					r.NoError(err)
				}
				asks = []vtest.Option{vtest.Resending(a.View.ID)}
				d := a.Quota
				if dice.IntN(2) == 0 {
					r.Sleep(time.Duration(dice.IntN(3000)) * time.Second)
					d = look(r, a.View.ID)
				}
				if dice.IntN(2) == 0 && len(d.Rules) > 1 { // the answer has all rules
					r.Sleep(d.RetryAfter())
					a = r.SendTo(vtest.Ana, append(asks, vtest.By(browser))...)
					asks = []vtest.Option{vtest.Resending(a.View.ID)}
				}
			}
		})
	}
}

// For a browser, the end of a lockout is rounded up. For a back end, it is exact. No wait is longer
// than the window of its rule, neither after a lockout nor after a network's bound on failed
// checks.
func TestABrowserIsToldARoundedLockout(t *testing.T) {
	many := quota.Rule{Name: "many", Scope: quota.Recipient, Limit: 100, Window: time.Hour}
	for _, c := range []struct {
		by    verification.Caller
		later time.Duration // the wait ten minutes later
	}{{vtest.BackEnd, 24*time.Hour - 10*time.Minute}, {vtest.Browser, 24*time.Hour - 5*time.Minute - 7*time.Second}} {
		vtest.InBubbleWith(t, vtest.WithRules(many), func(r *vtest.Rig) {
			r.Sleep(7 * time.Second)
			var ids []string
			for n := range 5 {
				ids = append(ids, r.SendTo(vtest.Ana, vtest.By(c.by), func(a *verification.Request) {
					if c.by.Kind == verification.BackEnd {
						a.Session = fmt.Sprint(n)
					}
				}).View.ID)
			}
			r.Want("guesses", r.Guess(c.by, 20, ids[:4]...), 20)
			for _, wait := range []time.Duration{r.WantLockedOut(vtest.AskFor(vtest.Ana, vtest.By(c.by))), lockedOut(r, c.by, ids[4])} {
				r.Want("the wait, which is no longer than the window", wait, 24*time.Hour)
			}
			r.Sleep(10 * time.Minute)
			r.Want("remembered", r.WantLockedOut(vtest.AskFor(vtest.Ana, vtest.By(c.by))), c.later)
		})
	}
	bounds := func(s *vtest.Settings) {
		s.Checks = vtest.Checks
		s.Checks.Network = quota.Rule{Name: "network", Scope: quota.IP, Limit: 1, Window: time.Hour}
	}
	vtest.InBubbleWith(t, bounds, func(r *vtest.Rig) {
		r.Sleep(7 * time.Second)
		id := r.SendTo(vtest.Ana, vtest.By(vtest.Browser)).View.ID
		r.Guess(vtest.Browser, 1, id)
		r.Want("of a network", lockedOut(r, vtest.Browser, id), time.Hour)
		r.Want("for a back end", lockedOut(r, vtest.BackEnd, id), time.Hour)
	})
}

func lockedOut(r *vtest.Rig, by verification.Caller, id string) time.Duration {
	r.Helper()
	_, compared, wait := r.Try(by, id, r.WrongCode(r.Code(0)))
	r.Want("compared", compared, false)
	return wait
}
