package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func statsOfTimeRange(t *testing.T, f *Fixture) {
	hour := f.Now.Truncate(time.Hour).Add(time.Hour)
	f.Pass(hour.Sub(f.Now))
	begin := f.Now
	end := func(n int, took time.Duration, o store.Outcome, changes ...func(*store.Intent)) store.Begun {
		begun := f.Admit(t, f.Intent(n, changes...))
		f.Pass(took)
		f.End(t, begun.Send.ID, o)
		return begun
	}
	first := end(1, time.Second, Sent)
	f.Ended(t, f.Intent(1, func(in *store.Intent) { in.Join = first.Verification.ID }), Sent) // at once, and of the same code
	end(2, 3*time.Second, Sent, inApp("desk"))
	end(3, 2*time.Second, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true})
	f.approve(t, first.Verification.ID)
	for range 2 {
		OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(1, func(s *store.Send) { s.Count = 3 })}))
	}
	f.Pass(begin.Add(time.Hour).Sub(f.Now)) // the next stretch begins
	end(4, 4*time.Second, store.Outcome{Status: store.Unknown, Reason: "no_answer"}, bySMS)
	f.Admit(t, f.Intent(5)) // under way
	f.Pass(begin.Add(2 * time.Hour).Sub(f.Now))
	end(6, time.Second, Sent) // after the time that is asked for

	ask := func(q store.StatsQuery, want store.Stats) {
		t.Helper()
		q.From, q.To, q.Each = begin, begin.Add(2*time.Hour), time.Hour
		Equal(t, "statistics", Must(f.Stats(t.Context(), q))(t), want)
	}
	next := begin.Add(time.Hour)
	ask(store.StatsQuery{}, store.Stats{
		Tallies: []store.Tally{
			{At: begin, Status: store.Failed, Reason: store.ReasonRejected, Rows: 1, Requests: 1},
			{At: begin, Status: store.Refused, BlockedBy: "minute", Rows: 2, Requests: 6},
			{At: begin, Status: store.Sent, Rows: 3, Requests: 3},
			{At: next, Status: store.Sending, Rows: 1, Requests: 1}, {At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1},
		},
		Intervals: []store.Interval{{At: begin, Measures: store.Measures{Opened: 3, Approved: 1, Median: time.Second, P95: 3 * time.Second}},
			{At: next, Measures: store.Measures{Opened: 2}}},
		Measures: store.Measures{Opened: 5, Approved: 1, Median: time.Second, P95: 3 * time.Second},
	})
	desk, texts := store.Measures{Opened: 1, Approved: 0, Median: 3 * time.Second, P95: 3 * time.Second}, store.Measures{Opened: 1}
	ask(store.StatsQuery{App: "desk"}, store.Stats{Tallies: []store.Tally{{At: begin, Status: store.Sent, Rows: 1, Requests: 1}},
		Intervals: []store.Interval{{At: begin, Measures: desk}}, Measures: desk})
	ask(store.StatsQuery{Channel: recipient.SMS}, store.Stats{
		Tallies:   []store.Tally{{At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1}},
		Intervals: []store.Interval{{At: next, Measures: texts}}, Measures: texts,
	})
	ask(store.StatsQuery{Purpose: "nothing"}, store.Stats{})
	for by, want := range map[store.Dimension][]store.ApprovalTally{
		store.ByApp:     {{Value: "shop", Opened: 4, Approved: 1}, {Value: "desk", Opened: 1}},
		store.ByPurpose: {{Value: "login", Opened: 5, Approved: 1}}, store.ByDomain: {{Value: "example.com", Opened: 5, Approved: 1}},
		store.ByCountry: nil, store.ByCarrier: nil,
	} {
		q := store.StatsQuery{From: begin, To: begin.Add(2 * time.Hour), Each: time.Hour}
		Equal(t, "codes by "+string(by), Must(f.ApprovalsBy(t.Context(), q, by))(t), want)
		q.App = "desk"
		Equal(t, "of one app by "+string(by), len(Must(f.ApprovalsBy(t.Context(), q, by))(t)), min(1, len(want)))
	}
	for n, to := range []string{"b•••@example.org", "+49 151•••021"} {
		f.Ended(t, f.Intent(7+n, func(in *store.Intent) { in.Send.To = to }), store.Outcome{Status: store.Failed, Reason: "expired"})
	}
	for _, c := range []struct {
		q    store.StatsQuery
		want []store.DomainTally
	}{
		{store.StatsQuery{To: begin.Add(2 * time.Hour)}, []store.DomainTally{{Domain: "example.com", Sends: 6, Failed: 1, Rejected: 1}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour)}, []store.DomainTally{{Domain: "example.com", Sends: 7, Failed: 1, Rejected: 1},
			{Domain: "example.org", Sends: 1, Failed: 1, Rejected: 0}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour), App: "desk"}, nil},
	} {
		c.q.From, c.q.Each = begin, time.Hour
		Equal(t, "domains", Must(f.Domains(t.Context(), c.q))(t), c.want)
	}
}

// Days begin at the midnights of their zone, also on the day that its clocks change.
func daysOfZone(t *testing.T, f *Fixture) {
	zone := Must(time.LoadLocation("America/New_York"))(t)
	midnight := func(day int) time.Time { return time.Date(2030, 3, day, 0, 0, 0, 0, zone).UTC() }
	var want []time.Time
	for n, at := range []time.Time{midnight(9).Add(-time.Second), midnight(9), midnight(10).Add(-time.Second), midnight(10), midnight(11).Add(-time.Second),
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
	Must(f.CountHours(t.Context(), 1000*time.Hour, 1000))(t)
	ask("counted")
}

// Text messages that a carrier took, or may have, and says were lost are counted beside what was sent.
func lostTextsCounted(t *testing.T, f *Fixture) {
	from := f.Now.Truncate(time.Hour)
	text := func(o store.Outcome, said store.Status, changes ...func(*store.Intent)) {
		t.Helper()
		id := f.Ended(t, f.Intent(1, append(changes, bySMS)...), o).Send.ID
		if said != "" {
			f.receiveReceipt(t, id, said, true)
		}
	}
	text(Sent, store.Undelivered)
	text(Sent, store.Undelivered, inApp("desk"))
	text(Sent, store.Delivered)
	text(Sent, "")
	text(store.Outcome{Status: store.Unknown, Reason: "no_answer"}, store.Undelivered)
	late := f.Admit(t, f.Intent(1, bySMS)).Send.ID
	f.receiveReceipt(t, late, store.Undelivered, true)
	f.End(t, late, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected}) // which the carrier says of the attempt itself
	f.Pass(from.Add(time.Hour).Sub(f.Now))
	text(Sent, store.Undelivered) // an hour later
	for _, c := range []struct {
		q    store.StatsQuery
		want int
	}{
		{store.StatsQuery{To: from.Add(time.Hour)}, 3}, {store.StatsQuery{To: from.Add(2 * time.Hour)}, 4},
		{store.StatsQuery{To: from.Add(time.Hour), App: "desk"}, 1}, {store.StatsQuery{To: from.Add(time.Hour), Channel: recipient.Email}, 0},
	} {
		c.q.From, c.q.Each = from, time.Hour
		Equal(t, "lost", Must(f.Stats(t.Context(), c.q))(t).Undelivered, c.want)
	}
}

// Traffic is some hours of everything that statistics tell apart, some of it under way still.
func Traffic(t *testing.T, f *Fixture, hours int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(hours)))
	for n := range hours * 12 {
		in := f.Intent(n, func(in *store.Intent) {
			in.Send.App = []string{"shop", "shop", "desk"}[random.IntN(3)]
			in.Send.To = fmt.Sprintf("a•••@%c.example", 'a'+rune(random.IntN(14)))
			if random.IntN(5) == 0 {
				in.Send.Channel, in.Send.To, in.Send.Country, in.Send.Prefix = recipient.SMS, "+49 151•••021", "DE", "+49151"
			}
		})
		begun := f.Admit(t, in)
		again := f.Intent(n, func(again *store.Intent) {
			again.Send.App, again.Send.Channel, again.Send.To, again.Join = in.Send.App, in.Send.Channel, in.Send.To, begun.Verification.ID
		})
		f.Pass(time.Duration(random.IntN(150)) * time.Second)
		outcomes := []store.Outcome{{Status: store.Failed, Reason: store.ReasonRejected, Refund: true}, {Status: store.Failed, Reason: "expired"},
			{Status: store.Unknown, Reason: "no_answer"}, {Status: store.Sent, Provider: []string{"mx1", "mx2"}[n%2]}}
		o := outcomes[min(random.IntN(8), 3)]
		f.End(t, begun.Send.ID, o)
		if o.Status == store.Sent {
			if random.IntN(2) == 0 {
				f.Ended(t, again, Sent)
			}
			if random.IntN(3) > 0 {
				f.approve(t, begun.Verification.ID)
			}
		}
		if random.IntN(3) == 0 {
			OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(n, func(s *store.Send) {
				s.Count, s.BlockedBy = 1+random.IntN(9), []string{"minute", "day"}[random.IntN(2)]
			})}))
		}
		f.Pass(time.Duration(random.IntN(400)) * time.Second)
	}
}

// statsQueries are of times that begin and end within hours, and of parts of what there is.
func statsQueries(from, to time.Time) []store.StatsQuery {
	return []store.StatsQuery{
		{From: from, To: to, Each: time.Hour}, {From: from.Add(17 * time.Minute), To: to, Each: 24 * time.Hour},
		{From: from.Add(time.Hour + time.Microsecond), To: to.Add(-3*time.Hour - 11*time.Minute), Each: time.Hour},
		{From: from, To: to.Add(-4 * time.Hour), Each: 24 * time.Hour, App: "desk"}, {From: from, To: to, Each: time.Hour, App: "desk"},
		{From: from, To: to, Each: 24 * time.Hour, Channel: recipient.SMS}, {From: from.Add(17 * time.Minute), To: to, Each: time.Hour, Purpose: "login"},
		{From: from, To: to, Each: time.Hour, Purpose: "nothing"},
	}
}

// mergeTallies has the tallies of one kind and time as one.
func mergeTallies(tallies []store.Tally) (sum []store.Tally) {
	slices.SortStableFunc(tallies, store.CompareTallies)
	for _, x := range tallies {
		if n := len(sum) - 1; n >= 0 && store.CompareTallies(sum[n], x) == 0 {
			sum[n].Rows, sum[n].Requests = sum[n].Rows+x.Rows, sum[n].Requests+x.Requests
		} else {
			sum = append(sum, x)
		}
	}
	return sum
}

// statsEqualRows asks each question, and of its rows, which stretches of a minute are always read from.
func statsEqualRows(t *testing.T, f *Fixture, when string, asked []store.StatsQuery) {
	t.Helper()
	for _, q := range asked {
		got := Must(f.Stats(t.Context(), q))(t)
		by := Must(f.Domains(t.Context(), q))(t)
		each := q.Each
		q.Each = time.Minute
		rows := Must(f.Stats(t.Context(), q))(t)
		domains := Must(f.Domains(t.Context(), q))(t)
		for i := range rows.Tallies {
			rows.Tallies[i].At = rows.Tallies[i].At.Truncate(each)
		}
		want := store.Stats{Tallies: mergeTallies(rows.Tallies)}
		want.Undelivered, want.Measures = rows.Undelivered, rows.Measures
		for _, x := range got.Intervals {
			part := q
			part.From, part.To = later(q.From, x.At), q.To
			if end := x.At.Add(each); end.Before(q.To) {
				part.To = end
			}
			alone := Must(f.Stats(t.Context(), part))(t)
			want.Intervals = append(want.Intervals, store.Interval{At: x.At, Measures: alone.Measures})
		}
		ReplaceIfNear(t, &got, want)
		Equal(t, fmt.Sprintf("%s, statistics of %+v", when, q), got, want)
		Equal(t, fmt.Sprintf("%s, domains of %+v", when, q), by, domains)
		for _, dimension := range []store.Dimension{store.ByApp, store.ByPurpose, store.ByCountry, store.ByCarrier, store.ByDomain} {
			rows := Must(f.ApprovalsBy(t.Context(), q, dimension))(t)
			q.Each = each
			Equal(t, fmt.Sprintf("%s, codes by %s of %+v", when, dimension, q), Must(f.ApprovalsBy(t.Context(), q, dimension))(t), rows)
			q.Each = time.Minute
		}
	}
}

// What was counted ahead is what the rows say, whatever is asked and however far the counting has come.
func countedAhead(t *testing.T, f *Fixture) {
	count := func(log store.Store, limit int) (n int) {
		for {
			k := Must(log.CountHours(t.Context(), 1000*time.Hour, limit))(t)
			if n += k; k < limit {
				return n
			}
		}
	}
	begin := f.Now
	Traffic(t, f, 5)
	waiting := f.Admit(t, f.Intent(5000, func(in *store.Intent) { in.Lease = 100 * time.Hour })) // its hour can't be counted yet
	f.Pass(f.Now.Truncate(time.Hour).Add(time.Hour).Sub(f.Now))
	f.Ended(t, f.Intent(5001), Sent) // with an hour's first instant
	f.Pass(59 * time.Minute)
	late := f.Ended(t, f.Intent(5002), Sent)
	f.Pass(5 * time.Minute) // the hour is over, and a code of it still good
	count(f.Store, 1000)
	f.approve(t, late.Verification.ID)
	f.Pass(time.Hour)
	Traffic(t, f, 2)
	asked := statsQueries(begin.Add(-time.Hour), f.Now.Add(time.Hour))
	Must(f.CountHours(t.Context(), 1000*time.Hour, 1))(t) // the newest hours first
	statsEqualRows(t, f, "partly counted", asked)
	done := make(chan int)
	go func() { done <- count(f.Replica, 2) }()
	count(f.Store, 3)
	<-done
	statsEqualRows(t, f, "counted", asked)
	f.End(t, waiting.Send.ID, store.Outcome{Status: store.Failed, Reason: "expired"})
	statsEqualRows(t, f, "once what was under way has ended", asked)
	count(f.Store, 100)
	statsEqualRows(t, f, "with that counted", asked)
	Equal(t, "hours counted twice", count(f.Store, 100), 0)
}

// ReplaceIfNear has times that are told within 2 % count as the same.
func ReplaceIfNear(t *testing.T, got *store.Stats, want store.Stats) {
	t.Helper()
	same := func(got *store.Measures, want store.Measures) {
		for told, is := range map[*time.Duration]time.Duration{&got.Median: want.Median, &got.P95: want.P95} {
			if off := *told - is; max(off, -off) > is/50+time.Microsecond {
				t.Errorf("%s, want %s", *told, is)
			}
			*told = is
		}
	}
	same(&got.Measures, want.Measures)
	for i := range min(len(got.Intervals), len(want.Intervals)) {
		same(&got.Intervals[i].Measures, want.Intervals[i].Measures)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
