package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/refusals"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// One address above its limit asks for codes for as many strangers as it can. The refusals do not
// fill the database, every request is counted, and support finds the first requests.
// TestRefusalsAreBoundedAndCounted tests the bound of the memory.
// TestBatchBoundsRowsOfWiderRules tests the rows.
func TestStrangersDoNotFillTheDatabase(t *testing.T) {
	const strangers = 2000
	office := vtest.AlsoRules(quota.Rule{Name: "office", Scope: quota.IP, Limit: 1, Window: time.Hour})
	vtest.InBubbleWith(t, vtest.DefaultTick(office), func(r *vtest.Rig) {
		ask := verification.Request{
			Caller: vtest.Browser, Channel: "email", To: vtest.Ana, Languages: "de-CH, de;q=0.9",
			Labels: store.Labels{Reference: "not needed"},
		}
		r.Send(ask)
		for i := range strangers {
			ask.To = vtest.NthAddress(i)
			r.Refuse(ask)
			if i%500 == 0 {
				r.Sleep(time.Second) // in this time batches are written
			}
		}
		r.Sleep(3 * time.Second)
		rows := r.Rows()[1:]
		own, shared, requests := storetest.SumRefusals(rows)
		vtest.Equal(r, "rows of their own", own, refusals.MaxOwnRowsPerNetwork)
		vtest.Equal(r, "shared", shared, 1)
		vtest.Equal(r, "requests", requests, strangers)
		r.Want("refusals of the first", r.RowBlockedBy("office", "email", vtest.NthAddress(0)).Count, 1)
		for _, row := range rows {
			if row.Reference != "" || row.Locale != "" && row.Locale != "de-CH" {
				t.Fatalf("a refused row has locale %q and reference %q", row.Locale, row.Reference)
			}
		}
	})
}

// The metrics distinguish three refusals: by the limiter; by the database although the limiter
// admitted, which means that the limiter lost events; and by the database while the limiter did not
// answer, which says nothing about lost events.
func TestRefusalsAreCountedByGate(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		for outcome, before := range map[string]func(){
			"refused": func() {}, "refused_by_database": func() { r.ReplaceLimiter() },
			"refused_by_database_alone": r.LoseLimiter,
		} {
			before()
			r.RefuseTo(vtest.Ana)
			if n := r.Metrics.Take("decided " + outcome + " minute"); n != 1 {
				t.Errorf("%s is counted %d times", outcome, n)
			}
			r.ReplaceLimiter()
			r.Sleep(2 * time.Second)
			r.QuotaAt(r.Svc) // the limiter has the send again
		}
	})
}

// Without Redis, each refusal by the rows has the same outcome and rule in the metrics, in the
// process that sent and in others.
func TestRefusalsByTheRowsHaveOneName(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Form = vtest.WithoutRedis }, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		other := r.Replica(r.MailServer)
		for _, s := range []*vtest.Service{r.Svc, other, other} {
			r.AskAt(s, vtest.AskFor(vtest.Ana), false)
		}
		r.Want("refused", r.Metrics.Take("decided refused minute"), 3)
	})
}

// A request that is refused with a 422, because codes are not sent to the recipient, has a row with
// the recipient and the reason.
func TestSendThatIsInvalidHasARow(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		s.Blocks.Disposable = map[string]bool{"short.example": true}
		s.Numbers = policy.ServedNumbers{Countries: []string{"DE", "GB"}, RefuseVoIP: true}
	}, func(r *vtest.Rig) {
		us, voip := vtest.TextTo("+12025550123"), vtest.TextTo("+445612345678")
		short := vtest.AskFor("ana.maria@short.example")
		short.Caller, short.Reference = vtest.Browser, "free text"
		for range 3 {
			r.WantInvalid(r.SendError(us), "to", "country_not_served")
			r.WantInvalid(r.SendError(voip), "to", "voip")
			r.WantInvalid(r.SendError(short), "to", "disposable")
		}
		// checks and reports ask for no code, so they add no refusal to the rows
		r.WantError(vtest.Err(r.Svc.CheckByRecipient(r.Context(), us, "123456")), fault.NotFound)
		r.WantError(vtest.Err(r.Svc.ReportByRecipient(r.Context(), us, string(store.ReportApproved))), fault.NotFound)
		r.Sleep(time.Minute)
		for reason, ask := range map[string]verification.Request{"country_not_served": us, "voip": voip, "disposable": short} {
			row := r.RowBlockedBy(reason, ask.Channel, ask.To)
			vtest.Equal(r, reason+": Status", row.Status, "refused")
			vtest.Equal(r, reason+": Count", row.Count, 3)
			vtest.Equal(r, reason+": RetryAfter", row.RetryAfter, 0)
			vtest.Equal(r, reason, row.To != "", true)
			vtest.Equal(r, reason+": Reference", row.Reference, "")
		}
	})
}

// After a reload that no longer serves a recipient, earlier codes can still be checked and
// reported.
func TestCheckAfterAReloadThatDropsTheRecipient(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		code := r.LastCode()
		r.SendTo(vtest.Ana, withCode("987654", 0))
		set := r.Svc.Policies()
		set.Blocks.Disposable = map[string]bool{"example.com": true}
		r.Svc.Change(set)
		r.WantInvalid(r.SendError(vtest.AskFor(vtest.Ana)), "to", "disposable")
		checked, err := r.Svc.CheckByRecipient(r.Context(), anaByName, code)
		r.NoError(err)
		r.WantChecked("the right code", checked, verification.Approved, true)
		reported, err := r.Svc.ReportByRecipient(r.Context(), anaByName, string(store.ReportApproved))
		r.NoError(err)
		r.Want("reported", reported.Reported, store.ReportApproved)
	})
}

// A check that is refused because of too many failed checks has a row, too: one row for a
// recipient's code, however many attempts were refused.
func TestARefusedCheckHasARow(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(wide), func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		last := ids[4]
		r.Guess(vtest.Browser, 20, ids[:4]...)
		for range 3 {
			_, err := r.Svc.Check(r.Context(), vtest.Browser, last, r.LastCode())
			if _, many := errors.AsType[*verification.FailedCheckLimitError](err); !many {
				t.Fatal(err)
			}
		}
		r.Sleep(time.Minute)
		row := r.RowBlockedBy(policy.LockoutName, "email", vtest.Ana)
		vtest.Equal(r, "the row: Count", row.Count, 3)
		vtest.Equal(r, "the row: RetryAfter", row.RetryAfter > 0, true)
		vtest.Equal(r, "the row: To", row.To, vtest.AnaMasked)
		vtest.Equal(r, "the row: VerificationID", row.VerificationID, last)
	})
}

// wantBlocked fails the test unless only the rule failures refuses Ana, with this wait.
func wantBlocked(r *vtest.Rig, wait time.Duration) {
	r.Helper()
	for _, purpose := range []string{"default", "login"} {
		d := r.RefuseTo(vtest.Ana, vtest.For(purpose)).Quota
		r.WantBlockedBy(d, "failures", wait)
		r.Want("left", vtest.Remaining(d), "[1000 0]")
		r.WantBlockedBy(r.QuotaOf(purpose), "failures", wait)
	}
	r.SendTo("bo@example.com")
}

func TestQuota15TwentyFailuresADay(t *testing.T) {
	day := 24 * time.Hour
	vtest.EachInBubble(t, map[string]func(r *vtest.Rig){
		"as ever":            func(*vtest.Rig) {},
		"flushed":            func(r *vtest.Rig) { r.ReplaceLimiter() },
		"away":               (*vtest.Rig).LoseLimiter,
		"back after a flush": func(r *vtest.Rig) { r.LoseLimiter(); r.Sleep(2 * time.Minute); r.ReplaceLimiter() },
	}, vtest.MinuteTick(vtest.BoundFailures), func(r *vtest.Rig, before func(r *vtest.Rig)) {
		r.FailSends(vtest.MaxFailures - 1)
		r.WantQuota("one is left", r.QuotaOf(""), "[1000]", 0)
		r.FailSends(1)
		began := time.Now()
		before(r)
		spent := time.Since(began)
		wantBlocked(r, day-vtest.MaxFailures*time.Minute-spent)
		r.Sleep(day - vtest.MaxFailures*time.Minute - spent - time.Microsecond)
		wantBlocked(r, time.Microsecond)
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.WantQuota("afterwards", r.QuotaOf(""), "[999]", 0)
	})
}

// A failure that could not be recorded in the limiter is recorded when the limiter is back, with
// its original time.
func TestFailureWhileTheLimiterIsAway(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures - 1)
		r.LoseLimiter()
		r.FailSends(1)
		r.Sleep(time.Minute)
		r.Limiter.Intercept(nil)
		r.Sleep(2 * time.Second)
		d := r.QuotaOf("")
		r.Want("violated", d.Violated(), "[failures]")
		for window, n := range map[time.Duration]int{122 * time.Second: 0, 123 * time.Second: 1} {
			d, err := r.Limiter.Peek(r.Context(), quota.Request{
				Rules:   []quota.Rule{{Scope: policy.FailuresScope, Limit: 1, Window: window}},
				Buckets: map[quota.Scope]string{policy.FailuresScope: buckets.Failures("shop", "email", r.AnaTarget().Recipient)},
			})
			r.NoError(err)
			r.Want("within "+window.String(), d.Rules[0].Used, n)
		}
	})
}

func TestFailuresThatAreOnlyObserved(t *testing.T) {
	observed := func(s *vtest.Settings) {
		vtest.BoundFailures(s)
		for _, p := range s.Purposes {
			p.Policy.Rules[1].Limit, p.Policy.Rules[1].Observe = 2, true
		}
	}
	vtest.InForms(t, observed, func(r *vtest.Rig) {
		r.FailSends(4)
		r.WantObserved(nil, nil, []string{"failures"}, []string{"failures"})
		r.WantQuota("a look", r.QuotaOf(""), "[1000]", 0)
	})
}
