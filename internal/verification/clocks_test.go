package verification_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// skewed is a limiter whose clock can be set.
func skewed() (*quota.Memory, *atomic.Int64) {
	offset := new(atomic.Int64)
	return quota.NewMemory(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }, "redis"), offset
}

// A limiter whose clock jumps ahead lets in too early; the database does not, and the answer tells
// the database's wait.
func TestDatabaseBoundsALimiterThatRunsAhead(t *testing.T) {
	vtest.EachInBubble(t, map[string]bool{"taught": true, "not to be taught": false}, nil,
		func(r *vtest.Rig, teachable bool) {
			memory, offset := skewed()
			r.Limiter.Set(memory)
			if !teachable {
				r.Limiter.Around(vtest.Unreachable("Record", "Events"))
			}
			r.SendTo(vtest.Ana)
			r.Sleep(55 * time.Second)
			offset.Store(int64(5 * time.Second))
			r.WantQuota("5 s early", r.RefuseTo(vtest.Ana).Quota, "[0 4 9]", 5*time.Second)
			r.Sleep(5*time.Second - time.Microsecond)
			r.WantWait(r.RefuseTo(vtest.Ana).Quota, time.Microsecond)
			r.Sleep(time.Microsecond)
			r.SendTo(vtest.Ana)
		})
}

// Every wait that is told after a step of the limiter's clock is that of the database: a send 1 µs
// before its end is refused, and one at its end is admitted. It is the same whether a refusal, a
// look or an admitted send tells it, and when the clock goes back.
func TestWaitsAreTrueAfterASteppedClock(t *testing.T) {
	steps := map[string][]time.Duration{}
	for _, by := range []time.Duration{-25 * time.Hour, -time.Hour, -300 * time.Second, -30 * time.Second,
		-5 * time.Second, 5 * time.Second, 300 * time.Second,
		time.Hour, 25 * time.Hour} {
		steps[by.String()] = []time.Duration{by, -by}
	}
	for _, looks := range []bool{true, false} {
		for _, failover := range []bool{true, false} {
			vtest.EachInBubble(t, steps, vtest.MinuteTick(nil), func(r *vtest.Rig, steps []time.Duration) {
				server := vtest.NewFakeRedis("redis")
				r.Limiter.Set(server)
				step := func(by time.Duration) {
					if server.Step(by); failover {
						server.FailOver(0)
					}
				}
				told := func(what, left string, wait time.Duration) {
					r.T.Helper()
					if looks {
						r.WantQuota(what+": a look", r.QuotaOf(""), left, wait)
					}
					refusal := r.RefuseTo(vtest.Ana).Quota
					r.WantQuota(what+": a refusal", refusal, left, wait)
					r.Want(what+": how far the instant is from the database's clock",
						time.Until(refusal.At).Truncate(time.Second), time.Duration(0))
				}
				waits := func(what, left string, wait time.Duration) {
					r.T.Helper()
					told(what, left, wait)
					r.Sleep(wait - time.Microsecond)
					told(what+", at its end", left, time.Microsecond)
					r.Sleep(time.Microsecond)
				}
				r.SendTo(vtest.Ana)
				r.QuotaOf("") // marks the bucket
				r.Sleep(10 * time.Second)
				step(steps[0])
				waits("after the step", "[0 4 9]", 50*time.Second)
				r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[0 3 8]", time.Minute)
				r.Sleep(10 * time.Second)
				step(steps[1])
				waits("back again", "[0 3 8]", 50*time.Second)
				for left := 2; left > 0; left-- {
					r.SendTo(vtest.Ana)
					r.Sleep(time.Minute)
				}
				step(steps[0])
				r.WantQuota("the fifth", r.SendTo(vtest.Ana).Quota, "[0 0 5]", time.Hour-4*time.Minute)
				r.Sleep(90 * time.Second)
				waits("for the hour", "[1 0 5]", time.Hour-330*time.Second)
				step(steps[1])
				r.WantQuota("the sixth", r.SendTo(vtest.Ana).Quota, "[0 0 4]", time.Minute)
			})
		}
	}
}

// What has left by the database's clock has left, also where the limiter's clock was set back and
// an admitted send is the first to tell.
func TestWhatHasLeftCountsNoMoreAfterAStepBack(t *testing.T) {
	setBack := func(r *vtest.Rig, by, then time.Duration) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Sleep(40 * time.Minute)
		r.SendTo(vtest.Ana)
		server.Step(-by)
		r.Sleep(then)
	}
	vtest.InBubbleWith(t, vtest.MinuteTick(nil), func(r *vtest.Rig) {
		setBack(r, 5*time.Minute, 22*time.Minute)
		r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[0 3 7]", time.Minute)
	})
	// no rule is longer
	vtest.InBubbleWith(t, vtest.MinuteTick(vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5,
		Window: time.Hour})), func(r *vtest.Rig) {
		setBack(r, time.Hour, time.Hour+time.Second)
		r.WantQuota("a look", r.QuotaOf(""), "[5]", 0)
		r.WantQuota("a send", r.SendTo(vtest.Ana).Quota, "[4]", 0)
	})
}

// A clock that is set back while a bucket is compared or written makes no wait untrue, and soon the
// limiter has the right instants.
func TestWaitsAreTrueAfterAStepBackDuringALook(t *testing.T) {
	for _, during := range []string{"Events", "Record"} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			server := vtest.NewFakeRedis("redis")
			r.Limiter.Set(server)
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
			server.Flush()
			r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
				if call == during {
					r.Limiter.Around(nil)
					server.Step(-time.Hour)
				}
				return do()
			})
			r.WantQuota("a look", r.QuotaOf(""), "[0 4 9]", 50*time.Second)
			r.Sleep(time.Second)
			r.WantQuota("another", r.QuotaOf(""), "[0 4 9]", 49*time.Second)
			r.WantQuota("the limiter", r.Counted(), "[0 4 9]", 49*time.Second)
		})
	}
}

// sendAfterStep sends, and once more after a step of the limiter's clock, under one rule of an
// hour.
func sendAfterStep(t *testing.T, limit int, wait, step time.Duration, check func(*vtest.Rig, verification.Answer)) {
	t.Helper()
	rule := quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: limit, Window: time.Hour}
	vtest.InBubbleWith(t, vtest.WithRules(rule), func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Sleep(wait)
		server.Step(step)
		a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
		r.NoError(err)
		check(r, a)
	})
}

// An event that the limiter counts from a later instant, since its clock was set back, leaves when
// the database says.
func TestAnAdmittedSendTellsWhenTheOldestLeaves(t *testing.T) {
	sendAfterStep(t, 5, 4*time.Minute, -5*time.Minute, func(r *vtest.Rig, a verification.Answer) {
		r.Want("until the oldest leaves", a.Quota.Rules[0].ResetAfter, 56*time.Minute)
	})
}

// An event that the limiter counts from an earlier instant, since its clock was set ahead, is moved
// by the next send.
func TestAnAdmittedSendMovesAnEventThatWouldLeaveTooEarly(t *testing.T) {
	sendAfterStep(t, 2, 10*time.Minute, 10*time.Minute, func(r *vtest.Rig, _ verification.Answer) {
		r.WantWait(r.Counted(), 50*time.Minute)
	})
}

// Failures, which the database has on its own clock, are written to the limiter by their ages.
func TestFailuresAreTaughtOnTheLimitersClock(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		server := vtest.NewFakeRedis("redis")
		server.Step(time.Hour)
		r.Limiter.Set(server)
		r.FailSends(1)
		server.Flush()
		r.QuotaOf("")
		r.Want("until the failure leaves", r.CountedFailures().ResetAfter, 24*time.Hour-time.Minute)
	})
}

// Over the turn of a day, too. The limiter learns the history by its own clock: what it has to
// itself it keeps.
func TestDatabaseBoundsALimiterThatIsInTheNextDay(t *testing.T) {
	daily := vtest.WithRules(quota.Rule{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day})
	vtest.InBubbleWith(t, vtest.MinuteTick(daily), func(r *vtest.Rig) { // starts at midnight
		memory, offset := skewed()
		r.Limiter.Set(memory)
		r.SendTo(vtest.Ana)
		r.Sleep(24*time.Hour - 5*time.Second)
		offset.Store(int64(5 * time.Second))
		r.WantQuota("5 s early", r.RefuseTo(vtest.Ana).Quota, "[0]", 4*time.Second)
		r.Sleep(4 * time.Second)
		r.SendTo(vtest.Ana)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 24*time.Hour-4*time.Second)
	})
}

// The history that the database teaches is placed by its ages on the limiter's clock, also where
// the database sees that clock corrected.
func TestHistoryIsTaughtOnTheLimitersClock(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		ahead := func() *quota.Memory {
			return quota.NewMemory(func() time.Time { return time.Now().Add(time.Hour) }, "redis")
		}
		r.Limiter.Set(ahead())
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.Limiter.Set(ahead())
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 50*time.Second)
		r.WantWait(r.QuotaOf(""), 50*time.Second)
	})
}

// hasty lets in what its memory would refuse, as a limiter does for which others take a place a
// moment later.
type hasty struct{ *quota.Memory }

func (h hasty) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := h.Memory.Take(ctx, r)
	d.Admitted = true
	return d, err
}

// Where the limiter knows of more than the database does, its wait is the longer one, and is told.
func TestTheLongerWaitIsTold(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		memory := quota.NewMemory(time.Now, "redis")
		r.Limiter.Set(hasty{memory})
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		buckets := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)
		between := []quota.Event{{ID: "between the gates", At: time.Now()}}
		if err := memory.Record(r.Context(), buckets[quota.Recipient], 24*time.Hour, between); err != nil {
			t.Fatal(err)
		}
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, time.Minute)
	})
}
