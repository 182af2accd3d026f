package verification_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// skewed is a limiter whose clock can be set.
func skewed() (*quota.Memory, *atomic.Int64) {
	offset := new(atomic.Int64)
	return quota.NewMemory(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }), offset
}

// A limiter whose clock jumps ahead lets in too early; the database does not, and the answer tells
// the database's wait.
func TestDatabaseBoundsALimiterThatRunsAhead(t *testing.T) {
	vtest.EachInBubble(t, map[string]bool{"taught": true, "not to be taught": false}, nil,
		func(r *vtest.Rig, teachable bool) {
			memory, offset := skewed()
			r.Limiter.Set(memory)
			if !teachable {
				r.Limiter.Around(vtest.Unreachable("Record"))
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

// Over the turn of a day, too, when the clocks are in different periods.
func TestDatabaseBoundsALimiterThatIsInTheNextDay(t *testing.T) {
	daily := vtest.WithRules(quota.Rule{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day})
	vtest.InBubbleWith(t, vtest.MinuteTick(daily), func(r *vtest.Rig) { // starts at midnight
		memory, offset := skewed()
		r.Limiter.Set(memory)
		r.SendTo(vtest.Ana)
		r.Sleep(24*time.Hour - 5*time.Second)
		offset.Store(int64(5 * time.Second))
		r.WantQuota("5 s early", r.RefuseTo(vtest.Ana).Quota, "[0]", 5*time.Second)
		r.Sleep(5 * time.Second)
		r.SendTo(vtest.Ana)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 24*time.Hour)
	})
}

// The database's events are recorded by their ages, on the limiter's clock.
func TestEventsAreRecordedOnTheLimitersClock(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		ahead := func() *quota.Memory {
			return quota.NewMemory(func() time.Time { return time.Now().Add(time.Hour) })
		}
		r.Limiter.Set(ahead())
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		r.Limiter.Set(ahead())
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 50*time.Second)
		r.WantWait(r.Counted(), 50*time.Second)
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
		memory := quota.NewMemory(time.Now)
		r.Limiter.Set(hasty{memory})
		r.SendTo(vtest.Ana)
		r.Sleep(10 * time.Second)
		buckets := vtest.BucketsOf(r.Svc.Terms().Purposes["default"], r.Person().Recipient)
		between := []quota.AgedEvent{{ID: "between the gates"}}
		if err := memory.Record(r.Context(), buckets[quota.Recipient], 24*time.Hour, between); err != nil {
			t.Fatal(err)
		}
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, time.Minute)
	})
}
