package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// watching is the watch of these tests.
var watching = store.PrefixWatch{Sends: 10, Approved: 10, Within: time.Hour, TTL: 10 * time.Minute, Pause: time.Hour}

// text is a text message to a number that begins so.
func text(prefix, country string) func(*store.Intent) {
	return func(in *store.Intent) {
		in.Send.Channel, in.Send.Prefix, in.Send.Country = recipient.SMS, prefix, country
	}
}

func inApp(app string) func(*store.Intent) { return func(in *store.Intent) { in.Send.App = app } }

// sendTexts has n text messages sent, of which the codes of the first are approved.
func (f *Fixture) sendTexts(t *testing.T, n, approved int, changes ...func(*store.Intent)) {
	t.Helper()
	for i := range n {
		begun := f.Ended(t, f.Intent(i, changes...), store.Outcome{Status: store.Sent, Provider: "carrier", ProviderCode: "202"})
		if i < approved {
			Equal(t, "approved", Must(f.Approve(t.Context(), begun.Verification.ID, store.NewEvent{}))(t), true)
		}
	}
}

// pausePrefixes is what a watch pauses, without the IDs.
func (f *Fixture) pausePrefixes(t *testing.T, w store.PrefixWatch) []store.PrefixPause {
	t.Helper()
	started := Must(f.PausePrefixes(t.Context(), w))(t)
	for i := range started {
		started[i].ID = uuid.Nil
	}
	return started
}

func (f *Fixture) prefixPaused(t *testing.T, app, prefix string) (store.PrefixPause, bool) {
	t.Helper()
	p, found := Must2(f.Replica.PrefixPaused(t.Context(), app, prefix))(t)
	return p, found
}

// Too few codes come back, and far more do elsewhere: paused, here alone, once, for its time.
func watchPauses(t *testing.T, f *Fixture) {
	f.sendTexts(t, 10, 6, text("+86139", "CN")) // what is usual in all
	f.Pass(2 * time.Hour)
	f.sendTexts(t, 10, 0, text("+49151", "DE"))
	f.sendTexts(t, 9, 0, text("+49152", "DE"))                // too few
	f.sendTexts(t, 10, 1, text("+49153", "DE"))               // a tenth is not less than a tenth
	f.sendTexts(t, 11, 1, text("+49154", "DE"))               // this is
	f.sendTexts(t, 10, 5, text("+49155", "DE"))               // as usual
	f.sendTexts(t, 10, 0, text("+49151", "DE"), inApp("gym")) // another app, of which nothing else is known
	f.sendTexts(t, 30, 0)                                     // mails
	f.Pass(10*time.Minute - time.Microsecond)
	Equal(t, "while they may come back", f.pausePrefixes(t, watching), nil)
	f.Pass(time.Microsecond)
	a := store.PrefixPause{App: "shop", Country: "DE", Prefix: "+49154", Since: f.Now, Until: f.Now.Add(time.Hour), Sends: 11, Approved: 1,
		Usual: 60}
	b, c := a, a
	b.App, b.Prefix, b.Sends, b.Approved, b.Usual = "gym", "+49151", 10, 0, store.NoUsual
	c.Prefix, c.Sends, c.Approved = "+49151", 10, 0
	Equal(t, "paused", f.pausePrefixes(t, watching), []store.PrefixPause{a, b, c})
	Equal(t, "again", f.pausePrefixes(t, watching), nil)

	got, found := f.prefixPaused(t, "shop", "+49151")
	c.ID = got.ID
	if !found || Show(got) != Show(c) {
		t.Errorf("%v: %s", found, Show(got))
	}
	for _, other := range [][2]string{{"shop", "+49152"}, {"shop", "+4915"}, {"gym", "+49154"}, {"", "+49151"}} {
		if _, found := f.prefixPaused(t, other[0], other[1]); found {
			t.Errorf("%v is paused", other)
		}
	}
	f.Pass(time.Hour - time.Microsecond)
	if _, found := f.prefixPaused(t, "shop", "+49151"); !found {
		t.Error("not paused in its last microsecond")
	}
	f.Pass(time.Microsecond)
	if _, found := f.prefixPaused(t, "shop", "+49151"); found {
		t.Error("paused beyond its end")
	}
}

// Only what a carrier took, or may have, says something: neither what failed nor what test recipients got.
func watchCounts(t *testing.T, f *Fixture) {
	to := text("+49151", "DE")
	for i, o := range []store.Outcome{
		{Status: store.Failed, Provider: "carrier"}, {Status: store.Sent, Provider: "test"}, {Status: store.Unknown, Provider: "carrier"},
		{Status: store.Sent, Provider: "carrier"},
	} {
		for range 5 {
			o.Held = store.Held{ID: f.Admit(t, f.Intent(i, to)).Send.ID, Attempt: 1}
			f.MustFinish(t, o, true)
			if o.Status == store.Sent && o.Provider == "carrier" {
				Must(f.Receive(t.Context(), o.Held.ID, store.Undelivered))(t)
			}
		}
	}
	f.Admit(t, f.Intent(9, to)) // on its way
	f.Pass(30 * time.Minute)
	started := f.pausePrefixes(t, watching)
	if len(started) != 1 || started[0].Sends != 10 {
		t.Errorf("%s", Show(started))
	}
}

// What lies further back than the time is not counted, to the microsecond.
func watchSlides(t *testing.T, f *Fixture) {
	f.sendTexts(t, 1, 0, text("+49151", "DE"))
	f.Pass(time.Microsecond)
	f.sendTexts(t, 9, 0, text("+49151", "DE"))
	f.Pass(70*time.Minute - time.Microsecond)
	Equal(t, "the first is an hour old", f.pausePrefixes(t, watching), nil)
	w := watching
	w.Within += time.Microsecond
	Equal(t, "and a little more", len(f.pausePrefixes(t, w)), 1)
}

// Where codes seldom come back from anywhere, it says nothing of a prefix. What is usual is counted before, so that
// who attacks a whole country at once does not make it usual.
func watchKnowsWhatIsUsual(t *testing.T, f *Fixture) {
	f.sendTexts(t, 20, 3, text("+86139", "CN"), inApp("notices"))
	f.sendTexts(t, 20, 4, text("+86139", "CN"))
	f.sendTexts(t, 20, 0, text("+49170", "DE"))
	f.Pass(3 * time.Hour)
	f.sendTexts(t, 10, 0, text("+86138", "CN"), inApp("notices")) // 15 percent come back in all
	f.sendTexts(t, 10, 0, text("+86138", "CN"))                   // 20 in the country, 10 in all
	for n := range 5 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4916", n), "DE")) // 0 in the country, 10 in all
	}
	f.Pass(10 * time.Minute)
	started := f.pausePrefixes(t, watching)
	if len(started) != 1 || started[0].App != "shop" || started[0].Prefix != "+86138" || started[0].Usual != 20 {
		t.Errorf("%s", Show(started))
	}
	f.sendTexts(t, 60, 60, text("+33601", "FR")) // too late to be what was usual before
	Equal(t, "started", f.pausePrefixes(t, watching), nil)
	f.Pass(3 * time.Hour)
	for n := range 5 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4916", n), "DE"))
	}
	f.Pass(10 * time.Minute)
	Equal(t, "a country attacked at once", len(f.pausePrefixes(t, watching)), 5)
	f.Pass(8 * 24 * time.Hour)
	f.sendTexts(t, 10, 0, text("+86137", "CN"), inApp("notices"))
	f.Pass(10 * time.Minute)
	started = f.pausePrefixes(t, watching)
	if len(started) != 1 || started[0].Usual != store.NoUsual {
		t.Errorf("after a week: %s", Show(started))
	}
}

// One after the other lasts twice as long, up to a day; one that was lifted does not count.
func watchGrowsStricter(t *testing.T, f *Fixture) {
	for i, hours := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		f.sendTexts(t, 10, 0, text("+49151", "DE"))
		f.Pass(10 * time.Minute)
		started := f.pausePrefixes(t, watching)
		if len(started) != 1 || started[0].Until.Sub(started[0].Since) != hours*time.Hour {
			t.Fatalf("number %d: %s", i, Show(started))
		}
		f.sendTexts(t, 20, 0, text("+49151", "DE")) // during it
		f.Pass(hours*time.Hour + time.Microsecond)
		Equal(t, "of what was sent before its end", f.pausePrefixes(t, watching), nil)
	}
	f.Pass(8 * 24 * time.Hour)
	f.sendTexts(t, 10, 0, text("+49151", "DE"))
	f.Pass(10 * time.Minute)
	started := f.pausePrefixes(t, watching)
	Equal(t, "after a week", started[0].Until.Sub(started[0].Since), time.Hour)
}

func watchLifted(t *testing.T, f *Fixture) {
	f.sendTexts(t, 10, 0, text("+49151", "DE"))
	f.Pass(10 * time.Minute)
	Equal(t, "paused", len(f.pausePrefixes(t, watching)), 1)
	p, _ := f.prefixPaused(t, "shop", "+49151")
	act := &store.AuditEntry{ID: uuid.UUID{1, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: "prefix.lift", Reason: "ours",
		Outcome: store.AuditDone}
	_, _, err := f.LiftPrefix(t.Context(), store.PrefixLifting{ID: uuid.UUID{9}}, act)
	Is(t, err, store.ErrNotFound)
	_, _, err = f.LiftPrefix(t.Context(), store.PrefixLifting{}, act)
	Is(t, err, store.ErrBadRequest)
	_, _, err = f.LiftPrefix(t.Context(), store.PrefixLifting{ID: p.ID}, &store.AuditEntry{})
	Is(t, err, store.ErrBadRequest)
	f.Pass(time.Minute)
	got, done := Must2(f.LiftPrefix(t.Context(), store.PrefixLifting{ID: p.ID, By: "mei\x00", Why: "ours"}, act))(t)
	p.LiftedAt, p.LiftedBy, p.LiftedWhy = f.Now, "mei\uFFFD", "ours"
	if !done || Show(got) != Show(p) {
		t.Errorf("%v: %s", done, Show(got))
	}
	if _, found := f.prefixPaused(t, "shop", "+49151"); found {
		t.Error("still paused")
	}
	act.ID[1] = 1
	got, done = Must2(f.LiftPrefix(t.Context(), store.PrefixLifting{ID: p.ID, By: "another"}, act))(t)
	if done || Show(got) != Show(p) {
		t.Errorf("again, %v: %s", done, Show(got))
	}
	acts := Must(f.AuditEntries(t.Context(), store.AuditFilter{Limit: 10}))(t)
	if len(acts) != 1 || acts[0].Target != "+49151" || acts[0].App != "shop" || acts[0].Channel != recipient.SMS {
		t.Errorf("%s", Show(acts))
	}

	// Not on the same old sends again, nor on those of the time before; but on new ones, and not for longer.
	f.sendTexts(t, 9, 0, text("+49151", "DE"))
	f.Pass(time.Microsecond)
	Equal(t, "at once", f.pausePrefixes(t, watching), nil)
	f.Pass(10 * time.Minute)
	Equal(t, "of nine more", f.pausePrefixes(t, watching), nil)
	f.sendTexts(t, 1, 0, text("+49151", "DE"))
	f.Pass(10 * time.Minute)
	started := f.pausePrefixes(t, watching)
	if len(started) != 0 { // the nine were sent in the very microsecond of the lifting
		t.Errorf("%s", Show(started))
	}
	f.sendTexts(t, 9, 0, text("+49151", "DE"))
	f.Pass(10 * time.Minute)
	started = f.pausePrefixes(t, watching)
	if len(started) != 1 || started[0].Sends != 10 || started[0].Until.Sub(started[0].Since) != time.Hour {
		t.Errorf("%s", Show(started))
	}
}

func watchExempts(t *testing.T, f *Fixture) {
	for _, prefix := range []string{"+49151", "+49160", "+86138"} {
		f.sendTexts(t, 10, 0, text(prefix, "XX"))
	}
	f.Pass(10 * time.Minute)
	w := watching
	w.Exempt = []string{"+86", "+49160", "+491511"}
	started := f.pausePrefixes(t, w)
	if len(started) != 1 || started[0].Prefix != "+49151" {
		t.Errorf("%s", Show(started))
	}
}

// Replicas that watch at once pause a prefix once.
func watchedAtOnce(t *testing.T, f *Fixture) {
	for n := range 3 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4915", n), "DE"))
	}
	f.Pass(10 * time.Minute)
	var mu sync.Mutex
	n := 0
	Together(8, func(i int) {
		started, err := f.Both(i).PausePrefixes(t.Context(), watching)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		n += len(started)
		mu.Unlock()
	})
	list, _ := Must2(f.PrefixPauses(t.Context(), store.PrefixPauseFilter{Limit: 10}))(t)
	if n != 3 || len(list) != 3 {
		t.Errorf("%d started, %d there", n, len(list))
	}
}

func watchList(t *testing.T, f *Fixture) {
	for n := range 3 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4915", n), "DE"))
		f.Pass(10 * time.Minute)
		Equal(t, "started", len(f.pausePrefixes(t, watching)), 1)
	}
	list := func(filter store.PrefixPauseFilter) (prefixes []string) {
		t.Helper()
		if filter.Limit == 0 {
			filter.Limit = 10
		}
		rows, now := Must2(f.PrefixPauses(t.Context(), filter))(t)
		Equal(t, "now", now, f.Now)
		for _, r := range rows {
			prefixes = append(prefixes, r.Prefix)
		}
		return prefixes
	}
	all, _ := Must2(f.PrefixPauses(t.Context(), store.PrefixPauseFilter{Limit: 10}))(t)
	Equal(t, "all", list(store.PrefixPauseFilter{}), []string{"+49152", "+49151", "+49150"})
	Equal(t, "first page", list(store.PrefixPauseFilter{Limit: 2}), []string{"+49152", "+49151"})
	Equal(t, "second page", list(store.PrefixPauseFilter{Before: &store.Mark{At: all[1].Since, ID: all[1].ID}}), []string{"+49150"})
	Must2(f.LiftPrefix(t.Context(), store.PrefixLifting{ID: all[1].ID}, nil))(t)
	f.Pass(41 * time.Minute)
	Equal(t, "active", list(store.PrefixPauseFilter{Active: true}), []string{"+49152"})
	_, _, err := f.PrefixPauses(t.Context(), store.PrefixPauseFilter{})
	Is(t, err, store.ErrBadRequest)
	for _, change := range []func(*store.PrefixWatch){
		func(w *store.PrefixWatch) { w.Sends = 0 }, func(w *store.PrefixWatch) { w.Approved = 0 }, func(w *store.PrefixWatch) { w.Approved = 51 },
		func(w *store.PrefixWatch) { w.Within = 0 },
		func(w *store.PrefixWatch) { w.TTL = -1 }, func(w *store.PrefixWatch) { w.Pause = 0 },
		func(w *store.PrefixWatch) { w.Pause = 25 * time.Hour },
	} {
		w := watching
		change(&w)
		_, err := f.PausePrefixes(t.Context(), w)
		Is(t, err, store.ErrBadRequest)
	}
}

// A send that was stopped tells of the pause that stopped it, also when that is over; others tell of none.
func watchStory(t *testing.T, f *Fixture) {
	f.sendTexts(t, 10, 0, text("+49151", "DE"))
	f.Pass(10 * time.Minute)
	Equal(t, "started", len(f.pausePrefixes(t, watching)), 1)
	p, _ := f.prefixPaused(t, "shop", "+49151")
	end := func(reason string, changes ...func(*store.Intent)) uuid.UUID {
		s := f.Admit(t, f.Intent(50, changes...)).Send
		f.End(t, s.ID, store.Outcome{Status: store.Failed, Reason: reason, Refund: true})
		return s.ID
	}
	stopped := end(store.ReasonPaused, text("+49151", "DE"))
	others := []uuid.UUID{end(store.ReasonPaused), end(store.ReasonPaused, text("+49152", "DE")),
		end(store.ReasonPaused, text("+49151", "DE"), inApp("gym")), end(store.ReasonRejected, text("+49151", "DE"))}
	f.Pass(2 * time.Hour)
	others = append(others, end(store.ReasonPaused, text("+49151", "DE")))
	s := Must(f.Story(t.Context(), stopped))(t)
	if s.Pause == nil || Show(*s.Pause) != Show(p) {
		t.Errorf("%s", Show(s.Pause))
	}
	for i, id := range others {
		if s, err := f.Story(t.Context(), id); err != nil || s.Pause != nil {
			t.Errorf("%d: %s, %v", i, Show(s.Pause), err)
		}
	}
}

func leaseOfOneReplica(t *testing.T, f *Fixture) {
	take := func(i int, name string) bool {
		mine := Must(f.Both(i).AcquireLease(t.Context(), name, time.Minute))(t)
		return mine
	}
	var mu sync.Mutex
	n := 0
	Together(8, func(i int) {
		if mine, err := f.Both(i).AcquireLease(t.Context(), "work", time.Minute); err != nil || mine {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	Equal(t, "turns", n, 1)
	Equal(t, "another work", take(0, "other"), true)
	f.Pass(time.Minute - time.Microsecond)
	Equal(t, "before its end", take(1, "work"), false)
	f.Pass(time.Microsecond)
	Equal(t, "at its end", take(1, "work"), true)
	Equal(t, "for the other", take(0, "work"), false)
	_, err := f.AcquireLease(t.Context(), "", time.Minute)
	Is(t, err, store.ErrBadRequest)
	_, err = f.AcquireLease(t.Context(), "work", 0)
	Is(t, err, store.ErrBadRequest)
}
