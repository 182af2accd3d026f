package gates_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/gates"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// The limiter may lose all events at any time. Then the database decides, and its events are added
// to the limiter. If they cannot be added, the answer is the database's.
func TestDatabaseIsTheSecondGate(t *testing.T) {
	for name, c := range map[string]struct {
		intercept vtest.Interceptor
		learns    bool
	}{
		"flushed":             {nil, true},
		"refuses the history": {vtest.Unreachable("Record"), false},
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
			r.Limiter.Set(quota.NewMemory(time.Now))
			r.Limiter.Intercept(c.intercept)
			r.WantQuota(name, r.RefuseTo(vtest.Ana).Quota, "[0 4 9]", 50*time.Second)
			if c.learns {
				r.WantCounted("after the refusal", 1)
				r.WantQuota("a look", r.QuotaOf(""), "[0 4 9]", 50*time.Second)
				r.Sleep(50 * time.Second)
				r.SendTo(vtest.Ana)
			}
		})
	}
}

// The database may go back in time, for example to a backup. Events that only the limiter has from
// then on count together with later sends, exactly until their windows end.
func TestTheLimiterIsTheSecondGate(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		for range 4 {
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
		}
		r.NoError(r.Store.SetBack(time.Now().Add(-time.Hour)))
		r.WantQuota("a look", r.QuotaOf(""), "[1 1]", 0)
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		const wait = time.Hour - 100*time.Second
		r.WantBlockedBy(r.RefuseTo(vtest.Ana).Quota, "hour", wait)
		r.Sleep(wait - time.Microsecond)
		r.RefuseTo(vtest.Ana)
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
	})
}

// If the database could not write a send, the send has no row and is refunded in the limiter. The
// refund is repeated until the limiter answers, even after minutes, because the send would
// otherwise count for an hour and a day.
func TestPlaceIsGivenBackUntilTheLimiterAnswers(t *testing.T) {
	for name, disturb := range map[string]func(*vtest.Rig){
		"answers":           func(*vtest.Rig) {},
		"answers at last":   (*vtest.Rig).LoseFirstRefund,
		"answers no refund": func(r *vtest.Rig) { r.Limiter.Intercept(vtest.Unreachable("Refund")) },
		"is away too":       (*vtest.Rig).LoseLimiter,
	} {
		vtest.InBubbleWith(t, vtest.DefaultTick(nil), func(r *vtest.Rig) {
			disturb(r)
			r.LoseStore()
			r.WantError(r.SendError(vtest.AskFor(vtest.Ana)), fault.Unavailable)
			r.EndStoreFaults()
			r.Sleep(3 * time.Minute)
			r.Limiter.Intercept(nil)
			r.Sleep(5 * time.Second)
			r.WantCounted(name, 0)
			r.SendTo(vtest.Ana)
			if rows := r.Rows(); len(rows) != 1 {
				t.Errorf("%s: %d rows", name, len(rows))
			}
		})
	}
}

func TestRefusalsAreRecordedAfterDatabaseOutage(t *testing.T) {
	vtest.InBubbleWith(t, vtest.DefaultTick(nil), func(r *vtest.Rig) {
		want := func(what string, count int, wait time.Duration) {
			t.Helper()
			row := r.RowBlockedBy("minute", "email", vtest.Ana)
			vtest.Equal(r, what+": Count", row.Count, count)
			vtest.Equal(r, what+": To", row.To, vtest.AnaMasked)
			vtest.Equal(r, what+": RetryAfter", row.RetryAfter, wait)
			vtest.Equal(r, what+": Network", row.Network, "192.0.2.0/24")
		}
		r.SendTo(vtest.Ana)
		for range 30 {
			r.RefuseTo(vtest.Ana)
		}
		r.Sleep(2 * time.Second)
		want("before", 30, time.Minute)
		r.LoseStore()
		r.RefuseTo(vtest.Ana)
		r.Sleep(5 * time.Second)
		r.RefuseTo(vtest.Ana)
		r.EndStoreFaults()
		r.Sleep(6 * time.Second) // an open row is written once in five seconds
		want("after the absence", 32, 53*time.Second)
	})
}

// A send that the database refuses is refunded in the network's bucket before the answer.
func TestDatabaseRefusalIsRefundedForNetwork(t *testing.T) {
	vtest.InBubbleWith(t, vtest.AlsoRules(quota.Rule{Name: "net", Scope: quota.IP, Limit: 9, Window: time.Minute}), func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.ReplaceLimiter()
		r.WantQuota("a refusal", r.RefuseTo(vtest.Ana).Quota, "[0 4 9 9]", time.Minute)
		r.ReplaceLimiter()
		r.Limiter.Intercept(vtest.Unreachable("Record"))
		r.WantQuota("when the limiter does not take the history", r.RefuseTo(vtest.Ana).Quota, "[0 4 9 9]", time.Minute)
	})
}

// Without the limiter the database decides. Once the limiter is back, the sends that were made
// without it are added to it, and reads are exact again.
func TestDatabaseDecidesAlone(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana) // sent before the outage
		r.Sleep(10 * time.Second)
		r.LoseLimiter()
		r.WantQuota("a refusal alone", r.RefuseTo(vtest.Ana).Quota, "[0 4 9]", 50*time.Second)
		r.Sleep(50*time.Second - time.Microsecond)
		r.RefuseTo(vtest.Ana)
		r.Sleep(time.Microsecond)
		r.WantQuota("a success alone", r.SendTo(vtest.Ana).Quota, "[0 3 8]", time.Minute)
		r.WantQuota("looking alone", r.QuotaOf(""), "[0 3 8]", time.Minute)
		r.Sleep(10 * time.Second)
		r.ReplaceLimiter()
		r.Sleep(2 * time.Second)
		d := r.QuotaOf("")
		r.WantQuota("looking when it is back", d, "[0 3 8]", 48*time.Second)
		r.RefuseTo(vtest.Ana)
		r.Sleep(48 * time.Second)
		r.SendTo(vtest.Ana)
	})
}

// At 20 requests a second for 20 s, a request waits for a silent limiter only if it came before the
// first request had timed out.
func TestSendsDoNotWaitForASilentLimiter(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		var calls, late atomic.Int64
		r.Limiter.Intercept(func(ctx context.Context, _ string, _ func() error) error {
			calls.Add(1)
			<-ctx.Done()
			return quota.ErrUnavailable
		})
		began := time.Now()
		for n := range 400 {
			asked := time.Now()
			go func() {
				_, err := r.Svc.Send(r.Context(), vtest.AskFor(fmt.Sprintf("n%d@example.com", n)))
				if err != nil || time.Since(asked) > time.Second/2 && asked.Sub(began) > gates.LimiterTimeout {
					late.Add(1)
				}
			}()
			r.Sleep(50 * time.Millisecond)
		}
		r.Sleep(gates.LimiterTimeout)
		vtest.Equal(r, "late; calls, at most 41 of requests, and trials of 3 s each: Load", late.Load(), 0)
		vtest.Equal(r, "late; calls, at most 41 of requests, and trials of 3 s each", calls.Load() <= 41+7, true)
		r.Limiter.Intercept(nil)
		r.Sleep(gates.LimiterTimeout + gates.LimiterRetryDelay)
		vtest.Equal(r, "lines", strings.Count(r.Printed.String(), "Redis away"), 1)
		vtest.Equal(r, "lines", strings.Count(r.Printed.String(), "Redis back"), 1)
	})
}

// ofOneBucket is a limiter that only takes events with one bucket, like a node of a Cluster that
// can't run a script on several keys.
type ofOneBucket struct{ *quota.Memory }

func (o ofOneBucket) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if len(r.Buckets) > 1 {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return o.Memory.Take(ctx, r)
}

// An outage ends when a call that failed succeeds, not when a smaller call succeeds.
func TestOutageEndsWithCallOfSameSize(t *testing.T) {
	rule := quota.Rule{Name: "net", Scope: quota.IP, Limit: 9, Window: time.Minute}
	vtest.InBubbleWith(t, vtest.AlsoRules(rule), func(r *vtest.Rig) {
		r.Limiter.Set(ofOneBucket{quota.NewMemory(time.Now)})
		type outages struct{ away, back int }
		lines := func() outages {
			r.Sleep(5 * time.Second)
			r.QuotaOf("")
			return outages{strings.Count(r.Printed.String(), "Redis away"), strings.Count(r.Printed.String(), "Redis back")}
		}
		r.Want("why away", r.Svc.Gates.WhyAway(), error(nil))
		r.SendTo(vtest.Ana)
		vtest.Equal(r, "lines", lines(), outages{away: 1})
		r.Want("why away", r.Svc.Gates.WhyAway(), quota.ErrUnavailable)
		r.ReplaceLimiter()
		vtest.Equal(r, "lines of one that works", lines(), outages{away: 1, back: 1})
		r.Want("why away", r.Svc.Gates.WhyAway(), error(nil))
	})
}

// If a part of a Cluster is away, that is no outage: calls for the other nodes go on as usual.
func TestClusterNodeThatIsAwayIsNoOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		takes := 0
		r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
			if call != "Take" {
				return do()
			}
			takes++
			return fmt.Errorf("%w: %w", quota.ErrPartly, quota.ErrUnavailable)
		})
		for n := range 3 {
			r.SendTo(vtest.NthAddress(n))
		}
		vtest.Equal(r, "takes", takes, 3)
		r.NoError(r.Svc.Gates.WhyAway())
		r.LoseLimiter()
		r.SendTo(vtest.NthAddress(3))
		r.Want("all of it", r.Svc.Gates.WhyAway(), quota.ErrUnavailable)
		r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "Take" {
				return fmt.Errorf("%w: %w", quota.ErrPartly, quota.ErrUnavailable)
			}
			return do()
		})
		r.Sleep(5 * time.Second)
		r.QuotaOf("")
		r.Want("a part again", r.Svc.Gates.WhyAway(), error(nil))
	})
}

// If a client disconnects during its read, the limiter does not count as unavailable.
func TestClientDisconnectIsNoLimiterOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		calls := map[string]int{}
		r.Limiter.Intercept(func(ctx context.Context, call string, do func() error) error {
			// the client of the first look has hung up before the answer
			if calls[call]++; call == "Peek" && calls[call] == 1 {
				<-ctx.Done()
				return quota.ErrUnavailable
			}
			return do()
		})
		ctx, hangUp := context.WithCancel(r.Context())
		time.AfterFunc(time.Millisecond, hangUp)
		_, _ = r.Svc.Quota(ctx, vtest.BackEnd, "email", "gone@example.com", "")
		r.SendTo(vtest.Ana)
		if calls["Peek"] == 0 || calls["Take"] != 1 || strings.Contains(r.Printed.String(), "Redis away") {
			t.Errorf("%v: %s", calls, r.Printed)
		}
	})
}

// The log has two lines about an outage, however many requests it affects.
func TestLimiterOutageIsLoggedOnceAtEachEnd(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		for round := 1; round <= 2; round++ {
			r.LoseLimiter()
			for n := range 7 {
				if n == 5 {
					r.ReplaceLimiter()
				}
				r.SendTo(fmt.Sprintf("r%d.n%d@example.com", round, n))
				r.Sleep(2 * time.Second) // the limiter is tried again meanwhile
			}
			for _, line := range []string{"Redis away", "Redis back", "sends_decided_by_database=6"} {
				servertest.Same(t, line, strings.Count(r.Printed.String(), line), round)
			}
		}
	})
}

// If nothing can be added to the limiter, the log has one line a minute, not one for each read. The
// answer is the database's.
func TestWhatCannotBeAddedIsLoggedOnceAMinute(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		for minutes := range 2 {
			r.ReplaceLimiter()
			r.Limiter.Intercept(vtest.Unreachable("Record"))
			for range 5 {
				r.Want("left in the hour, by the database", r.QuotaAt(r.Svc).Rules[1].Remaining(), 4)
			}
			r.Want("lines", strings.Count(r.Printed.String(), "could not correct"), minutes+1)
			r.Sleep(time.Minute)
		}
	})
}

// During an outage, this process also counts the events that the limiter admitted before, including
// sends. When the limiter is back, this process still counts the events that it admitted alone. A
// refused send is counted nowhere.
func TestOtherScopesAreKnownAcrossAnOutage(t *testing.T) {
	vtest.InBubbleWith(t, vtest.AlsoRules(quota.Rule{Name: "net", Scope: quota.IP, Limit: 3, Window: time.Minute}), func(r *vtest.Rig) {
		ask := 0
		send := func(admitted bool, wait time.Duration) {
			t.Helper()
			ask++
			to := fmt.Sprintf("a%d@example.com", ask)
			if admitted {
				r.SendTo(to)
				return
			}
			r.WantBlockedBy(r.RefuseTo(to).Quota, "net", wait)
			r.Sleep(time.Second)
		}
		send(true, 0)
		r.RefuseTo("a1@example.com") // refused by its own minute, so it takes no place of the network
		r.Sleep(10 * time.Second)
		r.LoseLimiter()
		send(true, 0)
		r.RefuseTo("a2@example.com") // refused by the database, so its place of the network is free again
		r.Sleep(20 * time.Second)
		send(true, 0)
		send(false, 30*time.Second)
		r.Limiter.Intercept(nil)
		r.Sleep(time.Second)
		send(false, 28*time.Second) // the limiter has counted only the first of the three sends
		send(false, 27*time.Second)
		r.Sleep(26 * time.Second)
		send(true, 0)
		send(false, 10*time.Second)
		r.Sleep(9 * time.Second)
		send(true, 0)
		send(false, 20*time.Second) // the last event of the outage still counts
		r.Sleep(19 * time.Second)
		send(true, 0)
		r.Sleep(time.Minute)
		for range 3 {
			send(true, 0)
		}
		send(false, time.Minute)
	})
}

// A send that the database admitted alone is recorded with its age, even if the limiter's clock
// differs from the database's.
func TestRecordKeepsAgeOfSend(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			server := vtest.NewFakeRedis()
			server.Step(ahead)
			r.Limiter.Set(server)
			r.SendTo(vtest.Ana)
			r.Sleep(time.Minute)
			r.LoseLimiter()
			r.SendTo(vtest.Ana)
			r.Sleep(20 * time.Second)
			r.Limiter.Intercept(nil)
			r.Sleep(10 * time.Second)
			r.WantQuota(ahead.String(), r.Counted(), "[0 3 8]", 30*time.Second)
		})
	}
}

// If this process refuses an event, the event keeps no place in the limiter: neither if the limiter
// counted it and the answer was lost, nor if the limiter did not accept its refund. Only an event
// with Repeated keeps its place. A reset applies to the limiter and to this process.
func TestLocalRefusalIsRefundedInLimiter(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		limiter, g := r.Limiter, r.Svc.Gates
		request := quota.Request{
			Buckets: map[quota.Scope]string{"key:user": "a"},
			Rules:   []quota.Rule{{Name: "only", Scope: "key:user", Limit: 2, Window: time.Minute}},
		}
		take := func(id string) bool {
			of := request
			of.ID, of.Repeated = id, strings.HasPrefix(id, "again")
			d, err := g.TakeOrLocal(t.Context(), of)
			r.Sleep(gates.LimiterRetryDelay)
			return d.Admitted && err == nil
		}
		take("before the outage") // this call must not change the rules, which requests share
		r.Sleep(time.Minute)
		r.LoseLimiter()
		admitted := []bool{take("a"), take("b")}
		limiter.Intercept(nil)
		r.Sleep(gates.LimiterRetryDelay)
		servertest.Same(t, "another process may have admitted a repeated one", take("again"), false)
		counted, err := limiter.Peek(t.Context(), request)
		servertest.OK(t, err)
		servertest.Same(t, "it stays counted", counted.Rules[0].Used, 1)
		servertest.OK(t, limiter.Refund(t.Context(), "again", "a"))
		limiter.Intercept(func(_ context.Context, _ string, do func() error) error {
			return errors.Join(do(), quota.ErrUnavailable)
		})
		admitted = append(admitted, take("c"))
		limiter.Intercept(vtest.Unreachable("Refund"))
		r.Sleep(gates.LimiterRetryDelay)
		admitted = append(admitted, take("d"))
		servertest.Same(t, "admitted", fmt.Sprint(admitted), "[true true false false]")
		servertest.Same(t, "refunds that wait", g.PendingRefunds(), 2)
		servertest.Same(t, "reset", g.Reset(t.Context(), "a"), nil)
		limiter.Intercept(vtest.Unreachable())
		for _, c := range []struct {
			id       string
			admitted bool
		}{{"e", true}, {"f", true}, {"g", false}} {
			servertest.Same(t, c.id+" after a reset", take(c.id), c.admitted)
		}
	})
}

// If a process stops before it would try the limiter again, it still makes its refunds. So no other
// process counts the place of a failed send as taken.
func TestAStopMakesTheRefundsOfAnOutage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		other := r.Replica(r.MailServer)
		r.MailServer.Answer(func(ctx context.Context) error {
			r.Limiter.Intercept(nil)
			r.Want("while it goes out", r.QuotaAt(other).Rules[0].Used, 1) // the row's event is added to the limiter
			return vtest.NoMailbox(ctx)
		})
		r.LoseLimiter()
		r.WantStatus(r.SendTo(vtest.Ana), "failed rejected")
		r.Quit()
		r.Want("after the stop", r.QuotaAt(other).Rules[0].Used, 0)
	})
}

// While the limiter is away, the events that this process counts grow older by this machine's
// clock. A correction of the database's clock makes no place free.
func TestTakeOrLocalFollowsThisMachinesClock(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		correction := time.Duration(0)
		databaseNow := func() time.Time { return time.Now().Add(correction) }
		r.LoseLimiter()
		g := gates.New(r.Limiter, r.Store, policy.NewCurrentSet(r.Settings.Set, databaseNow), func() {}, databaseNow, time.Now,
			r.Logger)
		defer g.Stop()
		rule := quota.Rule{Name: "rule", Scope: quota.IP, Limit: 1, Window: 2 * time.Second}
		take := func(id string) bool {
			d, err := g.TakeOrLocal(r.Context(), quota.Request{
				ID: id, Rules: []quota.Rule{rule}, Buckets: map[quota.Scope]string{quota.IP: "bucket"},
			})
			r.NoError(err)
			return d.Admitted
		}
		vtest.Equal(r, "first", take("a"), true)
		correction = 2 * time.Second
		vtest.Equal(r, "after the correction", take("b"), false)
		r.Sleep(rule.Window)
		vtest.Equal(r, "after the window", take("c"), true)
	})
}
