package verification_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// The code 5.7.1 refuses the sender, and says nothing about the mailbox.
var badReputation = vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.7.1")

func callers(r *vtest.Rig) map[store.Class]verification.Request {
	return map[store.Class]verification.Request{
		store.SecretKeyClass: vtest.AskFor(vtest.Ana),
		store.KnownBrowser:   byBrowser(vtest.Ana, presenting(knownBrowser(r))),
		store.StrangerClass:  byBrowser(vtest.Ana),
	}
}

// failMany lets n sends fail with an answer of the mail server, a second apart.
func failMany(r *vtest.Rig, n int, ask verification.Request, answer func(context.Context) error) {
	r.Helper()
	for range n {
		r.MailServer.Answer(answer)
		a := r.Send(ask)
		r.Sleep(time.Second)
		if row := r.Get(a.View.ID); row.Send.Status != store.Failed {
			r.Fatalf("the send is %s", row.Send.Status)
		}
	}
}

// withBoundedFailures bounds failures, and makes jobs run only once a minute.
var withBoundedFailures = vtest.MinuteTick(vtest.BoundFailures)

// In both gates, strangers may use only half of the rule on failures. The other half is for secret
// keys and known browsers.
func TestStrangersStopAtHalfOfTheFailures(t *testing.T) {
	vtest.EachInBubble(t, map[string]func(*vtest.Rig){
		"both gates": func(*vtest.Rig) {}, "the database alone": (*vtest.Rig).LoseLimiter,
		"flushed": func(r *vtest.Rig) { r.ReplaceLimiter() },
	}, withBoundedFailures, func(r *vtest.Rig, before func(*vtest.Rig)) {
		by := callers(r)
		failMany(r, vtest.MaxFailures/2, by[store.StrangerClass], vtest.NoMailbox)
		before(r)
		r.Want("strangers", r.Refuse(by[store.StrangerClass]).Quota.Violated(), "[failures]")
		r.Want("a back end for a stranger", r.RefuseTo(vtest.Ana, vtest.By(vtest.ForStranger)).Quota.Violated(), "[failures]")
		failMany(r, 1, by[store.KnownBrowser], vtest.NoMailbox)
		failMany(r, vtest.MaxFailures/2-1, by[store.SecretKeyClass], vtest.NoMailbox)
		r.Want("secret keys, at the total", r.Refuse(by[store.SecretKeyClass]).Quota.Violated(), "[failures]")
		r.Want("known browsers, at the total", r.Refuse(by[store.KnownBrowser]).Quota.Violated(), "[failures]")
	})
}

// Sends that failed by our own fault count for an hour, each class by itself: 20 failures of one
// class cause no refusal of another class, whether the limiter answers or not.
func TestBackoffIsOfOneClass(t *testing.T) {
	for _, class := range store.Classes {
		for name, away := range map[string]bool{"limiter": false, "limiter away": true} {
			vtest.InBubbleWith(t, withBoundedFailures, func(r *vtest.Rig) {
				by := callers(r)
				if away {
					r.LoseLimiter()
				}
				failMany(r, policy.BackoffRule.Limit, by[class], badReputation)
				refused := r.Refuse(by[class]).Quota
				r.Want(name+", "+class.Name(), refused.Violated(), []string{"backoff"})
				r.Want("wait", refused.RetryAfter() > time.Hour-5*time.Minute-time.Minute && refused.RetryAfter() <= time.Hour, true)
				for _, other := range store.Classes {
					if other != class {
						failMany(r, policy.BackoffRule.Limit, by[other], badReputation)
						r.Want(other.Name(), r.Refuse(by[other]).Quota.Violated(), "[backoff]")
					}
				}
				r.SendTo("bo@example.com")
				r.Sleep(time.Hour)
				r.Send(by[class])
			})
		}
	}
}

// slowFailures is a database that delays the read of failures.
type slowFailures struct {
	*sqlitetest.DB
	late time.Duration
}

func (s slowFailures) FailedSends(ctx context.Context, q store.FailedSendsQuery) ([]store.FailedSend, time.Time, error) {
	<-time.After(s.late)
	return s.DB.FailedSends(ctx, q)
}

// The answer has the exact state: the wait ends when the oldest failure leaves the window, even if
// the failures are read late. Quota returns the same state. While the rule backoff admits, it is
// not shown.
func TestBackoffIsTold(t *testing.T) {
	vtest.InBubbleWith(t, withBoundedFailures, func(r *vtest.Rig) {
		failMany(r, policy.BackoffRule.Limit-1, vtest.AskFor(vtest.Ana), badReputation)
		r.WantQuota("one is left", r.QuotaOf(""), "[1000]", 0)
		failMany(r, 1, vtest.AskFor(vtest.Ana), badReputation)
		wait := time.Hour - time.Duration(policy.BackoffRule.Limit)*time.Second
		r.WantBlockedBy(r.QuotaOf(""), "backoff", wait)
		r.WantBlockedBy(r.RefuseTo(vtest.Ana).Quota, "backoff", wait)
		const slow = 2 * time.Second
		s := r.ReplicaOn(slowFailures{r.Store, slow}, r.MailServer, r.Carrier)
		r.WantBlockedBy(r.QuotaAt(s), "backoff", wait-slow)
		r.WantBlockedBy(r.AskAt(s, vtest.AskFor(vtest.Ana), false).Quota, "backoff", wait-2*slow)
		r.Sleep(wait - 2*slow - time.Microsecond)
		r.WantBlockedBy(r.RefuseTo(vtest.Ana).Quota, "backoff", time.Microsecond)
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
	})
}

// The first message that is sent to the recipient, for any class, lets all callers try again. So do
// the end of a pause, a reset, and a limiter that lost its data.
func TestBackoffEndsAfterASendPauseResetOrLoss(t *testing.T) {
	for name, c := range map[string]struct{ before, after func(r *vtest.Rig) }{
		"a message was sent": {func(*vtest.Rig) {}, func(r *vtest.Rig) { r.Send(byBrowser(vtest.Ana)) }},
		"a pause is over": {
			func(r *vtest.Rig) { r.Pause(policy.Pause{Channel: recipient.Email}) },
			func(r *vtest.Rig) { r.Pause(policy.Pause{Channel: recipient.SMS}) },
		},
		"a reset": {func(*vtest.Rig) {}, func(r *vtest.Rig) {
			r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		}},
		"flushed": {func(*vtest.Rig) {}, func(r *vtest.Rig) { r.ReplaceLimiter() }},
	} {
		for _, away := range []bool{false, true} {
			if away && (name == "flushed" || name == "a reset") { // these need the limiter
				continue
			}
			vtest.InBubbleWith(t, withBoundedFailures, func(r *vtest.Rig) {
				if away {
					r.LoseLimiter()
				}
				c.before(r)
				for range policy.BackoffRule.Limit {
					r.MailServer.Answer(badReputation)
					r.SendTo(vtest.Ana)
					r.Sleep(time.Second)
				}
				r.MailServer.Accept() // after a pause, the server still has unused answers
				r.Want(name, r.RefuseTo(vtest.Ana).Quota.Violated(), "[backoff]")
				c.after(r)
				if name != "a reset" { // a reset has emptied the limiter before it returns
					r.Sleep(time.Second)
				}
				r.WantQuota(name+": a look", r.QuotaOf(""), vtest.Remaining(r.QuotaOf("")), 0)
				r.WantStatus(r.SendTo(vtest.Ana), "sent")
			})
		}
	}
}

// If the failures can't be read from the database, the limiter's refusal is the answer.
func TestBackoffWithoutTheDatabase(t *testing.T) {
	vtest.InBubbleWith(t, withBoundedFailures, func(r *vtest.Rig) {
		failMany(r, policy.BackoffRule.Limit, vtest.AskFor(vtest.Ana), badReputation)
		r.Sleep(time.Second)
		r.FailStore(sqlitetest.Down, "FailedSends")
		r.Want("refused", r.RefuseTo(vtest.Ana).Quota.Violated(), "[backoff]")
		r.Sleep(time.Second)
		r.Want("a look", r.QuotaOf("").Violated(), "[backoff]")
		r.EndStoreFaults()
	})
}

// Refusals that come at the same time share a read that has not begun.
func TestBackoffSharesReads(t *testing.T) {
	vtest.InBubbleWith(t, withBoundedFailures, func(r *vtest.Rig) {
		failMany(r, policy.BackoffRule.Limit, vtest.AskFor(vtest.Ana), badReputation)
		r.Sleep(time.Second)
		var reads atomic.Int32
		r.Store.SetHook(func(_ context.Context, method string, at sqlitetest.Stage) sqlitetest.Fault { // SetHook, since this waits
			if method == "FailedSends" && at == sqlitetest.Asking {
				reads.Add(1)
				<-time.After(time.Second)
			}
			return sqlitetest.None
		})
		var burst sync.WaitGroup
		for range 30 {
			burst.Go(func() { r.RefuseTo(vtest.Ana) })
		}
		burst.Wait()
		r.Want("reads", reads.Load(), 2)
	})
}

// A failure counts in the scope of failures if it means that the address takes no messages, and
// otherwise in the scope of backoff. An unknown outcome, and a send whose code was canceled, count
// in neither. TestBadAddressAndNoMailbox has the words of mail servers.
func TestFailureScopeOfEachOutcome(t *testing.T) {
	carrier := func(e *delivery.Error) func(r *vtest.Rig) verification.Request {
		return func(r *vtest.Rig) verification.Request { r.Carrier.Fail(e); return vtest.TextTo(vtest.Mobile) }
	}
	mail := func(answer func(context.Context) error) func(r *vtest.Rig) verification.Request {
		return func(r *vtest.Rig) verification.Request { r.MailServer.Answer(answer); return vtest.AskFor(vtest.Ana) }
	}
	failing := func(e *delivery.Error) func(r *vtest.Rig) verification.Request {
		return mail(func(context.Context) error { return e })
	}
	for name, c := range map[string]struct {
		ask               func(r *vtest.Rig) verification.Request
		reason            string
		failures, backoff int // the number of counted failures, by scope
	}{
		"no such mailbox":  {mail(vtest.NoMailbox), "rejected", 1, 0},
		"reputation":       {mail(badReputation), "rejected", 0, 1},
		"a refused sender": {mail(vtest.FailWith(delivery.Rejected, "mail", 550, "5.7.1")), "rejected", 0, 1},
		"a bare 550":       {mail(vtest.FailWith(delivery.Rejected, "rcpt", 550, "")), "rejected", 1, 0},
		"sent":             {mail(func(context.Context) error { return nil }), "", 0, 0},
		"no answer":        {mail(vtest.FailWith(delivery.Unknown, "dot", 0, "")), outbox.ReasonNoAnswer + "", 0, 0},
		"away until the code's end": {failing(&delivery.Error{
			Class: delivery.Temporary, Stage: "dial", RetryAfter: time.Hour,
			Err: errors.New("away"),
		}), outbox.ReasonExpired + "", 0, 1},
		"a template that cannot be filled": {failing(&delivery.Error{
			Class: delivery.Rejected, Stage: "message",
			Reason: delivery.ReasonTemplate,
		}), "template", 0, 1},
		"a number that does not exist": {carrier(&delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StageAnswer,
			About: delivery.AboutAddress,
		}), "rejected", 1, 0},
		"a carrier's refusal": {carrier(&delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StageAnswer,
			Code: "30450",
		}), "rejected", 0, 1},
		"a spend cap": {carrier(&delivery.Error{
			Class: delivery.Rejected, Stage: sms.StageBudget,
			Reason: sms.ReasonSpendCap,
		}), "spend_cap", 0, 1},
		"suppressed": {func(r *vtest.Rig) verification.Request {
			r.MailServer.Answer(vtest.NoMailbox)
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
			return vtest.AskFor(vtest.Ana)
		}, "suppressed", 2, 0},
		"blocked": {func(r *vtest.Rig) verification.Request {
			next := r.Svc.Policies()
			next.Blocks.Domains = map[string]bool{"example.com": true}
			r.Svc.Change(next)
			return vtest.AskFor(vtest.Ana)
		}, "blocked", 0, 1},
		"paused": {func(r *vtest.Rig) verification.Request {
			r.Pause(policy.Pause{Purpose: "default"})
			return vtest.AskFor(vtest.Ana)
		}, "paused", 0, 1},
	} {
		vtest.InBubbleWith(t, func(s *vtest.Settings) { vtest.SuppressBounces(s); vtest.ServeCountries("DE")(s) }, func(r *vtest.Rig) {
			ask := c.ask(r)
			a := r.Send(ask)
			r.Sleep(2 * time.Second)
			v, row, _, err := r.Store.Verification(r.Context(), a.View.ID)
			r.NoError(err)
			count := func(scope quota.Scope, bucket string) int {
				d, err := r.Limiter.Peek(r.Context(), quota.Request{
					Rules:   []quota.Rule{{Name: "n", Scope: scope, Limit: 9, Window: 24 * time.Hour}},
					Buckets: map[quota.Scope]string{scope: bucket},
				})
				r.NoError(err)
				return d.Rules[0].Used
			}
			vtest.Equal(r, name+": Reason", row.Reason, c.reason)
			vtest.Equal(r, name+": failures", count(policy.FailuresScope, buckets.Failures("shop", v.Channel, v.Recipient)), c.failures)
			vtest.Equal(r, name+": backoff",
				count(policy.BackoffScope, buckets.Backoff("shop", v.Channel, v.Recipient, store.SecretKeyClass)), c.backoff)
			h, err := r.Store.ReadHistory(r.Context(), rowrules.HistoryQuery{
				RejectedWithin: 24 * time.Hour,
				SendBucket:     store.SendBucket{App: "shop", Channel: v.Channel, Recipient: v.Recipient},
			})
			r.NoError(err)
			r.Want(name+": in the database", len(h.Rejections), count(policy.FailuresScope, buckets.Failures("shop", v.Channel, v.Recipient)))
		})
	}
	vtest.InBubbleWith(t, withBoundedFailures, func(r *vtest.Rig) { // sends that the caller ended
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "dial", 0, ""))
		a := r.SendTo(vtest.Ana)
		r.Cancel(a.View.ID)
		r.Sleep(2 * time.Minute)
		d, err := r.Limiter.Peek(r.Context(), quota.Request{Rules: []quota.Rule{policy.BackoffRule}, Buckets: map[quota.Scope]string{
			policy.BackoffScope: buckets.Backoff("shop", "email", r.AnaTarget().Recipient, store.SecretKeyClass),
		}})
		r.NoError(err)
		vtest.Equal(r, "ended: Status", r.Status(a), "failed ended")
		vtest.Equal(r, "ended: Used", d.Rules[0].Used, 0)
	})
}

// For an hour the mail server refuses us because of our reputation. Ten people try every four
// minutes, in their browsers and through a back end, and one client in a loop tries twice a minute.
// After the hour, the next try of each person is admitted. The loop waits at most an hour, and does
// not wait once a message to its recipient was sent.
func TestBackoffDuringAnHourOfBadReputation(t *testing.T) {
	vtest.InForms(t, withBoundedFailures, func(r *vtest.Rig) {
		address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}) }
		people := make([]verification.Request, 10)
		for n := range people {
			people[n] = vtest.AskFor(vtest.NthAddress(n))
			if n%2 == 0 {
				people[n] = byBrowser(vtest.NthAddress(n))
				people[n].IP = address(n)
			}
		}
		hammer := byBrowser(vtest.Ana)
		refused := 0
		for at := range 117 { // steps of half a minute, for nearly an hour
			r.MailServer.Answer(badReputation)
			hammer.IP = address(1000 + at)
			a, err := r.Svc.Send(r.Context(), hammer)
			r.NoError(err)
			if !a.Admitted {
				refused++
				r.MailServer.Accept()
			}
			r.Sleep(time.Second)
			if at%8 == 0 {
				for _, ask := range people {
					r.MailServer.Answer(badReputation)
					r.Send(ask)
					r.Sleep(time.Millisecond)
				}
			}
			r.Sleep(29 * time.Second)
		}
		r.Want("a loop reaches the server 20 times in an hour", refused == 117-policy.BackoffRule.Limit, true)
		for _, ask := range people {
			r.WantStatus(r.Send(ask), "sent")
		}
		r.Want("the loop", r.Refuse(hammer).Quota.RetryAfter() <= time.Hour, true)
		r.WantStatus(r.SendTo(vtest.Ana), "sent")
		r.Sleep(time.Second)
		r.WantStatus(r.Send(hammer), "sent")
	})
}

// For an hour the mail server refuses us, or a pause stops sends. 20 tries of each caller fail
// under all rules of a service without settings: of a known browser and a back end for one address,
// and of strangers for four spellings of another mailbox. After the hour, the known browser, a
// stranger in a browser and a back end for a stranger are admitted at once.
func TestBackoffOfRefusalsCostsNothing(t *testing.T) {
	builtIn := vtest.DayTick(func(s *vtest.Settings) {
		s.Set = vtest.BuiltIn()
		s.Apps = map[string]policy.App{"shop": {ReachedByStrangers: true}}
	})
	vtest.EachInForm(t, map[string]struct{ begin, end func(*vtest.Rig) }{
		"refused for what we are": {func(*vtest.Rig) {}, func(*vtest.Rig) {}},
		"a stop": {
			func(r *vtest.Rig) { r.Pause(policy.Pause{Channel: recipient.Email}) },
			func(r *vtest.Rig) { r.Pause() },
		},
	}, builtIn, func(r *vtest.Rig, c struct{ begin, end func(*vtest.Rig) }) {
		known := byBrowser(vtest.Ana, presenting(knownBrowser(r)))
		r.Sleep(24 * time.Hour)
		stranger := vtest.AskFor("ana.maria+3@gmail.com", vtest.By(vtest.ForStranger))
		asks := []verification.Request{
			known, vtest.AskFor(vtest.Ana), byBrowser("ana.maria@gmail.com"), byBrowser("anamaria@gmail.com"),
			byBrowser("ana.maria+2@gmail.com"), stranger,
		}
		c.begin(r)
		for range policy.BackoffRule.Limit {
			for n, ask := range asks {
				r.MailServer.Answer(badReputation)
				ask.IP = netip.AddrFrom4([4]byte{10, byte(n), 0, 1})
				if a := r.Send(ask); !a.Admitted {
					r.Fatalf("%s: %v", ask.To, a.Quota.Violated())
				}
				r.Sleep(time.Second)
			}
			r.Sleep(3*time.Minute - time.Duration(len(asks))*time.Second)
		}
		r.MailServer.Accept()
		c.end(r)
		r.Sleep(time.Second)
		for _, ask := range []verification.Request{known, byBrowser("ana.maria@gmail.com"), stranger, vtest.AskFor("bob@example.com")} {
			r.WantStatus(r.Send(ask), "sent")
			r.Sleep(time.Minute)
		}
	})
}
