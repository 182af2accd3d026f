package verification_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// withHumanChecks makes the app shop require human checks of strangers. All recipients share the
// rule wide: 10 sends in 10 minutes, at most 8 of them for strangers.
func withHumanChecks(c humancheck.Check) func(*vtest.Settings) {
	return func(s *vtest.Settings) {
		own := quota.Rule{Name: "own", Scope: quota.Recipient, Limit: 3, Window: time.Hour}
		wide := quota.Rule{Name: "wide", Scope: quota.App, Limit: 10, Window: 10 * time.Minute}
		vtest.WithReserve(map[string]int{"wide": 2}, vtest.WithRules(own, wide))(s)
		c.Cost = 8
		s.Humans = map[string]humancheck.Check{"shop": c}
	}
}

func withToken(token string) vtest.Option {
	return func(a *verification.Request) { a.HumanCheck = token }
}

// stranger returns a browser's request for the nth person.
func stranger(n int, options ...vtest.Option) verification.Request {
	return vtest.AskFor(vtest.NthAddress(n), append([]vtest.Option{vtest.By(vtest.Browser)}, options...)...)
}

// wantHumanCheck sends a request, and ends the test unless the answer requires a human check.
func wantHumanCheck(r *vtest.Rig, request verification.Request) verification.Answer {
	r.Helper()
	a := r.Refuse(request)
	if a.HumanCheck == nil {
		r.Fatalf("not asked; refused by %v", a.Quota.Violated())
	}
	return a
}

// asksNext returns AsksNext of Quota for the request's recipient.
func asksNext(r *vtest.Rig, a verification.Request) bool {
	r.Helper()
	answer, err := r.Svc.Quota(r.Context(), a.Caller, a.Channel, a.To, a.Purpose)
	r.NoError(err)
	return answer.AsksNext
}

// useUpPlacesWithoutPass uses up the places that strangers have without a pass.
func useUpPlacesWithoutPass(r *vtest.Rig) {
	r.Helper()
	for n := range 4 {
		r.Send(stranger(100 + n))
	}
}

// Strangers without a pass have half of the strangers' places, and strangers with a pass have all
// of them. Together they never have more. A back end that knows the person needs no pass, and also
// has the reserve. An answer has the wait with a pass, and says whether a pass would be needed. A
// request repeated with its key is answered without a check.
func TestAPassAdmitsBeyondTheHalf(t *testing.T) {
	vtest.InForms(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		for n := range 4 {
			a := r.Send(stranger(n, withToken("nothing asks for it")))
			vtest.Equal(r, "asks next", a.AsksNext, n == 3)
			vtest.Equal(r, "wait", a.Quota.RetryAfter(), 0)
		}
		for n := 4; n < 8; n++ {
			key := vtest.WithKey(fmt.Sprint("the key of person ", n))
			a := wantHumanCheck(r, stranger(n, key))
			vtest.Equal(r, "asked: By", a.HumanCheck.By, "work")
			vtest.Equal(r, "asked: CheckFailed", a.CheckFailed, "")
			vtest.Equal(r, "asked", a.Quota.Violated()[0], "wide")
			vtest.Equal(r, "asked: RetryAfter", a.Quota.RetryAfter(), 10*time.Minute)
			a = r.Send(stranger(n, key, withToken(vtest.Solve(r, a.HumanCheck))))
			wait := time.Duration(0)
			if n == 7 {
				wait = 10 * time.Minute
			}
			vtest.Equal(r, "asks next", a.AsksNext, true)
			vtest.Equal(r, "wait", a.Quota.RetryAfter(), wait)
			r.Want("replayed", r.Send(stranger(n, key)).Replayed, true)
			row, err := r.Store.SendDetails(r.Context(), uuid.MustParse(a.View.Send.ID))
			r.NoError(err)
			r.Want("the send's check", row.Send.HumanCheck, "work")
		}
		vtest.Equal(r, "checks", r.Metrics.Take("human work asked"), 4)
		vtest.Equal(r, "checks", r.Metrics.Take("human work passed"), 4)
		full := r.Refuse(stranger(8))
		vtest.Equal(r, "full", full.HumanCheck == nil, true)
		vtest.Equal(r, "full: AsksNext", full.AsksNext, true)
		vtest.Equal(r, "full: RetryAfter", full.Quota.RetryAfter(), 10*time.Minute)
		for n := 8; n < 10; n++ {
			r.Want("a secret key is asked next", r.SendTo(vtest.NthAddress(n)).AsksNext, false)
		}
		r.WantBlockedBy(r.RefuseTo(vtest.NthAddress(10)).Quota, "wide", 10*time.Minute)
	})
}

// If the recipient's own rules refuse, the answer has their wait, and no caller gets a challenge.
func TestNoChallengeIfRecipientIsLimited(t *testing.T) {
	vtest.InForms(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		for range 3 {
			r.Send(stranger(1))
		}
		r.Send(stranger(2))
		a := r.Refuse(stranger(1))
		vtest.Equal(r, "asked", a.HumanCheck != nil, false)
		vtest.Equal(r, "wait", a.Quota.RetryAfter(), time.Hour)
		r.Want("human checks", r.Metrics.Take("human work asked"), 0)
	})
}

// If all places are taken, a pass would not help. Then each refusal of a flood calls Redis once and
// reads no row, as without human checks. The answer has the wait with a pass, also while the
// database does not answer.
func TestSendToAFullRuleAsksNoChallenge(t *testing.T) {
	vtest.InForms(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		for n := range 8 {
			r.SendTo(vtest.NthAddress(n))
			r.Sleep(time.Second)
		}
		reads, calls := 0, 0
		for _, away := range []sqlitetest.Fault{sqlitetest.None, sqlitetest.Down} {
			r.Store.SetFault(func(method string) sqlitetest.Fault {
				if method == "ReadHistory" {
					reads++
					return away
				}
				return sqlitetest.None
			})
			r.Limiter.Intercept(func(_ context.Context, _ string, do func() error) error { calls++; return do() })
			for n := range 50 {
				a := r.Refuse(stranger(1000+n, withToken("work:")))
				vtest.Equal(r, "asked", a.HumanCheck != nil, false)
				vtest.Equal(r, "asks next", a.AsksNext, true)
				vtest.Equal(r, "wait", a.Quota.RetryAfter(), 10*time.Minute-8*time.Second)
			}
		}
		vtest.Equal(r, "reads", reads, 0)
		vtest.Equal(r, "more calls of Redis than refusals", calls > 100, false)
	})
}

// After a message was sent to the recipient, the failures that the rule backoff counted require no
// human check.
func TestSendAsksNoChallengeForBackoffAfterASend(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.Svc.SetHumanChecks(map[string]humancheck.Check{"shop": {Cost: 8}})
		failMany(r, policy.BackoffRule.Limit, stranger(1), badReputation)
		r.Want("refused by", r.Refuse(stranger(1)).Quota.Violated(), "[backoff]")
		r.SendTo(vtest.NthAddress(1))
		r.Sleep(time.Second)
		r.Send(stranger(1))
	})
}

// These texts are no pass: a solution for another recipient or purpose, garbage, a used solution,
// and an old solution. No limit counts a request with such a text, and the answer has a new
// challenge.
func TestPassThatIsRefused(t *testing.T) {
	vtest.InBubbleWith(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		useUpPlacesWithoutPass(r)
		old := vtest.Solve(r, wantHumanCheck(r, stranger(1)).HumanCheck)
		other := vtest.Solve(r, wantHumanCheck(r, stranger(2)).HumanCheck)
		purpose := vtest.Solve(r, wantHumanCheck(r, stranger(1, vtest.For("login"))).HumanCheck)
		want := func(what string, reason humancheck.Reason, token string) {
			r.Helper()
			a := wantHumanCheck(r, stranger(1, withToken(token)))
			vtest.Equal(r, what+": CheckFailed", a.CheckFailed, reason)
			vtest.Equal(r, what, a.HumanCheck.Work != nil, true)
		}
		want("another recipient's", humancheck.Rejected, other)
		want("another purpose's", humancheck.Rejected, purpose)
		for _, garbage := range []string{"work:", "work:e30=", "work:bnVsbA==", "work:!", "work", "a vendor's"} {
			want(garbage, humancheck.Rejected, garbage)
		}
		r.Want("failed", r.Metrics.Take("human work failed"), 8)
		r.Send(stranger(1, withToken(old)))
		want("spent", humancheck.Used, old)
		r.WantMails(5)
		late := vtest.Solve(r, wantHumanCheck(r, stranger(3)).HumanCheck)
		r.Sleep(humancheck.WorkChallengeLife + time.Second)
		for n := range 4 {
			r.Send(stranger(200 + n))
		}
		a := wantHumanCheck(r, stranger(3, withToken(late)))
		r.Want("old", a.CheckFailed, humancheck.Expired)
	})
}

// One solution admits one send, even at two replicas at once, in every form.
func TestSolutionAdmitsOneSend(t *testing.T) {
	vtest.InForms(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		useUpPlacesWithoutPass(r)
		token := vtest.Solve(r, wantHumanCheck(r, stranger(1)).HumanCheck)
		other := r.Replica(r.MailServer)
		for n, pressed := 0, false; !pressed; n++ { // without Redis each process counts for itself
			a, err := other.Send(r.Context(), stranger(200+n))
			r.NoError(err)
			pressed = !a.Admitted
		}
		replicas := []*vtest.Service{r.Svc, other}
		var admitted, used, failed atomic.Int32
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				a, err := replicas[n%2].Send(r.Context(),
					stranger(1, withToken(token), vtest.WithKey(fmt.Sprint("the key of request ", n))))
				switch {
				case err != nil:
					failed.Add(1)
				case a.Admitted:
					admitted.Add(1)
				case a.CheckFailed == humancheck.Used:
					used.Add(1)
				}
			})
		}
		all.Wait()
		vtest.Equal(r, "admitted", admitted.Load(), 1)
		vtest.Equal(r, "used", used.Load(), 19)
		vtest.Equal(r, "failed", failed.Load(), 0)
	})
}

// A pass is not used up by a send that was not admitted, for example because the database failed.
func TestAnUnadmittedSendSpendsNoPass(t *testing.T) {
	vtest.InBubbleWith(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		useUpPlacesWithoutPass(r)
		token := vtest.Solve(r, wantHumanCheck(r, stranger(1)).HumanCheck)
		r.LoseStore()
		if err := r.SendError(stranger(1, withToken(token))); err == nil {
			r.Error("admitted without a database")
		}
		r.EndStoreFaults()
		r.Sleep(time.Minute)
		r.Send(stranger(1, withToken(token)))
	})
}

// With Always, each stranger's first send needs a check. A resend, a send of a back end that knows
// the person, and a send to a test recipient need none.
func TestAlwaysAsksTheFirstSend(t *testing.T) {
	reviewer := "reviewer@example.com"
	settings := func(s *vtest.Settings) {
		withHumanChecks(humancheck.Check{Always: true})(s)
		vtest.TestRecipient(t, reviewer, "123456")(s)
	}
	vtest.InBubbleWith(t, settings, func(r *vtest.Rig) {
		vtest.Equal(r, "told before: a stranger", asksNext(r, stranger(1)), true)
		vtest.Equal(r, "told before: a secret key", asksNext(r, vtest.AskFor(vtest.NthAddress(1))), false)
		vtest.Equal(r, "told before: a test recipient", asksNext(r, vtest.AskFor(reviewer, vtest.By(vtest.Browser))), false)
		a := wantHumanCheck(r, stranger(1))
		r.Want("a rule is in the way", a.Quota.Allowed(), true)
		first := r.Send(stranger(1, withToken(vtest.Solve(r, a.HumanCheck))))
		r.Send(stranger(1, vtest.Resending(first.View.ID)))
		r.Cancel(first.View.ID)
		wantHumanCheck(r, stranger(1, vtest.Resending(first.View.ID))) // a request for another code
		r.SendTo(vtest.NthAddress(2))
		r.Send(vtest.AskFor(reviewer, vtest.By(vtest.Browser)))
		wantHumanCheck(r, vtest.AskFor(vtest.NthAddress(3), vtest.By(vtest.ForStranger)))
	})
}

// fakeVendor implements humancheck.Vendor with answers that the test chooses.
type fakeVendor struct {
	result func(humancheck.VendorQuery) humancheck.Result
	away   bool
	asked  []humancheck.VendorQuery
}

func (v *fakeVendor) By() string      { return "turnstile" }
func (v *fakeVendor) SiteKey() string { return "the site key" }
func (v *fakeVendor) Available() bool { return !v.away }
func (v *fakeVendor) Check(_ context.Context, q humancheck.VendorQuery) (humancheck.Result, error) {
	v.asked = append(v.asked, q)
	return v.result(q), nil
}

// While a vendor answers, solved work gives three quarters of the places, and a vendor's token
// gives all. The vendor is called only after the limits without a pass have refused the send, and
// while the request holds no place in the admission. A token is good for one send, whatever the
// vendor answers the second time.
func TestAVendorsTokenIsAPass(t *testing.T) {
	vendor := &fakeVendor{result: func(humancheck.VendorQuery) humancheck.Result { return humancheck.Result{Passed: true} }}
	vtest.InForms(t, withHumanChecks(humancheck.Check{Vendor: vendor}), func(r *vtest.Rig) {
		vendor.asked, vendor.away = nil, false
		useUpPlacesWithoutPass(r)
		a := wantHumanCheck(r, stranger(1))
		vtest.Equal(r, "asked: By", a.HumanCheck.By, "turnstile")
		vtest.Equal(r, "asked: SiteKey", a.HumanCheck.SiteKey, "the site key")
		vtest.Equal(r, "asked: Work", a.HumanCheck.Work != nil, true)
		r.Send(stranger(1, withToken(vtest.Solve(r, a.HumanCheck))))
		a = wantHumanCheck(r, stranger(2))
		r.Send(stranger(2, withToken(vtest.Solve(r, a.HumanCheck))))
		a = wantHumanCheck(r, stranger(3)) // six of the eight places are taken
		r.Want("work offered", a.HumanCheck.Work != nil, false)
		vendor.result = func(humancheck.VendorQuery) humancheck.Result {
			r.Want("places taken", r.Svc.AdmissionStats()["sends"].UnderWay["stranger"], 0)
			return humancheck.Result{Passed: true}
		}
		r.Send(stranger(3, withToken("one")))
		a = wantHumanCheck(r, stranger(4, withToken("one")))
		r.Want("a spent token", a.CheckFailed, humancheck.Used)
		vendor.result = func(humancheck.VendorQuery) humancheck.Result { return humancheck.Result{Reason: humancheck.OtherHost} }
		r.Want("of another host", wantHumanCheck(r, stranger(4, withToken("two"))).CheckFailed, humancheck.OtherHost)
		vendor.result = func(humancheck.VendorQuery) humancheck.Result { return humancheck.Result{Away: true} }
		a = wantHumanCheck(r, stranger(4, withToken("three")))
		vtest.Equal(r, "away: By", a.HumanCheck.By, "work")
		vtest.Equal(r, "away: SiteKey", a.HumanCheck.SiteKey, "")
		vtest.Equal(r, "away: CheckFailed", a.CheckFailed, "")
		vtest.Equal(r, "away", a.HumanCheck.Work != nil, false)
		var questions []humancheck.VendorQuery
		for _, token := range []string{"one", "one", "two", "three"} {
			questions = append(questions, humancheck.VendorQuery{Token: token, App: "shop", Network: "192.0.2.0/24", ClientIP: "192.0.2.1"})
		}
		r.Want("questions", vendor.asked, questions)
		vtest.Equal(r, "passed", r.Metrics.Take("human turnstile passed"), 1)
		vtest.Equal(r, "failed", r.Metrics.Take("human turnstile failed"), 2)
		vtest.Equal(r, "errors", r.Metrics.Take("human turnstile vendor_error"), 1)
		vendor.away = true // from here on, solved work gives all places
		a = wantHumanCheck(r, stranger(4))
		vtest.Equal(r, "while it is away: By", a.HumanCheck.By, "work")
		vtest.Equal(r, "while it is away: SiteKey", a.HumanCheck.SiteKey, "")
		r.Send(stranger(4, withToken(vtest.Solve(r, a.HumanCheck))))
		r.WantBlockedBy(r.Refuse(stranger(5)).Quota, "wide", 10*time.Minute)
		r.WantInvalid(r.SendError(stranger(5, withToken(fmt.Sprintf("%2049d", 1)))), "human_check", "too_long")
	})
}

// halfSpentBudget implements verification.Budget.
type halfSpentBudget bool

func (h halfSpentBudget) StrangersHoldHalf(context.Context, string, string) bool { return bool(h) }

// While half of the strangers' share of a spend cap is spent, text messages to strangers need a
// human check. Mails, and text messages of a back end that knows the person, do not.
func TestASpendCapAsks(t *testing.T) {
	settings := func(s *vtest.Settings) { vtest.ServeCountries("DE")(s); withHumanChecks(humancheck.Check{})(s) }
	vtest.InBubbleWith(t, settings, func(r *vtest.Rig) {
		text := vtest.TextTo(vtest.Mobile)
		text.Caller = vtest.Browser
		r.Svc.Process.Service.Budget = halfSpentBudget(true)
		vtest.Equal(r, "told before: a text message", asksNext(r, text), true)
		vtest.Equal(r, "told before: a mail", asksNext(r, stranger(1)), false)
		vtest.Equal(r, "told before: by a secret key", asksNext(r, vtest.TextTo(vtest.OtherMobile)), false)
		a := wantHumanCheck(r, text)
		r.Want("a rule is in the way", a.Quota.Allowed(), true)
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.Send(stranger(1))
		text.HumanCheck = vtest.Solve(r, a.HumanCheck)
		r.Send(text)
		r.Svc.Process.Service.Budget = halfSpentBudget(false)
		r.Want("told before: half is not spent", asksNext(r, text), false)
		text.HumanCheck = ""
		r.Send(text)
	})
}

type callCounter struct {
	delayedDatabase
	begins, claims atomic.Int32
}

func (c *callCounter) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	c.begins.Add(1)
	return c.delayedDatabase.Begin(ctx, in)
}

func (c *callCounter) ClaimIdempotencyKey(ctx context.Context, k store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	c.claims.Add(1)
	return c.delayedDatabase.ClaimIdempotencyKey(ctx, k)
}

// For a request with a forged solution, the service calls neither Begin nor ClaimIdempotencyKey.
func TestAForgedSolutionWritesNothing(t *testing.T) {
	vtest.InBubbleWith(t, withHumanChecks(humancheck.Check{}), func(r *vtest.Rig) {
		useUpPlacesWithoutPass(r)
		db := &callCounter{delayedDatabase: delayedDatabase{Database: r.Store}}
		svc := r.ReplicaOn(db, r.MailServer, r.Carrier)
		wrong := vtest.Solve(r, wantHumanCheck(r, stranger(2)).HumanCheck)
		for range 1000 {
			a := r.AskAt(svc, stranger(1, withToken(wrong)), false)
			r.Want("a forged solution", a.CheckFailed, humancheck.Rejected)
		}
		vtest.Equal(r, "writes: Load", db.begins.Load(), 0)
		vtest.Equal(r, "writes: Load", db.claims.Load(), 0)
	})
}

// The test simulates two hours: an attacker makes 10 requests a minute, each for another recipient,
// and a person comes every two minutes. Strangers share 100 places in an hour. The test checks how
// many people are admitted without a wait.
func TestWhoIsServedUnderAttack(t *testing.T) {
	passes := &fakeVendor{result: func(q humancheck.VendorQuery) humancheck.Result {
		return humancheck.Result{Passed: q.Token != "", Reason: humancheck.Rejected}
	}}
	type attackCase struct {
		check  humancheck.Check
		off    bool                                                                // no check is in force
		attack func(r *vtest.Rig, n int, offer verification.Answer) (token string) // the attacker's token; empty: it has none
		served int                                                                 // how many of 60 people are admitted
	}
	none := func(*vtest.Rig, int, verification.Answer) string { return "" }
	work := func(r *vtest.Rig, _ int, a verification.Answer) string { // an attacker with enough processors for every challenge
		if a.HumanCheck.Work == nil {
			return ""
		}
		return vtest.Solve(r, a.HumanCheck)
	}
	buys := func(_ *vtest.Rig, n int, _ verification.Answer) string {
		if n%10 == 0 {
			return fmt.Sprint("bought ", n)
		}
		return ""
	}
	vtest.EachInBubble(t, map[string]attackCase{
		"before":                                {off: true, attack: none, served: 8},
		"work, an attacker without passes":      {attack: none, served: 60},
		"work, an attacker with work":           {attack: work, served: 8},
		"a vendor, an attacker without passes":  {check: humancheck.Check{Vendor: passes}, attack: none, served: 60},
		"a vendor, an attacker with work":       {check: humancheck.Check{Vendor: passes}, attack: work, served: 58},
		"a vendor, an attacker buys one in ten": {check: humancheck.Check{Vendor: passes}, attack: buys, served: 49},
	}, vtest.MinuteTick(vtest.WithRules(quota.Rule{Name: "wide", Scope: quota.App, Limit: 100, Window: time.Hour})),
		func(r *vtest.Rig, w attackCase) {
			if w.check.Cost = 8; !w.off {
				r.Svc.SetHumanChecks(map[string]humancheck.Check{"shop": w.check})
			}
			next, served, people := 0, 0, 0
			try := func(token func(*vtest.Rig, int, verification.Answer) string) bool {
				next++
				request := stranger(next)
				request.IP = netip.AddrFrom4([4]byte{10, byte(next >> 8), byte(next), 1})
				a, err := r.Svc.Send(r.Context(), request)
				if r.NoError(err); a.HumanCheck != nil {
					if request.HumanCheck = token(r, next, a); request.HumanCheck == "" {
						return false
					}
					a, err = r.Svc.Send(r.Context(), request)
					r.NoError(err)
				}
				return a.Admitted
			}
			for minute := range 120 {
				for range 10 {
					try(w.attack)
				}
				if minute%2 == 1 {
					people++
					if try(func(r *vtest.Rig, n int, a verification.Answer) string {
						if w.check.Vendor != nil {
							return fmt.Sprint("a person's ", n)
						}
						return vtest.Solve(r, a.HumanCheck)
					}) {
						served++
					}
				}
				r.Sleep(time.Minute)
			}
			vtest.Equal(r, fmt.Sprint("served of ", people, " people"), served, w.served)
		})
}
