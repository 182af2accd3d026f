package storetest

import (
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

func statsOfTimeRange(t *testing.T, f *Fixture) {
	hour := f.Now.Truncate(time.Hour).Add(time.Hour)
	f.Pass(hour.Sub(f.Now))
	begin := f.Now
	end := func(n int, took time.Duration, o store.Outcome, changes ...func(*store.Intent)) store.BeginAnswer {
		begun := f.Admit(t, f.Intent(n, changes...))
		f.Pass(took)
		f.End(t, begun.Send.ID, o)
		return begun
	}
	first := end(1, time.Second, Sent)
	// at once, and of the same code
	f.Ended(t, f.Intent(1, func(in *store.Intent) { in.Join = first.Verification.ID }), Sent)
	end(2, 3*time.Second, Sent, inApp("desk"))
	end(3, 2*time.Second, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true})
	f.approve(t, first.Verification.ID)
	end(7, time.Second, Sent, withCode("sealed"), inApp("desk")) // counts as a send, and not as a code that was opened
	for range 2 {
		OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, func(s *store.SendOrRefusal) { s.Count = 3 })}))
	}
	f.Pass(begin.Add(time.Hour).Sub(f.Now)) // the next stretch begins
	lost := end(4, 4*time.Second, store.Outcome{Status: store.Unknown, Reason: "no_answer"}, bySMS)
	f.receiveReceipt(t, lost.Send.ID, store.Undelivered, true)
	f.Admit(t, f.Intent(5)) // under way
	f.Pass(begin.Add(2 * time.Hour).Sub(f.Now))
	end(6, time.Second, Sent) // after the time that is asked for

	ask := func(q store.StatsQuery, want store.Stats) {
		t.Helper()
		q.From, q.To, q.Each = begin, begin.Add(2*time.Hour), time.Hour
		got := Must(f.Stats(t.Context(), q))(t)
		timesNear(t, &got.Measures, want.Measures)
		for i := range min(len(got.Intervals), len(want.Intervals)) {
			timesNear(t, &got.Intervals[i].Measures, want.Intervals[i].Measures)
		}
		Equal(t, "statistics", got, want)
	}
	next := begin.Add(time.Hour)
	ask(store.StatsQuery{}, store.Stats{
		Tallies: []store.Tally{
			{At: begin, Status: store.Failed, Reason: store.ReasonRejected, Rows: 1, Requests: 1},
			{At: begin, Status: store.Refused, BlockedBy: "minute", Rows: 2, Requests: 6},
			{At: begin, Status: store.Sent, Rows: 4, Requests: 4},
			{At: next, Status: store.Sending, Rows: 1, Requests: 1},
			{At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1},
		},
		Intervals: []store.StatsInterval{{At: begin,
			Measures: store.Measures{Opened: 3, Approved: 1, Median: time.Second, P95: 3 * time.Second}},
			{At: next, Measures: store.Measures{Opened: 2}}},
		Measures: store.Measures{Opened: 5, Approved: 1, Median: time.Second, P95: 3 * time.Second}, Undelivered: 1,
	})
	desk, texts := store.Measures{Opened: 1, Approved: 0, Median: time.Second, P95: 3 * time.Second},
		store.Measures{Opened: 1}
	ask(store.StatsQuery{App: "desk"},
		store.Stats{Tallies: []store.Tally{{At: begin, Status: store.Sent, Rows: 2, Requests: 2}},
			Intervals: []store.StatsInterval{{At: begin, Measures: desk}}, Measures: desk})
	ask(store.StatsQuery{Channel: recipient.SMS}, store.Stats{
		Tallies:   []store.Tally{{At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1}},
		Intervals: []store.StatsInterval{{At: next, Measures: texts}}, Measures: texts, Undelivered: 1,
	})
	ask(store.StatsQuery{Purpose: "nothing"}, store.Stats{})
	for by, want := range map[store.Dimension][]store.ApprovalTally{
		store.ByApp:     {{Value: "shop", Opened: 4, Approved: 1}, {Value: "desk", Opened: 1}},
		store.ByPurpose: {{Value: "login", Opened: 5, Approved: 1}},
		store.ByDomain:  {{Value: "example.com", Opened: 5, Approved: 1}},
		store.ByCountry: nil, store.ByCarrier: nil,
	} {
		q := store.StatsQuery{From: begin, To: begin.Add(2 * time.Hour), Each: time.Hour}
		Equal(t, "codes by "+string(by), Must(f.ApprovalsBy(t.Context(), q, by))(t), want)
		q.App = "desk"
		Equal(t, "of one app by "+string(by), len(Must(f.ApprovalsBy(t.Context(), q, by))(t)), min(1, len(want)))
	}
	for n, to := range []string{"b•••@example.org", "+49 151•••021"} {
		f.Ended(t, f.Intent(7+n, func(in *store.Intent) { in.Send.To = to }),
			store.Outcome{Status: store.Failed, Reason: "expired"})
	}
	for _, c := range []struct {
		q    store.StatsQuery
		want []store.DomainTally
	}{
		{store.StatsQuery{To: begin.Add(2 * time.Hour)},
			[]store.DomainTally{{Domain: "example.com", Sends: 7, Failed: 1, Rejected: 1}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour)},
			[]store.DomainTally{{Domain: "example.com", Sends: 8, Failed: 1, Rejected: 1},
				{Domain: "example.org", Sends: 1, Failed: 1, Rejected: 0}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour), App: "desk"}, nil},
	} {
		c.q.From, c.q.Each = begin, time.Hour
		Equal(t, "domains", Must(f.DomainTallies(t.Context(), c.q))(t), c.want)
	}
}

// timesNear has delivery times that are told within 2 % count as the same.
func timesNear(t *testing.T, got *store.Measures, want store.Measures) {
	t.Helper()
	for told, is := range map[*time.Duration]time.Duration{&got.Median: want.Median, &got.P95: want.P95} {
		if off := *told - is; max(off, -off) > is/50+time.Microsecond {
			t.Errorf("%s, want %s", *told, is)
		}
		*told = is
	}
}

// Days begin at the midnights of their zone, also on the day that its clocks change.
func daysOfZone(t *testing.T, f *Fixture) {
	zone := Must(time.LoadLocation("America/New_York"))(t)
	midnight := func(day int) time.Time { return time.Date(2030, 3, day, 0, 0, 0, 0, zone).UTC() }
	var want []time.Time
	for n, at := range []time.Time{midnight(9).Add(-time.Second), midnight(9), midnight(10).Add(-time.Second),
		midnight(10), midnight(11).Add(-time.Second),
		midnight(11)} {
		f.Pass(at.Sub(f.Now))
		f.Ended(t, f.Intent(n), Sent)
		want = append(want, midnight(8+(n+1)/2))
	}
	f.Pass(3 * time.Hour)
	ask := func(when string) {
		t.Helper()
		q := store.StatsQuery{From: midnight(8), To: f.Now, Each: 24 * time.Hour, Zone: zone}
		got := Must(f.Stats(t.Context(), q))(t)
		var days []time.Time
		for _, x := range got.Tallies {
			for range x.Rows {
				days = append(days, x.At)
			}
		}
		Equal(t, when+", days of tallies", days, want)
		Equal(t, when+", days of measures", got.Intervals[2].At, midnight(10))
	}
	ask("from rows")
	Must(f.CountHours(t.Context(), 10*time.Minute, 80*time.Hour, 1000))(t)
	ask("counted")
}
