package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// WithID gives a send the ID that a process makes whose clock differs by drift from the database's.
func WithID(f *Fixture, drift time.Duration) func(*store.Intent) {
	return func(in *store.Intent) {
		lowest := store.LowestID(f.Now.Add(drift))
		copy(in.Send.ID[:6], lowest[:6])
	}
}

// driftedIDs checks that a send is refused, and leaves no row, if the time in its ID is far from
// the database's: reads that skip other times would miss the row. A Begin of an existing send gets
// an answer, however much later.
func driftedIDs(t *testing.T, f *Fixture) {
	for _, drift := range []time.Duration{
		-store.MaxIDTimeDrift - time.Millisecond, store.MaxIDTimeDrift + 2*time.Millisecond,
		-60 * 24 * time.Hour,
		60 * 24 * time.Hour,
	} {
		_, err := f.Begin(t.Context(), f.Intent(1, WithID(f, drift), WithRules(Rule(1, time.Hour))))
		Certain(t, err)
		Is(t, err, store.ErrIDTimeDrift)
	}
	Equal(t, "rows", len(f.All(t)), 0)
	in := f.Intent(1, WithID(f, time.Millisecond-store.MaxIDTimeDrift))
	begun := f.Admit(t, in)
	f.Admit(t, f.Intent(1, WithID(f, store.MaxIDTimeDrift-time.Millisecond)))
	f.Pass(3 * 24 * time.Hour)
	again := f.Admit(t, in)
	Equal(t, "repeated", again.Repeated, true)
	Equal(t, "rows", len(f.All(t)), 2)
	Equal(t, "send", again.Send, begun.Send)
}

// windowOverPartitions checks that a window of a month counts the sends in different partitions,
// exactly to the microsecond, whatever clock made the IDs.
func windowOverPartitions(t *testing.T, f *Fixture) {
	const day, month = 24 * time.Hour, 30 * 24 * time.Hour
	rules := WithRules(Rule(4, month))
	f.Pass(20 * day)
	first := f.Now
	for i, drift := range []time.Duration{-store.MaxIDTimeDrift + time.Minute, store.MaxIDTimeDrift - time.Minute, 0, -time.Hour} {
		f.Admit(t, f.Intent(1, rules, WithID(f, drift)))
		f.Pass([]time.Duration{15 * day, 4 * day, 6 * day, day}[i]) // past the partitions' border 40 days after Epoch
	}
	Equal(t, "history", len(f.Refuse(t, f.Intent(1, rules)).History), 4)
	f.Pass(month - f.Now.Sub(first) - time.Microsecond)
	f.Refuse(t, f.Intent(1, rules))
	counts := func() {
		t.Helper()
		events := Must(f.History(t.Context(), ana, month))(t).Past
		Equal(t, "events", len(events), 4)
	}
	counts()
	f.Pass(time.Microsecond)
	f.Admit(t, f.Intent(1, rules))
	counts()
}

// pagesOverPartitions checks that pages cross the borders of partitions in both directions: no row
// comes twice, and none is left out.
func pagesOverPartitions(t *testing.T, f *Fixture) {
	var want []uuid.UUID
	for i := range 30 {
		in := f.Intent(i, WithID(f, []time.Duration{0, -store.MaxIDTimeDrift + time.Hour, store.MaxIDTimeDrift - time.Hour}[i%3]))
		want = append(want, f.Admit(t, in).Send.ID)
		f.Pass(40 * time.Hour) // past the partitions' borders: a minute, an hour and 40 days after Epoch
	}
	for _, filter := range []store.Filter{{}, {App: "shop"}, {From: Epoch.Add(-time.Hour), To: f.Now}} {
		filter.Limit = 4
		Equal(t, "down", reversed(IDs(f.pages(t, filter, false))), want)
		filter.After = &store.Cursor{At: Epoch.Add(-time.Hour)}
		Equal(t, "up", reversed(IDs(f.pages(t, filter, true))), want)
	}
	Equal(t, "opened", Must(f.Stats(t.Context(), store.StatsQuery{From: Epoch, To: f.Now, IntervalLength: 24 * time.Hour}))(t).Opened, 30)
}

// storageStatus checks that StorageStatus reports the oldest row, and the rows that are due for
// deletion.
func storageStatus(t *testing.T, f *Fixture) {
	look := func() store.StorageStatus {
		e := Must(f.StorageStatus(t.Context(), time.Hour))(t)
		if e.Bytes < 4096 {
			t.Errorf("the database has %d bytes", e.Bytes)
		}
		e.Partitions, e.Bytes = nil, 0
		return e
	}
	Equal(t, "empty", look(), store.StorageStatus{Now: f.Now, Age: time.Hour})
	refused := f.Now
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)}))
	f.saveLimiterEvents(t, f.limiterEvent("b", "1", time.Millisecond)) // such an event has its own end, and never counts as due
	Equal(t, "a refusal", look(), store.StorageStatus{Now: f.Now, Age: time.Hour, Oldest: refused})
	f.Pass(time.Second)
	Equal(t, "an event of the limiter has ended", look().Due, 0)
	f.Ended(t, f.Intent(1), Sent)
	inFlight := f.Admit(t, f.Intent(2))
	f.Pass(time.Hour + store.MaxCodeLife - time.Second)
	f.Admit(t, f.Intent(3))
	Equal(t, "not yet due", look(), store.StorageStatus{Now: f.Now, Age: time.Hour, Oldest: refused})
	f.Pass(time.Second + time.Microsecond)
	OK(t, f.Erase(t.Context(), recipient.Hash{15: 3}, time.Minute, f.Act()))
	due := store.StorageStatus{Now: f.Now, Age: time.Hour, Oldest: refused, Forgetting: 1}
	Equal(t, "due", look(), due)
	f.Pass(time.Hour)
	due.Now, due.Due = f.Now, 1
	Equal(t, "due for an hour", look(), due)
	f.Pass(time.Minute)
	f.expireAndCheck(t, time.Hour, 10, 2)
	Equal(t, "expired", look(), store.StorageStatus{
		Now: f.Now, Age: time.Hour, Oldest: inFlight.Send.LoggedAt,
		Forgetting: 1, ForgettingDue: 1,
	})
	Equal(t, "kept for ever", Must(f.StorageStatus(t.Context(), 0))(t).Due, 0)
	until := Must(f.EnsurePartitions(t.Context()))(t)
	if !until.IsZero() && until.Before(time.Now().Add(60*24*time.Hour)) {
		t.Errorf("room until %v", until)
	}
}

// idleReplicaSeesOthers checks that a replica counts the sends of others after it was idle for
// weeks, and after the database's clock was set back by weeks.
func idleReplicaSeesOthers(t *testing.T, f *Fixture) {
	rules := WithRules(Rule(1, time.Hour))
	f.Admit(t, f.Intent(1, rules))
	f.Pass(45 * 24 * time.Hour)
	Equal(t, "admitted", Must(f.Replica.Begin(t.Context(), f.Intent(1, rules)))(t).Admitted, true)
	f.Refuse(t, f.Intent(1, rules))
	f.Pass(-29 * 24 * time.Hour)
	for i := range 2 {
		Equal(t, "admitted before what was sent", Must(f.Both(i).Begin(t.Context(), f.Intent(1, rules)))(t).Admitted, false)
	}
	f.Pass(29*24*time.Hour + time.Hour)
	f.Admit(t, f.Intent(1, rules))
}
