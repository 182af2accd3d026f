package verification_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/policy"
	"sendcode/internal/refusals"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// One address over its limit asks for 20,000 codes for as many strangers: that does not fill the log, every request is counted, and
// support finds the first of them. TestRefusalsAreBoundedAndCounted bounds the memory.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	const strangers = 20_000
	office := vtest.AlsoRules(quota.Rule{Name: "office", Scope: quota.IP, Limit: 1, Window: time.Hour})
	vtest.InBubbleWith(t, office, func(r *vtest.Rig) {
		ask := verification.Ask{Caller: vtest.Browser, Channel: "email", To: vtest.Ana, Languages: "de-CH, de;q=0.9", Reference: "not needed"}
		r.Send(ask)
		for i := range strangers {
			ask.To = vtest.NthAddress(i)
			r.Refuse(ask)
			if i%1000 == 0 {
				r.Sleep(time.Second) // batches are written meanwhile
			}
		}
		r.Sleep(3 * time.Second)
		rows := r.Rows()[1:]
		own, shared, requests := storetest.SumRefusals(rows)
		if len(rows) > 190 || own != refusals.FirstOwn || shared != 1 || requests != strangers {
			t.Errorf("%d rows of their own and %d shared stand for %d requests", own, shared, requests)
		}
		for i := range refusals.FirstOwn {
			if found := r.RowsOf(vtest.NthAddress(i)); len(found) != 1 || found[0].BlockedBy != "office" || found[0].Count != 1 {
				t.Fatalf("of stranger %d support finds %+v", i, found)
			}
		}
		if found := r.RowsOf(vtest.NthAddress(refusals.FirstOwn)); len(found) != 0 {
			t.Errorf("of a later stranger there is %+v", found)
		}
		for _, row := range rows {
			if row.Reference != "" || row.Locale != "" && row.Locale != "de-CH" {
				t.Fatalf("a refused row has locale %q and reference %q", row.Locale, row.Reference)
			}
			if row.Recipients > 0 && (row.Count != strangers-refusals.FirstOwn || row.Recipients < strangers*9/10 ||
				row.Recipients > strangers*11/10) {
				t.Errorf("the shared row stands for %d requests and %d recipients", row.Count, row.Recipients)
			}
		}
	})
}

// A request that is refused with a 422, since codes are not sent there, has a row: by the recipient and by the reason.
func TestWhatIsTurnedAwayHasARow(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		s.Blocks.Disposable = map[string]bool{"short.example": true}
		s.Numbers = policy.Numbers{Countries: []string{"DE", "GB"}, RefuseVoIP: true}
	}, func(r *vtest.Rig) {
		us, voip := vtest.TextTo("+12025550123"), vtest.TextTo("+445612345678")
		short := vtest.AskFor("ana.maria@short.example")
		short.Caller, short.Reference = vtest.Browser, "free text"
		for range 3 {
			r.WantInvalid(r.SendError(us), "to", "country_not_served")
			r.WantInvalid(r.SendError(voip), "to", "voip")
			r.WantInvalid(r.SendError(short), "to", "disposable")
		}
		r.Sleep(time.Minute)
		for reason, ask := range map[string]verification.Ask{"country_not_served": us, "voip": voip, "disposable": short} {
			h, err := r.Svc.Desk.Hash(ask.Channel, ask.To)
			r.NoError(err)
			rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: reason, Limit: 10})
			r.NoError(err)
			if len(rows) != 1 || rows[0].Status != store.Refused || rows[0].Count != 3 || rows[0].RetryAfter != 0 || rows[0].Reference != "" ||
				rows[0].To == "" {
				t.Errorf("%s: %+v", reason, rows)
			}
		}
	})
}

// A check that is refused since too many failed leaves a row as well: of a recipient's code one, whatever the number of tries.
func TestARefusedCheckHasARow(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		last := ids[4]
		r.Guess(vtest.Browser, 20, ids[:4]...)
		for range 3 {
			_, err := r.Svc.Check(r.Context(), vtest.Browser, last, r.LastCode())
			if _, many := errors.AsType[*verification.TooManyChecksError](err); !many {
				t.Fatal(err)
			}
		}
		r.Sleep(time.Minute)
		h, err := r.Svc.Desk.Hash("email", vtest.Ana)
		r.NoError(err)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: verification.ChecksRule, Limit: 10})
		r.NoError(err)
		if len(rows) != 1 || rows[0].Count != 3 || rows[0].RetryAfter <= 0 || rows[0].VerificationID != last || rows[0].To != vtest.AnaMasked {
			t.Errorf("%+v", rows)
		}
	})
}

// wantBlocked fails the test unless failures, and nothing else, keep Ana out for so long.
func wantBlocked(r *vtest.Rig, wait time.Duration) {
	r.Helper()
	for _, purpose := range []string{"default", "login"} {
		ask := vtest.AskFor(vtest.Ana)
		ask.Purpose = purpose
		d := r.Refuse(ask).Quota
		if fmt.Sprint(d.Violated()) != "[failures]" || d.RetryAfter() != wait || len(d.Rules) != 2 ||
			d.Rules[1].Used < vtest.MaxFailures || d.Rules[0].Used != 0 {
			r.Errorf("%s: blocked by %v for %v, want %v: %+v", purpose, d.Violated(), d.RetryAfter(), wait, d.Rules)
		}
		if d := r.QuotaOf(purpose); d.RetryAfter() != wait || fmt.Sprint(d.Violated()) != "[failures]" {
			r.Errorf("%s: a look: %+v", purpose, d)
		}
	}
	r.SendTo("bo@example.com")
}

func TestQuota15TwentyFailuresADay(t *testing.T) {
	day := 24 * time.Hour
	for name, before := range map[string]func(r *vtest.Rig){
		"as ever":             func(*vtest.Rig) {},
		"flushed":             func(r *vtest.Rig) { r.EmptyLimiter() },
		"away":                (*vtest.Rig).LoseLimiter,
		"back after a flush":  func(r *vtest.Rig) { r.LoseLimiter(); r.Sleep(2 * time.Minute); r.EmptyLimiter() },
		"in process, rebuilt": func(r *vtest.Rig) { r.EmptyLimiter(); r.Rebuild() },
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.MinuteTick(vtest.BoundFailures), func(r *vtest.Rig) {
				r.FailSends(vtest.MaxFailures - 1)
				if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 || d.Rules[0].Used != 0 {
					t.Errorf("one is left: %+v", d)
				}
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
				if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 {
					t.Errorf("afterwards: %+v", d)
				}
			})
		})
	}
}

// A limiter that starts empty in this process is told of the failures in the log.
func TestRebuildTellsFailures(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures)
		r.EmptyLimiter()
		for _, want := range []int{0, vtest.MaxFailures} {
			if n := r.CountedFailures().Used; n != want {
				t.Errorf("the limiter counts %d failures, want %d", n, want)
			}
			r.Rebuild()
		}
	})
}

// An outcome that is unknown, or not caused by the address, is no failure of the recipient.
func TestQuota15WhatIsNoFailure(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures - 1)
		r.MailServer.Answer(vtest.FailWith(delivery.Unknown, "dot", 0, ""))
		r.SendTo(vtest.Ana)
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1")) // and then taken
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.MailServer.Answer(func(context.Context) error {
			return &delivery.Error{Class: delivery.Temporary, Stage: "dial", RetryAfter: time.Hour, Err: errors.New("after the code's end")}
		})
		if a := r.SendTo(vtest.Ana); r.Status(a) != "failed expired" {
			t.Fatal(r.Status(a))
		}
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		r.FailSends(1)
		r.RefuseTo(vtest.Ana)
	})
}

// A failure that the limiter could not be told of is told once it is back, as old as it is.
func TestFailureWhileTheLimiterIsAway(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures - 1)
		r.LoseLimiter()
		r.FailSends(1)
		r.Sleep(time.Minute)
		r.Limiter.Around(nil)
		r.Sleep(2 * time.Second)
		if d := r.QuotaOf(""); fmt.Sprint(d.Violated()) != "[failures]" || d.Clock != "process" {
			t.Errorf("%+v", d)
		}
		for window, n := range map[time.Duration]int{122 * time.Second: 0, 123 * time.Second: 1} {
			d, err := r.Limiter.Peek(r.Context(), quota.Request{
				Rules:   []quota.Rule{{Scope: quota.Failures, Limit: 1, Window: window}},
				Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket("shop", "email", r.Person().Recipient)},
			})
			if err != nil || d.Rules[0].Used != n {
				t.Errorf("%d within %v, %v", d.Rules[0].Used, window, err)
			}
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
	vtest.InBubbleWith(t, observed, func(r *vtest.Rig) {
		r.FailSends(3)
		r.EmptyLimiter() // the log does not decide it either
		r.FailSends(1)
		r.WantObserved(nil, nil, []string{"failures"}, nil)
		if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 {
			t.Errorf("%+v", d)
		}
		r.LoseLimiter()
		r.FailSends(1)
	})
}
