package audit

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/quota"
)

// withID gives a send the ID that a process with another clock than the log's would give it.
func withID(f *fixture, drift time.Duration) func(*Intent) {
	return func(in *Intent) {
		lowest := lowestID(f.now.Add(drift))
		copy(in.Send.ID[:6], lowest[:6])
	}
}

// A send whose ID does not begin with about the log's time is refused, and nothing is left of it: reads that leave other times out
// would miss it. One that is there already is answered, however much later.
func driftedIDs(t *testing.T, f *fixture) {
	for _, drift := range []time.Duration{-maxDrift - time.Millisecond, maxDrift + 2*time.Millisecond, -60 * 24 * time.Hour, 60 * 24 * time.Hour} {
		_, err := f.Begin(t.Context(), f.intent(1, withID(f, drift), withRules(rule(1, time.Hour))))
		is(t, err, ErrUnavailable)
		is(t, err, ErrDrift)
		if errors.Is(err, ErrUncertain) {
			t.Errorf("by %v: not known whether it was written: %v", drift, err)
		}
	}
	equal(t, "rows", len(f.all(t)), 0)
	in := f.intent(1, withID(f, time.Millisecond-maxDrift))
	begun := f.admit(t, in)
	f.admit(t, f.intent(1, withID(f, maxDrift-time.Millisecond)))
	f.pass(3 * 24 * time.Hour)
	again := f.admit(t, in)
	equal(t, "repeated", again.Repeated, true)
	equal(t, "rows", len(f.all(t)), 2)
	equal(t, "send", again.Send, begun.Send)
	other := in
	other.Send.App = "other"
	_, err := f.Begin(t.Context(), other)
	is(t, err, ErrBadRequest)
}

// A window of a month counts to the microsecond what lies in several partitions, whatever clock made the IDs.
func windowOverMonths(t *testing.T, f *fixture) {
	const day, month = 24 * time.Hour, 30 * 24 * time.Hour
	rules := withRules(rule(4, month))
	f.pass(20 * day)
	first := f.now
	for i, drift := range []time.Duration{-maxDrift + time.Minute, maxDrift - time.Minute, 0, -time.Hour} {
		f.admit(t, f.intent(1, rules, withID(f, drift)))
		f.pass([]time.Duration{15 * day, 4 * day, 6 * day, day}[i]) // past the border 40 days after the epoch
	}
	refused := f.refuse(t, f.intent(1, rules))
	equal(t, "history", len(refused.History), 4)
	f.pass(month - f.now.Sub(first) - time.Microsecond)
	f.refuse(t, f.intent(1, rules))
	events, _, err := f.History(t.Context(), Bucket{"shop", "email", refusedHash(1), []string{"login"}}, month)
	ok(t, err)
	equal(t, "events", len(events), 4)
	f.pass(time.Microsecond)
	f.admit(t, f.intent(1, rules))
	events, _, err = f.History(t.Context(), Bucket{"shop", "email", refusedHash(1), []string{"login"}}, month)
	ok(t, err)
	equal(t, "events", len(events), 4)
	seen := 0
	ok(t, f.Counting(t.Context(), LogClock, month, func(Counting) error { seen++; return nil }))
	equal(t, "counting", seen, 4)
	crowd, _, err := f.Crowds(t.Context(), CrowdQuery{Purposes: []string{"login"}, Within: month, AtLeast: 4, Limit: 10})
	ok(t, err)
	equal(t, "crowds", len(crowd), 1)
}

func refusedHash(n byte) (h [16]byte) {
	h[15] = n
	return h
}

// What was rejected counts over a border just so, from its end on.
func rejectedOverMonths(t *testing.T, f *fixture) {
	const day = 24 * time.Hour
	rejections := func(in *Intent) { in.Rejections = quota.Rule{Name: "failures", Limit: 2, Window: 20 * day} }
	f.pass(39 * day)
	for range 2 {
		begun := f.admit(t, f.intent(1, rejections))
		f.pass(5 * time.Minute)
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
		f.pass(2 * day)
	}
	f.refuse(t, f.intent(1, rejections))
	f.pass(16*day - 5*time.Minute - time.Microsecond)
	f.refuse(t, f.intent(1, rejections))
	f.pass(time.Microsecond)
	f.admit(t, f.intent(1, rejections))
}

// Pages go over borders in both directions, with no row twice or left out.
func pagesOverMonths(t *testing.T, f *fixture) {
	var want []uuid.UUID
	for i := range 30 {
		in := f.intent(i, withID(f, []time.Duration{0, -maxDrift + time.Hour, maxDrift - time.Hour}[i%3]))
		want = append(want, f.admit(t, in).Send.ID)
		f.pass(1500 * time.Minute) // 30 times: past all borders
	}
	for _, filter := range []Filter{{}, {App: "shop"}, {From: epoch.Add(-time.Hour), To: f.now}} {
		filter.Limit = 4
		var down, up []uuid.UUID
		for {
			page, err := f.Sends(t.Context(), filter)
			ok(t, err)
			if len(page) == 0 {
				break
			}
			down = append(down, ids(page)...)
			last := page[len(page)-1]
			filter.Before = &Mark{last.LoggedAt, last.ID}
		}
		equal(t, "down", reversed(down), want)
		filter.Before = nil
		filter.After = &Mark{At: epoch.Add(-time.Hour)}
		for {
			page, err := f.Sends(t.Context(), filter)
			ok(t, err)
			if len(page) == 0 {
				break
			}
			up = append(up, reversed(ids(page))...)
			filter.After = &Mark{page[0].LoggedAt, page[0].ID}
		}
		equal(t, "up", up, want)
	}
	stats, err := f.Stats(t.Context(), StatsQuery{From: epoch, To: f.now, Each: 24 * time.Hour})
	ok(t, err)
	equal(t, "opened", stats.Opened, 30)
}

// Every refusal is accounted for, also one of a process whose clock is wrong.
func driftedRefusals(t *testing.T, f *fixture) {
	for n, drift := range []time.Duration{0, -90 * 24 * time.Hour, 300 * 24 * time.Hour} {
		r := f.refusal(n, nil)
		lowest := lowestID(f.now.Add(drift))
		copy(r.ID[:6], lowest[:6])
		ok(t, f.Refused(t.Context(), []Send{r}))
		ok(t, f.Refused(t.Context(), []Send{r}))
	}
	requests := 0
	for _, s := range f.all(t) {
		requests += s.Count
		ok(t, drifted(s.ID, f.now))
	}
	equal(t, "requests", requests, 6)
	begun := f.admit(t, f.intent(4))
	f.pass(maxDrift + time.Hour)
	r := f.refusal(4, nil)
	for _, want := range []int{5, 5} { // too late to be taken for that send, and then for the same refusal
		r.ID = begun.Send.ID
		ok(t, f.Refused(t.Context(), []Send{r}))
		equal(t, "rows", len(f.all(t)), want)
	}
	equal(t, "send", f.row(t, begun.Send.ID), begun.Send)
}

// What the log holds, and what has to be done.
func extents(t *testing.T, f *fixture) {
	look := func() Extent {
		e, err := f.Extent(t.Context(), time.Hour)
		ok(t, err)
		e.Partitions = nil
		return e
	}
	equal(t, "empty", look(), Extent{Now: f.now, Age: time.Hour})
	old := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{old.Send.ID, 1}, Status: Sent}, true)
	flying := f.admit(t, f.intent(2))
	f.pass(time.Hour + maxLife)
	f.admit(t, f.intent(3))
	equal(t, "not yet due", look(), Extent{Now: f.now, Age: time.Hour, Oldest: old.Send.LoggedAt})
	f.pass(time.Microsecond)
	ok(t, f.Erase(t.Context(), refusedHash(3), time.Minute, f.act()))
	equal(t, "due", look(), Extent{Now: f.now, Age: time.Hour, Oldest: old.Send.LoggedAt, Due: 1, Forgetting: 1})
	f.pass(time.Minute)
	f.expire(t, time.Hour, 10, 1)
	equal(t, "expired", look(), Extent{Now: f.now, Age: time.Hour, Oldest: flying.Send.LoggedAt, Forgetting: 1, Late: 1})
	e, err := f.Extent(t.Context(), 0)
	ok(t, err)
	equal(t, "kept for ever", e.Due, 0)
	until, err := f.MakeRoom(t.Context())
	ok(t, err)
	if !until.IsZero() && until.Before(time.Now().Add(60*24*time.Hour)) {
		t.Errorf("room until %v", until)
	}
}

func TestIDs(t *testing.T) {
	var g IDs
	at := time.Date(2030, 3, 1, 12, 0, 0, 123457000, time.UTC)
	var last uuid.UUID
	for i := range 10_000 {
		id, err := g.New(at.Add(time.Duration(i/100) * 100 * time.Nanosecond))
		if err != nil {
			t.Fatal(err)
		}
		if id.String() <= last.String() || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("%v after %v", id, last)
		}
		last = id
	}
	if ahead := int64(binary.BigEndian.Uint64(last[:8])>>16) - at.UnixMilli(); ahead > 5 {
		t.Errorf("%d ms ahead of its clock", ahead)
	}
	id, err := g.New(at.Add(-time.Hour)) // the clock was set right
	if err != nil {
		t.Fatal(err)
	}
	if low, high := lowestID(at.Add(-time.Hour)), lowestID(at.Add(-time.Hour+time.Millisecond)); id.String() < low.String() || id.String() >= high.String() {
		t.Errorf("%v goes on with the wrong hour", id)
	}
}

// A replica that was idle for weeks, or whose log's clock was set back for weeks, counts what others sent meanwhile.
func idleReplica(t *testing.T, f *fixture) {
	rules := withRules(rule(1, time.Hour))
	f.admit(t, f.intent(1, rules))
	f.pass(45 * 24 * time.Hour)
	begun, err := f.replica.Begin(t.Context(), f.intent(1, rules))
	ok(t, err)
	equal(t, "admitted", begun.Admitted, true)
	f.refuse(t, f.intent(1, rules))
	f.pass(-29 * 24 * time.Hour)
	for i := range 2 {
		begun, err := f.both(i).Begin(t.Context(), f.intent(1, rules))
		ok(t, err)
		equal(t, "admitted before what was sent", begun.Admitted, false)
	}
	f.pass(29*24*time.Hour + time.Hour)
	f.admit(t, f.intent(1, rules))
}
