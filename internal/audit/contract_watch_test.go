package audit

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// watching is the watch of these tests.
var watching = Watch{Sends: 10, Percent: 10, Within: time.Hour, Life: 10 * time.Minute, For: time.Hour}

// text is a text message to a number that begins so.
func text(prefix, country string) func(*Intent) {
	return func(in *Intent) { in.Send.Channel, in.Send.Prefix, in.Send.Country = recipient.SMS, prefix, country }
}

func inApp(app string) func(*Intent) { return func(in *Intent) { in.Send.App = app } }

// texts has n text messages sent, of which the codes of the first are approved.
func (f *fixture) texts(t *testing.T, n, approved int, changes ...func(*Intent)) {
	t.Helper()
	for i := range n {
		begun := f.admit(t, f.intent(i, changes...))
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Provider: "carrier", ProviderCode: "202"}, true)
		if i < approved {
			done, err := f.Approve(t.Context(), begun.Verification.ID, Tell{})
			ok(t, err)
			equal(t, "approved", done, true)
		}
	}
}

// watch is what a watch pauses, without the IDs.
func (f *fixture) watch(t *testing.T, w Watch) []PrefixPause {
	t.Helper()
	started, err := f.Watch(t.Context(), w)
	ok(t, err)
	for i := range started {
		started[i].ID = uuid.Nil
	}
	return started
}

func (f *fixture) prefixPaused(t *testing.T, app, prefix string) (PrefixPause, bool) {
	t.Helper()
	p, found, err := f.replica.PrefixPaused(t.Context(), app, prefix)
	ok(t, err)
	return p, found
}

// Too few codes come back, and far more do elsewhere: paused, here alone, once, for its time.
func watchPauses(t *testing.T, f *fixture) {
	f.texts(t, 10, 6, text("+86139", "CN")) // what is usual in all
	f.pass(2 * time.Hour)
	f.texts(t, 10, 0, text("+49151", "DE"))
	f.texts(t, 9, 0, text("+49152", "DE"))                // too few
	f.texts(t, 10, 1, text("+49153", "DE"))               // a tenth is not less than a tenth
	f.texts(t, 11, 1, text("+49154", "DE"))               // this is
	f.texts(t, 10, 5, text("+49155", "DE"))               // as usual
	f.texts(t, 10, 0, text("+49151", "DE"), inApp("gym")) // another app, of which nothing else is known
	f.texts(t, 30, 0)                                     // mails
	f.pass(10*time.Minute - time.Microsecond)
	equal(t, "while they may come back", f.watch(t, watching), nil)
	f.pass(time.Microsecond)
	a := PrefixPause{App: "shop", Country: "DE", Prefix: "+49154", Since: f.now, Until: f.now.Add(time.Hour), Sends: 11, Approved: 1, Usual: 60}
	b, c := a, a
	b.App, b.Prefix, b.Sends, b.Approved, b.Usual = "gym", "+49151", 10, 0, unknown
	c.Prefix, c.Sends, c.Approved = "+49151", 10, 0
	equal(t, "paused", f.watch(t, watching), []PrefixPause{a, b, c})
	equal(t, "again", f.watch(t, watching), nil)

	got, found := f.prefixPaused(t, "shop", "+49151")
	c.ID = got.ID
	if !found || show(got) != show(c) {
		t.Errorf("%v: %s", found, show(got))
	}
	for _, other := range [][2]string{{"shop", "+49152"}, {"shop", "+4915"}, {"gym", "+49154"}, {"", "+49151"}} {
		if _, found := f.prefixPaused(t, other[0], other[1]); found {
			t.Errorf("%v is paused", other)
		}
	}
	f.pass(time.Hour - time.Microsecond)
	if _, found := f.prefixPaused(t, "shop", "+49151"); !found {
		t.Error("not paused in its last microsecond")
	}
	f.pass(time.Microsecond)
	if _, found := f.prefixPaused(t, "shop", "+49151"); found {
		t.Error("paused beyond its end")
	}
}

// Only what a carrier took, or may have, says something: neither what failed nor what test recipients got.
func watchCounts(t *testing.T, f *fixture) {
	to := text("+49151", "DE")
	for i, o := range []Outcome{
		{Status: Failed, Provider: "carrier"}, {Status: Sent, Provider: "test"}, {Status: Unknown, Provider: "carrier"}, {Status: Sent, Provider: "carrier"},
	} {
		for range 5 {
			o.Held = Held{f.admit(t, f.intent(i, to)).Send.ID, 1}
			f.finish(t, o, true)
			if o.Status == Sent && o.Provider == "carrier" {
				_, err := f.Receive(t.Context(), o.Held.ID, Undelivered)
				ok(t, err)
			}
		}
	}
	f.admit(t, f.intent(9, to)) // on its way
	f.pass(30 * time.Minute)
	started := f.watch(t, watching)
	if len(started) != 1 || started[0].Sends != 10 {
		t.Errorf("%s", show(started))
	}
}

// What lies further back than the time is not counted, to the microsecond.
func watchSlides(t *testing.T, f *fixture) {
	f.texts(t, 1, 0, text("+49151", "DE"))
	f.pass(time.Microsecond)
	f.texts(t, 9, 0, text("+49151", "DE"))
	f.pass(70*time.Minute - time.Microsecond)
	equal(t, "the first is an hour old", f.watch(t, watching), nil)
	w := watching
	w.Within += time.Microsecond
	equal(t, "and a little more", len(f.watch(t, w)), 1)
}

// Where codes seldom come back from anywhere, it says nothing of a prefix. What is usual is counted before, so that
// who attacks a whole country at once does not make it usual.
func watchKnowsWhatIsUsual(t *testing.T, f *fixture) {
	f.texts(t, 20, 3, text("+86139", "CN"), inApp("notices"))
	f.texts(t, 20, 4, text("+86139", "CN"))
	f.texts(t, 20, 0, text("+49170", "DE"))
	f.pass(3 * time.Hour)
	f.texts(t, 10, 0, text("+86138", "CN"), inApp("notices")) // 15 percent come back in all
	f.texts(t, 10, 0, text("+86138", "CN"))                   // 20 in the country, 10 in all
	for n := range 5 {
		f.texts(t, 10, 0, text(fmt.Sprint("+4916", n), "DE")) // 0 in the country, 10 in all
	}
	f.pass(10 * time.Minute)
	started := f.watch(t, watching)
	if len(started) != 1 || started[0].App != "shop" || started[0].Prefix != "+86138" || started[0].Usual != 20 {
		t.Errorf("%s", show(started))
	}
	f.texts(t, 60, 60, text("+33601", "FR")) // too late to be what was usual before
	equal(t, "started", f.watch(t, watching), nil)
	f.pass(3 * time.Hour)
	for n := range 5 {
		f.texts(t, 10, 0, text(fmt.Sprint("+4916", n), "DE"))
	}
	f.pass(10 * time.Minute)
	equal(t, "a country attacked at once", len(f.watch(t, watching)), 5)
	f.pass(8 * 24 * time.Hour)
	f.texts(t, 10, 0, text("+86137", "CN"), inApp("notices"))
	f.pass(10 * time.Minute)
	started = f.watch(t, watching)
	if len(started) != 1 || started[0].Usual != unknown {
		t.Errorf("after a week: %s", show(started))
	}
}

// One after the other lasts twice as long, up to a day; one that was lifted does not count.
func watchGrowsStricter(t *testing.T, f *fixture) {
	for i, hours := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		f.texts(t, 10, 0, text("+49151", "DE"))
		f.pass(10 * time.Minute)
		started := f.watch(t, watching)
		if len(started) != 1 || started[0].Until.Sub(started[0].Since) != hours*time.Hour {
			t.Fatalf("number %d: %s", i, show(started))
		}
		f.texts(t, 20, 0, text("+49151", "DE")) // during it
		f.pass(hours*time.Hour + time.Microsecond)
		equal(t, "of what was sent before its end", f.watch(t, watching), nil)
	}
	f.pass(8 * 24 * time.Hour)
	f.texts(t, 10, 0, text("+49151", "DE"))
	f.pass(10 * time.Minute)
	started := f.watch(t, watching)
	equal(t, "after a week", started[0].Until.Sub(started[0].Since), time.Hour)
}

func watchLifted(t *testing.T, f *fixture) {
	f.texts(t, 10, 0, text("+49151", "DE"))
	f.pass(10 * time.Minute)
	equal(t, "paused", len(f.watch(t, watching)), 1)
	p, _ := f.prefixPaused(t, "shop", "+49151")
	act := &Act{ID: uuid.UUID{1, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: "prefix.lift", Reason: "ours", Outcome: ActDone}
	_, _, err := f.LiftPrefix(t.Context(), PrefixLifting{ID: uuid.UUID{9}}, act)
	is(t, err, ErrNotFound)
	_, _, err = f.LiftPrefix(t.Context(), PrefixLifting{}, act)
	is(t, err, ErrBadRequest)
	_, _, err = f.LiftPrefix(t.Context(), PrefixLifting{ID: p.ID}, &Act{})
	is(t, err, ErrBadRequest)
	f.pass(time.Minute)
	got, done, err := f.LiftPrefix(t.Context(), PrefixLifting{ID: p.ID, By: "mei\x00", Why: "ours"}, act)
	ok(t, err)
	p.LiftedAt, p.LiftedBy, p.LiftedWhy = f.now, "mei\uFFFD", "ours"
	if !done || show(got) != show(p) {
		t.Errorf("%v: %s", done, show(got))
	}
	if _, found := f.prefixPaused(t, "shop", "+49151"); found {
		t.Error("still paused")
	}
	act.ID[1] = 1
	got, done, err = f.LiftPrefix(t.Context(), PrefixLifting{ID: p.ID, By: "another"}, act)
	ok(t, err)
	if done || show(got) != show(p) {
		t.Errorf("again, %v: %s", done, show(got))
	}
	acts, err := f.Acts(t.Context(), ActFilter{Limit: 10})
	ok(t, err)
	if len(acts) != 1 || acts[0].Target != "+49151" || acts[0].App != "shop" || acts[0].Channel != recipient.SMS {
		t.Errorf("%s", show(acts))
	}

	// Not on the same old sends again, nor on those of the time before; but on new ones, and not for longer.
	f.texts(t, 9, 0, text("+49151", "DE"))
	f.pass(time.Microsecond)
	equal(t, "at once", f.watch(t, watching), nil)
	f.pass(10 * time.Minute)
	equal(t, "of nine more", f.watch(t, watching), nil)
	f.texts(t, 1, 0, text("+49151", "DE"))
	f.pass(10 * time.Minute)
	started := f.watch(t, watching)
	if len(started) != 0 { // the nine were sent in the very microsecond of the lifting
		t.Errorf("%s", show(started))
	}
	f.texts(t, 9, 0, text("+49151", "DE"))
	f.pass(10 * time.Minute)
	started = f.watch(t, watching)
	if len(started) != 1 || started[0].Sends != 10 || started[0].Until.Sub(started[0].Since) != time.Hour {
		t.Errorf("%s", show(started))
	}
}

func watchExempts(t *testing.T, f *fixture) {
	for _, prefix := range []string{"+49151", "+49160", "+86138"} {
		f.texts(t, 10, 0, text(prefix, "XX"))
	}
	f.pass(10 * time.Minute)
	w := watching
	w.Exempt = []string{"+86", "+49160", "+491511"}
	started := f.watch(t, w)
	if len(started) != 1 || started[0].Prefix != "+49151" {
		t.Errorf("%s", show(started))
	}
}

// Replicas that watch at once pause a prefix once.
func watchedAtOnce(t *testing.T, f *fixture) {
	for n := range 3 {
		f.texts(t, 10, 0, text(fmt.Sprint("+4915", n), "DE"))
	}
	f.pass(10 * time.Minute)
	var mu sync.Mutex
	n := 0
	together(8, func(i int) {
		started, err := f.both(i).Watch(t.Context(), watching)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		n += len(started)
		mu.Unlock()
	})
	list, _, err := f.PrefixPauses(t.Context(), PrefixPauseFilter{Limit: 10})
	ok(t, err)
	if n != 3 || len(list) != 3 {
		t.Errorf("%d started, %d there", n, len(list))
	}
}

func watchList(t *testing.T, f *fixture) {
	for n := range 3 {
		f.texts(t, 10, 0, text(fmt.Sprint("+4915", n), "DE"))
		f.pass(10 * time.Minute)
		equal(t, "started", len(f.watch(t, watching)), 1)
	}
	list := func(filter PrefixPauseFilter) (prefixes []string) {
		t.Helper()
		if filter.Limit == 0 {
			filter.Limit = 10
		}
		rows, now, err := f.PrefixPauses(t.Context(), filter)
		ok(t, err)
		equal(t, "now", now, f.now)
		for _, r := range rows {
			prefixes = append(prefixes, r.Prefix)
		}
		return prefixes
	}
	all, _, err := f.PrefixPauses(t.Context(), PrefixPauseFilter{Limit: 10})
	ok(t, err)
	equal(t, "all", list(PrefixPauseFilter{}), []string{"+49152", "+49151", "+49150"})
	equal(t, "first page", list(PrefixPauseFilter{Limit: 2}), []string{"+49152", "+49151"})
	equal(t, "second page", list(PrefixPauseFilter{Before: &Mark{At: all[1].Since, ID: all[1].ID}}), []string{"+49150"})
	_, _, err = f.LiftPrefix(t.Context(), PrefixLifting{ID: all[1].ID}, nil)
	ok(t, err)
	f.pass(41 * time.Minute)
	equal(t, "active", list(PrefixPauseFilter{Active: true}), []string{"+49152"})
	_, _, err = f.PrefixPauses(t.Context(), PrefixPauseFilter{})
	is(t, err, ErrBadRequest)
	for _, change := range []func(*Watch){
		func(w *Watch) { w.Sends = 0 }, func(w *Watch) { w.Percent = 0 }, func(w *Watch) { w.Percent = 51 }, func(w *Watch) { w.Within = 0 },
		func(w *Watch) { w.Life = -1 }, func(w *Watch) { w.For = 0 }, func(w *Watch) { w.For = 25 * time.Hour },
	} {
		w := watching
		change(&w)
		_, err := f.Watch(t.Context(), w)
		is(t, err, ErrBadRequest)
	}
}

// A send that was stopped tells of the pause that stopped it, also when that is over; others tell of none.
func watchStory(t *testing.T, f *fixture) {
	f.texts(t, 10, 0, text("+49151", "DE"))
	f.pass(10 * time.Minute)
	equal(t, "started", len(f.watch(t, watching)), 1)
	p, _ := f.prefixPaused(t, "shop", "+49151")
	end := func(reason string, changes ...func(*Intent)) uuid.UUID {
		s := f.admit(t, f.intent(50, changes...)).Send
		f.finish(t, Outcome{Held: Held{s.ID, 1}, Status: Failed, Reason: reason, Refund: true}, true)
		return s.ID
	}
	stopped := end(ReasonPaused, text("+49151", "DE"))
	others := []uuid.UUID{end(ReasonPaused), end(ReasonPaused, text("+49152", "DE")), end(ReasonPaused, text("+49151", "DE"), inApp("gym")), end(ReasonRejected, text("+49151", "DE"))}
	f.pass(2 * time.Hour)
	others = append(others, end(ReasonPaused, text("+49151", "DE")))
	s, err := f.Story(t.Context(), stopped)
	ok(t, err)
	if s.Pause == nil || show(*s.Pause) != show(p) {
		t.Errorf("%s", show(s.Pause))
	}
	for i, id := range others {
		if s, err := f.Story(t.Context(), id); err != nil || s.Pause != nil {
			t.Errorf("%d: %s, %v", i, show(s.Pause), err)
		}
	}
}

func takesTurns(t *testing.T, f *fixture) {
	take := func(i int, name string) bool {
		mine, err := f.both(i).Turn(t.Context(), name, time.Minute)
		ok(t, err)
		return mine
	}
	var mu sync.Mutex
	n := 0
	together(8, func(i int) {
		if mine, err := f.both(i).Turn(t.Context(), "work", time.Minute); err != nil || mine {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	equal(t, "turns", n, 1)
	equal(t, "another work", take(0, "other"), true)
	f.pass(time.Minute - time.Microsecond)
	equal(t, "before its end", take(1, "work"), false)
	f.pass(time.Microsecond)
	equal(t, "at its end", take(1, "work"), true)
	equal(t, "for the other", take(0, "work"), false)
	_, err := f.Turn(t.Context(), "", time.Minute)
	is(t, err, ErrBadRequest)
	_, err = f.Turn(t.Context(), "work", 0)
	is(t, err, ErrBadRequest)
}
