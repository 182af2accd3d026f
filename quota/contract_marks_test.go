package quota

import (
	"fmt"
	"testing"
	"time"
)

// logged peeks, and asks whether ann's bucket is complete for the mapping.
func (w *world) logged(mapping string, rules ...Rule) Decision {
	w.t.Helper()
	d, err := w.Peek(w.t.Context(), Request{Rules: rules, Buckets: buckets("ann", "office"), Logged: map[Scope]string{Recipient: mapping}})
	must(w.t, err)
	return d
}

// lacking fails the test unless ann's bucket may lack events, and returns the epoch of its server.
func (w *world) lacking(what, mapping string, rules ...Rule) string {
	w.t.Helper()
	d := w.logged(mapping, rules...)
	if d.Incomplete[Recipient] == "" || len(d.Incomplete) != 1 {
		w.t.Errorf("%s: incomplete are %v, want the recipient's bucket", what, d.Incomplete)
	}
	return d.Incomplete[Recipient]
}

func (w *world) complete(what, mapping string, rules ...Rule) {
	w.t.Helper()
	if d := w.logged(mapping, rules...); len(d.Incomplete) != 0 {
		w.t.Errorf("%s: incomplete are %v", what, d.Incomplete)
	}
}

func (w *world) restore(epoch string, keep time.Duration, events ...Event) {
	w.t.Helper()
	must(w.t, w.Restore(w.t.Context(), History{Bucket: ann(), Keep: keep, Epoch: epoch, Mapping: "login", Events: events}))
}

// many are events of one instant with different IDs.
func (w *world) many(n int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = Event{fmt.Sprint("many", i), w.now}
	}
	return events
}

var perHour = sliding(Recipient, 5, time.Hour)

func TestQuota11ABucketIsCompleteOnceItIsRestored(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		epoch := w.lacking("never seen", "login", perHour)
		same(t, "incomplete when nothing is asked", len(w.peek(perHour).Incomplete), 0)
		w.restore(epoch, time.Hour)
		w.complete("empty", "login", perHour)
		same(t, "used", w.peek(perHour).Rules[0].Used, 0)
		w.admits(true, perHour)
		w.complete("after a take", "login", perHour)
		w.complete("for less time", "login", sliding(Recipient, 5, time.Minute))
		w.lacking("for more time", "login", sliding(Recipient, 5, time.Hour+time.Second))
		w.lacking("of another mapping", "login,gift", perHour)
		must(t, w.Refund(t.Context(), w.id(), ann()))
		must(t, w.Reset(t.Context()))
		w.complete("after a reset of no bucket", "login", perHour)
		must(t, w.Reset(t.Context(), ann(), ann(), Bucket("never used")))
		w.lacking("after a reset, which a send may have overtaken", "login", perHour)
		w.flush()
		w.lacking("flushed", "login", perHour)
	})
}

// A replica that still has shorter windows drops events that longer ones need.
func TestQuota17AMarkEndsWithTheEventsThatItSpeaksOf(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		perMinute := sliding(Recipient, 5, time.Minute)
		for _, drop := range []func(){
			func() { w.admits(true, perMinute) },
			func() { must(t, w.Record(t.Context(), ann(), time.Minute, []Event{{"new", w.now}})) },
		} {
			w.flush()
			w.restore(w.lacking("flushed", "login", perHour), time.Hour, Event{"old", w.now.Add(-30 * time.Minute)})
			w.complete("restored", "login", perHour)
			drop()
			w.lacking("for an hour", "login", perHour)
		}
	})
}

func TestQuota11ARefusalTellsWhetherTheBucketIsComplete(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		office := sliding(IP, 2, time.Hour)
		take := func() Decision {
			d, err := w.Take(t.Context(), Request{
				ID: w.id(), Rules: []Rule{perHour, office}, Buckets: buckets("ann", "office"), Logged: map[Scope]string{Recipient: "login"},
			})
			must(t, err)
			return d
		}
		for range 2 {
			d := take()
			same(t, "admitted", d.Admitted, true)
			same(t, "told where it is admitted", len(d.Incomplete), 0)
		}
		for range 2 { // the second one is not answered from memory
			d := take()
			same(t, "admitted", d.Admitted, false)
			same(t, "told where it is refused", len(d.Incomplete), 1)
		}
		w.restore(w.lacking("unmarked", "login", perHour), time.Hour)
		same(t, "told once it is restored", len(take().Incomplete), 0)
	})
}

// The mark of an empty bucket ends with the window.
func TestQuota11AMarkLastsForItsWindow(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.restore(w.lacking("never seen", "login", perHour), time.Hour)
		must(t, w.Refund(t.Context(), "late", ann()))
		w.pass(time.Hour - time.Second)
		w.complete("within its window", "login", perHour)
		w.pass(time.Minute)
		w.lacking("after it", "login", perHour)
	})
}

// restored restores ann's bucket, with 10 s of doubt if it lacked an event, and compares whether it is complete then.
func (w *world) restored(what string, complete bool, events ...Event) {
	w.t.Helper()
	h := History{Bucket: ann(), Keep: time.Hour, Mapping: "login", DoubtFor: 10 * time.Second, Read: w.now, Events: events}
	h.Epoch = w.logged("login", perHour).Incomplete[Recipient]
	must(w.t, w.Restore(w.t.Context(), h))
	same(w.t, what+": complete", len(w.logged("login", perHour).Incomplete) == 0, complete)
}

// A bucket that lacked an event may lack another one, whose send is not in the log yet.
func TestQuota11ABucketThatLackedAnEventIsInDoubtForAWhile(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.restored("with no event at all", false)
		old := Event{"old", w.now.Add(-time.Minute)}
		w.restored("after it lacked an event", false, old)
		same(t, "used", w.peek(perHour).Rules[0].Used, 1)
		w.pass(10*time.Second - µs)
		w.restored("a moment before the end of the doubt", false, old)
		w.pass(µs)
		w.restored("after the doubt", true, old)
		must(t, w.Reset(t.Context(), ann()))
		must(t, w.Record(t.Context(), ann(), time.Hour, []Event{old}))
		w.restored("after it lacked one of two", false, old, Event{"other", old.At})
	})
}

func TestQuota11ABucketThatHasTheEventsIsMarkedAtOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.takeID("kept", perHour)
		must(t, w.Refund(t.Context(), "refunded", ann()))
		at := w.now
		w.pass(time.Second)
		w.restored("with a refunded event alone", false, Event{"refunded", at})
		w.restored("with one that it has", true, Event{"kept", at.Add(time.Millisecond)}, Event{"past", at.Add(-time.Hour)})
		same(t, "used", w.peek(perHour).Rules[0].Used, 1)
		must(t, w.Record(t.Context(), ann(), time.Hour, []Event{{"later", w.now}}))
		w.complete("after a record", "login", perHour)
	})
}

// The doubt stays while events are reset and taken, and counts as no event.
func TestQuota11DoubtOutlastsTheEvents(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.restored("in several steps", false, w.many(1500)...)
		must(t, w.Reset(t.Context(), ann()))
		w.takeID("new", perHour)
		taken := Event{"new", w.now}
		w.restored("in doubt since before the reset", false, taken)
		same(t, "used", w.peek(perHour).Rules[0].Used, 1)
		w.pass(10 * time.Second)
		w.restored("afterwards", true, taken)
	})
}

// Record marks nothing, however many events it adds.
func TestQuota11OnlyRestoreMarks(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		must(t, w.Record(t.Context(), ann(), time.Hour, []Event{{"one", w.now}}))
		w.lacking("recorded", "login", perHour)
		w.restore("", time.Hour, Event{"two", w.now})
		epoch := w.lacking("restored for no epoch", "login", perHour)
		w.restore("1", time.Hour)
		w.lacking("restored for another epoch", "login", perHour)
		w.restore(epoch, time.Hour, w.many(2500)...)
		w.complete("restored in several steps", "login", perHour)
		same(t, "used", w.peek(perHour).Rules[0].Used, 2502)
	})
}

// marks asks whether ann's bucket is complete for a mapping while the limiter's clock is ahead of the log's.
func (w *world) marks(mapping string, ahead time.Duration) (epoch string) {
	w.t.Helper()
	d, err := w.Peek(w.t.Context(), Request{
		Rules: []Rule{perHour, sliding(IP, 9, time.Hour)}, Buckets: buckets("ann", "office"),
		Logged: map[Scope]string{Recipient: mapping}, Ahead: ahead,
	})
	must(w.t, err)
	return d.Incomplete[Recipient]
}

// A mark holds while the clocks differ by what they differed by, as closely as each process measures it.
func TestQuota11AMarkIsOfItsClocks(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for mapping, ahead := range map[string]time.Duration{"login": 0, "gift": 24*time.Hour + 333*time.Millisecond, "": -25 * time.Hour} {
			h := History{Bucket: ann(), Keep: time.Hour, Epoch: w.marks(mapping, ahead+time.Hour), Mapping: mapping, Ahead: ahead + time.Hour}
			must(t, w.Restore(t.Context(), h))
			for by, want := range map[time.Duration]bool{0: true, 500: true, -500: true, 750: false, -750: false, 300_000: false, -300_000: false} {
				same(t, fmt.Sprintf("complete %d ms from %v", by, ahead), w.marks(mapping, ahead+time.Hour+by*time.Millisecond) == "", want)
			}
		}
	})
}

// Callers that map the same events to different buckets of a family, as replicas with different files do, end each other's marks: whatever
// one writes, and whichever bucket it writes to. None is made until what the other one took before is in the log.
func TestQuota11AWriteByAnotherMappingEndsTheMarksOfTheFamily(t *testing.T) {
	other := InFamily(Bucket("recipient", "ann"), "another policy")
	take := func(w *world, bucket, mapping string, ahead time.Duration) {
		w.t.Helper()
		r := Request{ID: w.id(), Rules: []Rule{perHour}, Ahead: ahead}
		r.Buckets, r.Logged = map[Scope]string{Recipient: bucket}, map[Scope]string{Recipient: mapping}
		must(w.t, second(w.Take(w.t.Context(), r)))
	}
	for name, c := range map[string]struct {
		write func(w *world)
		ends  bool
		doubt time.Duration
	}{
		"a take by the same mapping":    {func(w *world) { take(w, ann(), "login", 0) }, false, 0},
		"to another bucket":             {func(w *world) { take(w, other, "login", 0) }, false, 0},
		"of another recipient":          {func(w *world) { take(w, buckets("ben", "")[Recipient], "gift", 0) }, false, 0},
		"a take by another":             {func(w *world) { take(w, ann(), "gift", 0) }, true, 10 * time.Second},
		"by another, to another bucket": {func(w *world) { take(w, other, "gift", 0) }, true, 10 * time.Second},
		"by another, and by the same":   {func(w *world) { take(w, other, "gift", 0); w.pass(time.Second); take(w, other, "login", 0) }, true, 10 * time.Second},
		"by other clocks":               {func(w *world) { take(w, other, "login", time.Minute) }, true, 0},
		"by another, and by other clocks": {func(w *world) {
			take(w, other, "gift", 0)
			take(w, other, "login", 0)
			take(w, other, "login", time.Minute)
		}, true, 10 * time.Second},
		"a record by another": {func(w *world) {
			must(w.t, w.Restore(w.t.Context(), History{Bucket: other, Keep: time.Hour, Mapping: "gift", Events: []Event{{w.id(), w.now}}}))
		}, true, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, w *world) {
				take(w, ann(), "login", 0)
				counted := Event{fmt.Sprintf("\x00\xff\r\n%012d", w.ids), w.now}
				w.pass(time.Minute)
				w.restored("at first", true, counted)
				c.write(w)
				same(t, "complete after it", w.marks("login", 0) == "", !c.ends)
				if !c.ends {
					return
				}
				must(t, w.Reset(t.Context(), ann()))
				must(t, w.Record(t.Context(), ann(), time.Hour, []Event{counted}))
				w.restored("at once", c.doubt == 0, counted)
				if c.doubt > 0 {
					w.pass(c.doubt - µs)
					w.restored("until the other's takes are in the log", false, counted)
					w.pass(µs)
					w.restored("afterwards", true, counted)
				}
			})
		})
	}
}

// A call that sees the clock set back moves events; the mark ends with their instants, also if the clock is right again at the next call.
func TestQuota11AMovedEventEndsTheMark(t *testing.T) {
	for name, see := range map[string]func(w *world){
		"take": func(w *world) { w.admits(true, perHour) }, "look": func(w *world) { w.lacking("at once", "login", perHour) },
		"record": func(w *world) { must(w.t, w.Record(w.t.Context(), ann(), time.Hour, []Event{{"late", w.now}})) },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, w *world) {
				w.takeID("one", perHour)
				one := Event{"one", w.now}
				w.pass(20 * time.Second)
				w.restored("at first", true, one)
				w.pass(-30 * time.Second)
				see(w)
				w.pass(30 * time.Second)
				w.lacking("when it is right again", "login", perHour)
			})
		})
	}
}

// The doubt of a bucket stays, whatever takes.
func TestQuota11ATakeEndsNoDoubt(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.restored("lacking an event", false, Event{"old", w.now.Add(-time.Minute)})
		w.take(perHour)
		w.restored("in doubt all the same", false, Event{"old", w.now.Add(-time.Minute)})
	})
}

// What the log lacks goes out of the bucket, once the log must have it; until then the bucket is not marked.
func TestQuota11EventsThatTheLogLacksGoOut(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.takeID("kept", perHour)
		kept := Event{"kept", w.now}
		w.takeID("other", perHour)
		w.pass(5 * time.Second)
		w.takeID("under way", perHour)
		w.pass(5*time.Second - µs)
		w.restored("while it may be under way", false, kept)
		same(t, "used", w.peek(perHour).Rules[0].Used, 3)
		w.pass(µs)
		w.restored("while another may be", false, kept)
		same(t, "used", w.peek(perHour).Rules[0].Used, 2)
		w.pass(5 * time.Second)
		w.restored("at the end", true, kept)
		same(t, "used", w.peek(perHour).Rules[0].Used, 1)
		must(t, w.Restore(t.Context(), History{Bucket: ann(), Keep: time.Hour, DoubtFor: time.Second, Read: w.now}))
		same(t, "used after a history for no epoch", w.peek(perHour).Rules[0].Used, 1)
	})
}

// If the instants differ by more than the skew, the log's counts.
func TestQuota11TheLogsInstantsCount(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.takeID("one", perHour)
		at := w.now
		for _, c := range []struct{ skew, told, want time.Duration }{
			{0, -time.Minute, 0}, {time.Second, -time.Second, 0}, {time.Second, -time.Second - µs, -time.Second - µs}, {time.Second, 0, 0},
		} {
			must(t, w.Restore(t.Context(), History{Bucket: ann(), Keep: time.Hour, Skew: c.skew, Events: []Event{{"one", at.Add(c.told)}}}))
			same(t, fmt.Sprint(c), w.peek(perHour).Rules[0].ResetAfter, time.Hour+c.want)
		}
	})
}
