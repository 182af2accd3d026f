package webhook

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

func TestEventsAreDeliveredAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		d, stop := r.replica("shop")
		defer stop()
		first := r.happens("shop")
		d.Wake()
		synctest.Wait() // no time has passed: it did not wait for a tick
		r.is(first, store.EventDelivered, 1)
		second, other := r.happens("shop"), r.happens("no receiver")
		pass(tick) // and without a word as well: another replica wrote it
		r.is(second, store.EventDelivered, 1)
		r.is(other, store.EventPending, 0)
		if r.told["shop delivered"] != 2 || len(r.told) != 1 {
			t.Errorf("%v", r.told)
		}
	})
}

// The waits grow to four hours, each changed by at most a quarter.
func TestWaits(t *testing.T) {
	for n, want := range []time.Duration{
		1: 5 * time.Second, 20 * time.Second, 80 * time.Second, 7: 4 * time.Hour, 8: 4 * time.Hour, 100: 4 * time.Hour,
	} {
		for share, random := range map[time.Duration]func(time.Duration) time.Duration{
			3: func(time.Duration) time.Duration { return 0 },
			5: func(most time.Duration) time.Duration { return most },
		} {
			d := New(Settings{}, Parts{Random: random})
			if got := d.backoff(n); want != 0 && got != want*share/4 {
				t.Errorf("after attempt %d it waits %v, want %v", n, got, want*share/4)
			}
		}
	}
}

func TestEventsAreTriedForADay(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.tick = time.Minute
		_, stop := r.replica("shop")
		defer stop()
		r.answers("shop", always(answer{word: "500"}))
		id := r.happens("shop")
		pass(29 * time.Hour)
		n := len(r.posts)
		if last := r.posts[n-1].at; n < 9 || n > 14 || last > life || last < 17*time.Hour {
			t.Errorf("%d attempts, the last after %v", n, last)
		}
		r.is(id, store.EventGivenUp, n)
		if e := r.event(id); e.Answer != "500" || r.told["shop given_up"] != 1 || r.told["shop retried"] != n-1 ||
			!strings.Contains(r.errors.String(), id.String()) {
			t.Errorf("%+v %v %s", e, r.told, r.errors.String())
		}
	})
}

func TestWhatAReceiverWishes(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, stop := r.replica("shop", "gone")
		defer stop()
		r.answers("shop", always(answer{word: "503", after: 10 * time.Minute}))
		r.answers("gone", always(answer{word: "410", gone: true}))
		id, gone := r.happens("shop"), r.happens("gone")
		pass(10 * time.Minute)
		r.is(id, store.EventPending, 1)
		r.is(gone, store.EventGivenUp, 1)
		pass(2 * tick)
		r.is(id, store.EventPending, 2)
		// The next event is tried all the same: the address is the operator's to take away.
		r.answers("gone", nil)
		next := r.happens("gone")
		pass(tick)
		r.is(next, store.EventDelivered, 1)
	})
}

// A receiver that hangs has a share of its own, which shrinks to one; other apps' events do not
// wait for it.
func TestADeadReceiverHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		d, stop := r.replica("dead", "shop")
		defer stop()
		r.answers("dead", hang)
		for range 200 {
			r.happens("dead")
		}
		d.Wake()
		synctest.Wait()
		servertest.Same(t, "attempts under way", r.count("dead"), maxShare)
		for range 40 {
			id := r.happens("shop")
			d.Wake()
			synctest.Wait()
			r.is(id, store.EventDelivered, 1)
			pass(time.Second)
		}
		before := r.count("dead")
		pass(10 * attemptTimeout)
		if n := r.count("dead") - before; n < 9 || n > 11 {
			t.Errorf("%d attempts in the time of ten, one after the other", n)
		}
		// It is back: soon all of them have arrived, some after their wait.
		r.answers("dead", nil)
		pass(15 * time.Minute)
		events, err := r.db.AppEvents(r.Context(),
			store.AppEventFilter{App: "dead", State: store.EventDelivered, Limit: 200})
		if err != nil || len(events) != 200 {
			t.Errorf("%d arrived, %v", len(events), err)
		}
	})
}

// More events than there is room for: the next ones go when one has arrived, not at the next tick.
func TestABacklogIsWorkedOffWithoutPauses(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.answers("shop", func(context.Context) answer {
			time.Sleep(10 * time.Millisecond)
			return answer{word: "200",
				ok: true}
		})
		for range 10 * maxShare {
			r.happens("shop")
		}
		_, stop := r.replica("shop")
		defer stop()
		pass(100 * time.Millisecond)
		servertest.Same(t, "arrived", r.told["shop delivered"], 10*maxShare)
	})
}

// A process that died in an attempt never comes back: another delivers, with the same ID, when the
// lease has run out.
func TestAnotherReplicaTakesOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.answers("shop", func(context.Context) answer { <-release; return answer{word: "200", ok: true} })
		_, stopDead := r.replica("shop")
		id := r.happens("shop")
		pass(2 * tick)
		r.answers("shop", nil)
		_, stop := r.replica("shop")
		pass(lease - 3*tick)
		r.is(id, store.EventPending, 1)
		pass(3 * tick)
		r.is(id, store.EventDelivered, 2)
		delivered := r.event(id)
		close(release) // the sleeper's word comes too late
		pass(tick)
		if e := r.event(id); e != delivered || r.told["shop delivered"] != 1 || len(r.posts) != 2 ||
			r.posts[0].id != r.posts[1].id {
			t.Errorf("%+v %v", e, r.told)
		}
		stop()
		stopDead()
	})
}

// A stop waits for attempts under way, for a while; what it breaks off goes to another replica at
// once.
func TestStopHandsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.answers("shop", func(ctx context.Context) answer {
			time.Sleep(2 * time.Second)
			return answer{word: "200",
				ok: true}
		})
		r.answers("slow", hang)
		id, slow := r.happens("shop"), r.happens("slow")
		_, stop := r.replica("shop", "slow")
		began := time.Now()
		stop()
		servertest.Same(t, "stopped after", time.Since(began), stopWait)
		r.is(id, store.EventDelivered, 1)
		r.is(slow, store.EventPending, 1)
		r.answers("slow", nil)
		_, stopOther := r.replica("slow")
		r.is(slow, store.EventDelivered, 2)
		stopOther()
	})
}

func TestTheDatabaseIsAwayForAWhile(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, stop := r.replica("shop")
		defer stop()
		id := r.happens("shop")
		r.fail("AppEventsDue", "ForgetAppEvents")
		pass(time.Minute)
		servertest.Same(t, "attempts without a lease", len(r.posts), 0)
		r.fail("AppEventEnded")
		pass(2 * tick)
		r.fail()
		r.is(id, store.EventPending, 1)
		pass(lease + tick) // it arrived, and that could not be recorded: it arrives again
		r.is(id, store.EventDelivered, 2)
		if len(r.posts) != 2 || r.posts[0].id != r.posts[1].id {
			t.Errorf("%v", r.posts)
		}
	})
}

func TestChange(t *testing.T) {
	inBubble(t, func(r *rig) {
		d, stop := r.replica("shop")
		d.Change(Settings{})
		id := r.happens("shop")
		pass(time.Minute)
		r.is(id, store.EventPending, 0)
		d.Change(Settings{Endpoints: map[string]Endpoint{"shop": {URL: "https://elsewhere.example"}}})
		synctest.Wait()
		r.is(id, store.EventDelivered, 1)

		stop()

		// No receiver for a week: given up, and there to be seen for another one.
		r.tick = time.Hour
		_, stop = r.replica()
		defer stop()
		lost := r.happens("shop")
		pass(keep + 2*sweep)
		r.is(lost, store.EventGivenUp, 0)
		if r.told[" given_up"] != 1 {
			t.Errorf("%v", r.told)
		}
		pass(keep + 2*sweep)
		if events, err := r.db.AppEvents(r.Context(), store.AppEventFilter{Limit: 200}); err != nil ||
			len(events) != 0 {
			t.Errorf("%d are kept, %v", len(events), err)
		}
	})
}

// forgetful is a database that is asked to forget alone: n old events in each step, and the rest of
// a step given up.
type forgetful struct {
	Database
	steps []int
}

func (f *forgetful) ForgetAppEvents(context.Context, time.Duration, int) (int, int, error) {
	n := f.steps[0]
	f.steps = f.steps[1:]
	return n, sweepLimit - n, nil
}

// One look forgets all that there is, in several steps.
func TestForgetsInSteps(t *testing.T) {
	db := &forgetful{steps: []int{sweepLimit, 0, sweepLimit, sweepLimit, 7}}
	o := &rig{T: t, told: map[string]int{}}
	New(Settings{}, Parts{DB: db, Observer: o, Logger: slog.New(slog.DiscardHandler)}).deleteOld(t.Context())
	if len(db.steps) != 0 || o.told[" given_up"] != 2*sweepLimit-7 {
		t.Errorf("%d steps left, %v", len(db.steps), o.told)
	}
}
