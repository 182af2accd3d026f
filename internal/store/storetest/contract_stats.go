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
		o.Held = store.Held{ID: begun.Send.ID, Attempt: 1}
		f.MustFinish(t, o, true)
		return begun
	}
	first := end(1, time.Second, store.Outcome{Status: store.Sent})
	again := f.Intent(1)
	again.Join = first.Verification.ID
	// at once, and of the same code
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, again).Send.ID, Attempt: 1}, Status: store.Sent}, true)
	end(2, 3*time.Second, store.Outcome{Status: store.Sent}, func(in *store.Intent) { in.Send.App = "desk" })
	end(3, 2*time.Second, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true})
	Must(f.Approve(t.Context(), first.Verification.ID, store.NewEvent{}))(t)
	for range 2 {
		r := f.Refusal(1, func(s *store.Send) { s.Count = 3 })
		OK(t, f.Refused(t.Context(), []store.Send{r}))
	}
	f.Pass(begin.Add(time.Hour).Sub(f.Now)) // the next stretch begins
	end(4, 4*time.Second, store.Outcome{Status: store.Unknown, Reason: "no_answer"},
		func(in *store.Intent) { in.Send.Channel = recipient.SMS })
	f.Admit(t, f.Intent(5)) // under way
	f.Pass(begin.Add(2 * time.Hour).Sub(f.Now))
	end(6, time.Second, store.Outcome{Status: store.Sent}) // after the time that is asked for

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
	east := store.StatsQuery{From: begin, To: begin.Add(2 * time.Hour), Each: 24 * time.Hour}
	offset := time.Duration(23-next.Hour()) * time.Hour // so that midnight is an hour after the second stretch begins
	east.Zone = time.FixedZone("", int(offset/time.Second))
	day := Must(f.Stats(t.Context(), east))(t)
	Equal(t, "the beginning of the day that both stretches are in", day.Tallies[len(day.Tallies)-1].At, next.Add(-23*time.Hour))
	Equal(t, "days of measures", day.Intervals, []store.Interval{{At: next.Add(-23 * time.Hour),
		Measures: store.Measures{Opened: 5, Approved: 1, Median: time.Second, P95: 3 * time.Second}}})
	east.Zone = time.FixedZone("", int((offset+time.Hour)/time.Second)) // midnight is where it begins
	day = Must(f.Stats(t.Context(), east))(t)
	Equal(t, "the days of the tallies", []time.Time{day.Tallies[0].At, day.Tallies[len(day.Tallies)-1].At}, []time.Time{next.Add(-24 * time.Hour), next})
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
	_, err := f.ApprovalsBy(t.Context(), store.StatsQuery{From: begin, To: next, Each: time.Hour}, "status")
	Is(t, err, store.ErrBadRequest)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, f.Intent(7,
		func(in *store.Intent) { in.Send.To = "b•••@example.org" })).Send.ID, Attempt: 1}, Status: store.Failed, Reason: "expired"}, true)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, f.Intent(8,
		func(in *store.Intent) { in.Send.To = "+49 151•••021" })).Send.ID, Attempt: 1}, Status: store.Failed, Reason: "expired"}, true)
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
	for _, q := range []store.StatsQuery{
		{}, {From: begin, To: begin, Each: time.Hour}, {From: begin, To: next}, {From: begin, To: next, Each: time.Millisecond},
		{From: begin, To: next, Each: time.Hour, App: "a\x00"},
	} {
		_, err := f.Stats(t.Context(), q)
		Is(t, err, store.ErrBadRequest)
		_, err = f.Domains(t.Context(), q)
		Is(t, err, store.ErrBadRequest)
		_, err = f.ApprovalsBy(t.Context(), q, store.ByApp)
		Is(t, err, store.ErrBadRequest)
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
		f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, f.Intent(n)).Send.ID, Attempt: 1}, Status: store.Sent}, true)
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
		begun := f.Admit(t, f.Intent(1, append(changes, func(in *store.Intent) { in.Send.Channel = recipient.SMS })...))
		o.Held = store.Held{ID: begun.Send.ID, Attempt: 1}
		f.MustFinish(t, o, true)
		if said != "" {
			Equal(t, "received", Must(f.Receive(t.Context(), begun.Send.ID, said))(t), true)
		}
	}
	desk := func(in *store.Intent) { in.Send.App = "desk" }
	text(store.Outcome{Status: store.Sent}, store.Undelivered)
	text(store.Outcome{Status: store.Sent}, store.Undelivered, desk)
	text(store.Outcome{Status: store.Sent}, store.Delivered)
	text(store.Outcome{Status: store.Sent}, "")
	text(store.Outcome{Status: store.Unknown, Reason: "no_answer"}, store.Undelivered)
	late := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.Channel = recipient.SMS }))
	Must(f.Receive(t.Context(), late.Send.ID, store.Undelivered))(t)
	// which the carrier says of the attempt itself
	f.End(t, late.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected})
	f.Pass(from.Add(time.Hour).Sub(f.Now))
	text(store.Outcome{Status: store.Sent}, store.Undelivered) // an hour later
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
		held := store.Held{ID: begun.Send.ID, Attempt: 1}
		switch random.IntN(8) {
		case 0:
			f.MustFinish(t, store.Outcome{Held: held, Status: store.Failed, Reason: store.ReasonRejected, Refund: true}, true)
		case 1:
			f.MustFinish(t, store.Outcome{Held: held, Status: store.Failed, Reason: "expired"}, true)
		case 2:
			f.MustFinish(t, store.Outcome{Held: held, Status: store.Unknown, Reason: "no_answer"}, true)
		default:
			f.MustFinish(t, store.Outcome{Held: held, Status: store.Sent, Provider: []string{"mx1", "mx2"}[n%2]}, true)
			if random.IntN(2) == 0 {
				f.MustFinish(t, store.Outcome{Held: store.Held{ID: f.Admit(t, again).Send.ID, Attempt: 1}, Status: store.Sent}, true)
			}
			if random.IntN(3) > 0 {
				Must(f.Approve(t.Context(), begun.Verification.ID, store.NewEvent{}))(t)
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
func statsQueries(from, to time.Time) (all []store.StatsQuery) {
	for _, q := range []store.StatsQuery{{}, {App: "desk"}, {Channel: recipient.SMS}, {Purpose: "login"}, {Purpose: "nothing"}} {
		for _, cut := range [][2]time.Duration{{}, {17 * time.Minute, 0}, {time.Hour + time.Microsecond, 5*time.Hour + 11*time.Minute},
			{0, 4 * time.Hour}} {
			for _, each := range []time.Duration{time.Hour, 24 * time.Hour, time.Minute} {
				q.From, q.To, q.Each = from.Add(cut[0]), to.Add(-cut[1]), each
				all = append(all, q)
			}
		}
	}
	return all
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
	Traffic(t, f, 9)
	waiting := f.Admit(t, f.Intent(5000, func(in *store.Intent) { in.Lease = 100 * time.Hour })) // its hour can't be counted yet
	f.Pass(f.Now.Truncate(time.Hour).Add(time.Hour).Sub(f.Now))
	turn := f.Admit(t, f.Intent(5001)) // with an hour's first instant
	f.End(t, turn.Send.ID, store.Outcome{Status: store.Sent})
	f.Pass(59 * time.Minute)
	late := f.Ended(t, f.Intent(5002), store.Outcome{Status: store.Sent})
	f.Pass(5 * time.Minute) // the hour is over, and a code of it still good
	count(f.Store, 1000)
	Must(f.Approve(t.Context(), late.Verification.ID, store.NewEvent{}))(t)
	f.Pass(time.Hour)
	Traffic(t, f, 2)
	asked := statsQueries(begin.Add(-time.Hour), f.Now.Add(time.Hour))
	for range 3 { // the newest hours first
		Must(f.CountHours(t.Context(), 1000*time.Hour, 1))(t)
		statsEqualRows(t, f, "partly counted", asked)
	}
	done := make(chan int)
	go func() { done <- count(f.Replica, 2) }()
	count(f.Store, 3)
	<-done
	statsEqualRows(t, f, "counted", asked)
	f.End(t, waiting.Send.ID, store.Outcome{Status: store.Failed, Reason: "expired"})
	statsEqualRows(t, f, "once what was under way has ended", asked)
	count(f.Store, 100)
	statsEqualRows(t, f, "with that counted", asked)
	if n := count(f.Store, 100); n != 0 {
		t.Errorf("%d hours were counted twice", n)
	}
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
