package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/deliver/webhook"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func TestEventsAreDeliveredAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		d, stop := r.replica("shop")
		defer stop()
		first := r.writeEvent("shop")
		d.Wake()
		synctest.Wait() // no time has passed: the event did not wait for a tick
		r.wantState(first, store.EventDelivered, 1)
		second, other := r.writeEvent("shop"), r.writeEvent("no receiver")
		r.Sleep(webhook.Tick) // an event of another replica, which can't wake this one, is found at the next tick
		r.wantState(second, store.EventDelivered, 1)
		r.wantState(other, store.EventPending, 0)
		vtest.Equal(r, "attempts, and what is observed of them", len(r.posts), 2)
		vtest.Equal(r, "attempts, and what is observed of them", r.Metrics.Take("attempted shop delivered"), 2)
		vtest.Equal(r, "attempts, and what is observed of them", r.Metrics.Take("attempted no receiver retried"), 0)
	})
}

// The waits grow to four hours. Each is changed at random by at most a quarter.
func TestBackoffGrowsToFourHours(t *testing.T) {
	for n, want := range []time.Duration{
		1: 5 * time.Second, 20 * time.Second, 80 * time.Second, 7: 4 * time.Hour, 8: 4 * time.Hour, 100: 4 * time.Hour,
	} {
		for share, random := range map[time.Duration]func(time.Duration) time.Duration{
			3: func(time.Duration) time.Duration { return 0 },
			5: func(most time.Duration) time.Duration { return most },
		} {
			d := webhook.New(webhook.Settings{}, webhook.Dependencies{Random: random})
			if got := webhook.Backoff(d, n); want != 0 && got != want*share/4 {
				t.Errorf("after attempt %d it waits %v, want %v", n, got, want*share/4)
			}
		}
	}
}

func TestDelivererTriesForADay(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.tick = time.Minute
		_, stop := r.replica("shop")
		defer stop()
		r.setReceiver("shop", always(http.StatusInternalServerError))
		id := r.writeEvent("shop")
		r.Sleep(29 * time.Hour)
		n := len(r.posts)
		if last := r.posts[n-1].at; n < 9 || n > 14 || last > webhook.Life || last < 17*time.Hour {
			t.Errorf("%d attempts, the last after %v", n, last)
		}
		r.wantState(id, store.EventGivenUp, n)
		vtest.Equal(r, "the answer", r.event(id).Answer, "500")
		vtest.Equal(r, "given up", r.Metrics.Take("attempted shop given_up"), 1)
		vtest.Equal(r, "retried", r.Metrics.Take("attempted shop retried"), n-1)
		if !strings.Contains(r.Printed.String(), `level=ERROR msg="webhook event given up" event=`+id.String()) {
			t.Errorf("no line says so: %s", r.Printed)
		}
	})
}

func TestDelivererFollowsRetryAfterAndGone(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, stop := r.replica("shop", "gone")
		defer stop()
		r.setReceiver("shop", always(http.StatusServiceUnavailable, "Retry-After", "600"))
		r.setReceiver("gone", always(http.StatusGone))
		id, gone := r.writeEvent("shop"), r.writeEvent("gone")
		r.Sleep(10 * time.Minute)
		r.wantState(id, store.EventPending, 1)
		r.wantState(gone, store.EventGivenUp, 1)
		r.Sleep(2 * webhook.Tick)
		r.wantState(id, store.EventPending, 2)
		// After a 410, the app's next event is still tried, because only the operator removes a
		// webhook URL.
		r.setReceiver("gone", nil)
		next := r.writeEvent("gone")
		r.Sleep(webhook.Tick)
		r.wantState(next, store.EventDelivered, 1)
	})
}

// A receiver that does not answer gets fewer and fewer attempts at once, down to one. Events of
// other apps do not wait for it.
func TestDelivererOfADeadReceiverDelaysNoOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		d, stop := r.replica("dead", "shop")
		defer stop()
		r.setReceiver("dead", hang)
		for range 200 {
			r.writeEvent("dead")
		}
		d.Wake()
		synctest.Wait()
		servertest.Same(t, "attempts under way", r.count("dead"), webhook.MaxShare)
		for range 40 {
			id := r.writeEvent("shop")
			d.Wake()
			synctest.Wait()
			r.wantState(id, store.EventDelivered, 1)
			r.Sleep(time.Second)
		}
		before := r.count("dead")
		r.Sleep(10 * webhook.AttemptTimeout)
		if n := r.count("dead") - before; n < 9 || n > 11 {
			t.Errorf("%d attempts in the time of ten, one after the other", n)
		}
		// The receiver answers again. Soon all events have arrived, some of them after their wait.
		r.setReceiver("dead", nil)
		r.Sleep(15 * time.Minute)
		events, err := r.Store.AppEvents(r.Context(), store.AppEventFilter{App: "dead", State: store.EventDelivered, Limit: 200})
		if err != nil || len(events) != 200 {
			t.Errorf("%d arrived, %v", len(events), err)
		}
	})
}

// If more events wait than there is room for, each arrival makes room for the next event at once.
// That event does not wait for a tick.
func TestDelivererWorksOffABacklog(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.setReceiver("shop", after(func() { time.Sleep(10 * time.Millisecond) }))
		for range 10 * webhook.MaxShare {
			r.writeEvent("shop")
		}
		_, stop := r.replica("shop")
		defer stop()
		r.Sleep(100 * time.Millisecond)
		servertest.Same(t, "arrived", r.Metrics.Take("attempted shop delivered"), 10*webhook.MaxShare)
	})
}

// If a process dies in an attempt, another process delivers the event, with the same ID, when the
// lease has expired.
func TestDelivererTakesOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.setReceiver("shop", after(func() { <-release }))
		_, stopDead := r.replica("shop")
		id := r.writeEvent("shop")
		r.Sleep(2 * webhook.Tick)
		r.setReceiver("shop", nil)
		_, stop := r.replica("shop")
		r.Sleep(webhook.Lease - 3*webhook.Tick)
		r.wantState(id, store.EventPending, 1)
		r.Sleep(3 * webhook.Tick)
		r.wantState(id, store.EventDelivered, 2)
		delivered := r.event(id)
		close(release) // the answer to the dead process comes too late
		r.Sleep(webhook.Tick)
		if e := r.event(id); e != delivered || len(r.posts) != 2 || r.Metrics.Take("attempted shop delivered") != 1 ||
			r.posts[0].id != r.posts[1].id {
			t.Errorf("%+v %v", e, r.posts)
		}
		stop()
		stopDead()
	})
}

// A stop waits at most maxStopWait for the attempts under way. If it cancels an attempt, another
// replica tries the event again at once.
func TestDelivererHandsBackAtItsStop(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.setReceiver("shop", after(func() { time.Sleep(2 * time.Second) }))
		r.setReceiver("slow", hang)
		id, slow := r.writeEvent("shop"), r.writeEvent("slow")
		_, stop := r.replica("shop", "slow")
		began := time.Now()
		stop()
		servertest.Same(t, "stopped after", time.Since(began), webhook.StopWait)
		r.wantState(id, store.EventDelivered, 1)
		r.wantState(slow, store.EventPending, 1)
		r.setReceiver("slow", nil)
		_, stopOther := r.replica("slow")
		r.wantState(slow, store.EventDelivered, 2)
		stopOther()
	})
}

func TestDelivererWithoutTheDatabase(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, stop := r.replica("shop")
		defer stop()
		id := r.writeEvent("shop")
		r.FailStore(sqlitetest.Down, "LeaseDueAppEvents", "ForgetAppEvents")
		r.Sleep(time.Minute)
		servertest.Same(t, "attempts without a lease", len(r.posts), 0)
		r.FailStore(sqlitetest.Down, "EndAppEventAttempt")
		r.Sleep(2 * webhook.Tick)
		r.EndStoreFaults()
		r.wantState(id, store.EventPending, 1)
		r.Sleep(webhook.Lease + webhook.Tick) // the event arrived, but this was not recorded, so it arrives again
		r.wantState(id, store.EventDelivered, 2)
		if len(r.posts) != 2 || r.posts[0].id != r.posts[1].id {
			t.Errorf("%v", r.posts)
		}
	})
}

func TestChangeSettings(t *testing.T) {
	inBubble(t, func(r *rig) {
		d, stop := r.replica("shop")
		d.ChangeSettings(webhook.Settings{})
		id := r.writeEvent("shop")
		r.Sleep(time.Minute)
		r.wantState(id, store.EventPending, 0)
		d.ChangeSettings(endpoints("shop"))
		synctest.Wait()
		r.wantState(id, store.EventDelivered, 1)

		stop()

		// After a week without a receiver, the event is given up. The row stays for another week.
		r.tick = time.Hour
		_, stop = r.replica()
		defer stop()
		lost := r.writeEvent("shop")
		r.Sleep(webhook.Keep + 2*webhook.Sweep)
		r.wantState(lost, store.EventGivenUp, 0)
		r.Want("given up", r.Metrics.Take("attempted  given_up"), 1)
		r.Sleep(webhook.Keep + 2*webhook.Sweep)
		if events, err := r.Store.AppEvents(r.Context(), store.AppEventFilter{Limit: 200}); err != nil || len(events) != 0 {
			t.Errorf("%d are kept, %v", len(events), err)
		}
	})
}

// forgetful is a database of which only ForgetAppEvents is called. The nth call deletes steps[n]
// events, and gives up SweepLimit-steps[n] others.
type forgetful struct {
	webhook.Database
	steps []int
}

func (f *forgetful) ForgetAppEvents(context.Context, time.Duration, int) (int, int, error) {
	n := f.steps[0]
	f.steps = f.steps[1:]
	return n, webhook.SweepLimit - n, nil
}

// One run goes through all old events, in several steps.
func TestSweepEventsInSteps(t *testing.T) {
	db := &forgetful{steps: []int{webhook.SweepLimit, 0, webhook.SweepLimit, webhook.SweepLimit, 7}}
	r := vtest.NewRig(t, nil)
	d := r.Svc.Webhooks
	d.DB = db
	webhook.SweepEvents(d, t.Context())
	vtest.Equal(r, "steps left", len(db.steps), 0)
	vtest.Equal(r, "given up", r.Metrics.Take("attempted  given_up"), 2*webhook.SweepLimit-7)
}
