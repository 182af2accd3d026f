package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
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
	// a resend of the same code, which takes no time
	f.Ended(t, f.Intent(1, Joining(first.Verification.ID)), Sent)
	end(2, 3*time.Second, Sent, inApp("desk"))
	end(3, 2*time.Second, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true})
	f.approve(t, first.Verification.ID)
	end(7, time.Second, Sent, withCode("sealed"), inApp("desk")) // counts as a send, and not as a code that was opened
	for range 2 {
		OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, func(s *store.SendOrRefusal) { s.Count = 3 })}))
	}
	f.Pass(begin.Add(time.Hour).Sub(f.Now)) // the next interval begins
	lost := end(4, 4*time.Second, store.Outcome{Status: store.Unknown, Reason: "no_answer"}, bySMS)
	f.receiveReceipt(t, lost.Send.ID, store.Undelivered, true)
	f.Admit(t, f.Intent(5)) // this send stays in flight
	f.Pass(begin.Add(2 * time.Hour).Sub(f.Now))
	end(6, time.Second, Sent) // after the time range of the query

	ask := func(q store.StatsQuery, want store.Stats) {
		t.Helper()
		q.From, q.To, q.IntervalLength = begin, begin.Add(2*time.Hour), time.Hour
		got := Must(f.Stats(t.Context(), q))(t)
		timesNear(t, &got.Measures, want.Measures)
		for i := range min(len(got.Intervals), len(want.Intervals)) {
			timesNear(t, &got.Intervals[i].Measures, want.Intervals[i].Measures)
		}
		Equal(t, "statistics", got, want)
	}
	next := begin.Add(time.Hour)
	Equal(t, "stops", Must(f.StopCounts(t.Context(), begin, begin.Add(2*time.Hour)))(t), []store.StopCount{
		{Purpose: "login", Reason: store.ReasonRejected, Requests: 1}, {Purpose: "login", BlockedBy: "minute", Requests: 6},
	})
	ask(store.StatsQuery{}, store.Stats{
		Tallies: []store.StatusCount{
			{At: begin, Status: store.Failed, Reason: store.ReasonRejected, Rows: 1, Requests: 1},
			{At: begin, Status: store.Refused, BlockedBy: "minute", Rows: 2, Requests: 6},
			{At: begin, Status: store.Sent, Rows: 4, Requests: 4},
			{At: next, Status: store.Sending, Rows: 1, Requests: 1},
			{At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1},
		},
		Intervals: []store.StatsInterval{
			{
				At:       begin,
				Measures: store.Measures{Opened: 3, Approved: 1, Median: time.Second, P95: 3 * time.Second},
			},
			{At: next, Measures: store.Measures{Opened: 2}},
		},
		Measures: store.Measures{Opened: 5, Approved: 1, Median: time.Second, P95: 3 * time.Second}, Undelivered: 1,
	})
	desk, texts := store.Measures{Opened: 1, Approved: 0, Median: time.Second, P95: 3 * time.Second}, store.Measures{Opened: 1}
	ask(store.StatsQuery{App: "desk"}, store.Stats{
		Tallies:   []store.StatusCount{{At: begin, Status: store.Sent, Rows: 2, Requests: 2}},
		Intervals: []store.StatsInterval{{At: begin, Measures: desk}}, Measures: desk,
	})
	ask(store.StatsQuery{Channel: recipient.SMS}, store.Stats{
		Tallies:   []store.StatusCount{{At: next, Status: store.Unknown, Reason: "no_answer", Rows: 1, Requests: 1}},
		Intervals: []store.StatsInterval{{At: next, Measures: texts}}, Measures: texts, Undelivered: 1,
	})
	ask(store.StatsQuery{Purpose: "nothing"}, store.Stats{})
	for by, want := range map[store.Dimension][]store.ApprovalTally{
		store.ByApp:     {{Value: "shop", Opened: 4, Approved: 1}, {Value: "desk", Opened: 1}},
		store.ByPurpose: {{Value: "login", Opened: 5, Approved: 1}},
		store.ByDomain:  {{Value: "example.com", Opened: 5, Approved: 1}},
		store.ByCountry: nil, store.ByCarrier: nil,
	} {
		q := store.StatsQuery{From: begin, To: begin.Add(2 * time.Hour), IntervalLength: time.Hour}
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
		{store.StatsQuery{To: begin.Add(2 * time.Hour)}, []store.DomainTally{{Domain: "example.com", Sends: 7, Failed: 1, Rejected: 1}}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour)}, []store.DomainTally{
			{Domain: "example.com", Sends: 8, Failed: 1, Rejected: 1},
			{Domain: "example.org", Sends: 1, Failed: 1, Rejected: 0},
		}},
		{store.StatsQuery{To: begin.Add(3 * time.Hour), App: "desk"}, nil},
	} {
		c.q.From, c.q.IntervalLength = begin, time.Hour
		Equal(t, "domains", Must(f.DomainTallies(t.Context(), c.q))(t), c.want)
	}
}

// timesNear tests that the delivery times of got are within 2 % of those of want. Then it copies
// the times of want into got, so that the rest can be compared.
func timesNear(t *testing.T, got *store.Measures, want store.Measures) {
	t.Helper()
	for gotTime, wantTime := range map[*time.Duration]time.Duration{&got.Median: want.Median, &got.P95: want.P95} {
		if off := *gotTime - wantTime; max(off, -off) > wantTime/50+time.Microsecond {
			t.Errorf("%s, want %s", *gotTime, wantTime)
		}
		*gotTime = wantTime
	}
}

// daysOfZone checks that days begin at midnight in their zone, even when the zone's clocks change.
func daysOfZone(t *testing.T, f *Fixture) {
	zone := Must(time.LoadLocation("America/New_York"))(t)
	midnight := func(day int) time.Time { return time.Date(2030, 3, day, 0, 0, 0, 0, zone).UTC() }
	var want []time.Time
	for n, at := range []time.Time{
		midnight(9).Add(-time.Second), midnight(9), midnight(10).Add(-time.Second),
		midnight(10), midnight(11).Add(-time.Second),
		midnight(11),
	} {
		f.Pass(at.Sub(f.Now))
		f.Ended(t, f.Intent(n), Sent)
		want = append(want, midnight(8+(n+1)/2))
	}
	f.Pass(3 * time.Hour)
	ask := func(when string) {
		t.Helper()
		q := store.StatsQuery{From: midnight(8), To: f.Now, IntervalLength: 24 * time.Hour, Zone: zone}
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

// countsAhead checks that stored counts equal the counts of the rows, for each query and after each
// step of the counting.
func countsAhead(t *testing.T, f *Fixture) {
	count := func(db *sqldb.DB, limit int) (n int) {
		for {
			k := Must(db.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, limit))(t)
			n += k
			if k < limit {
				return n
			}
		}
	}
	begin := f.Now
	reported := f.Ended(t, f.Intent(4999, func(in *store.Intent) {
		in.Verification.CallerChecks, in.Code = true, []byte("sealed")
	}), Sent).Verification.ID
	traffic(t, f, 3)
	// while this send is in flight, its hour can't be counted
	waiting := f.Admit(t, f.Intent(5000, func(in *store.Intent) { in.Lease = 100 * time.Hour }))
	f.Pass(f.Now.Truncate(time.Hour).Add(time.Hour).Sub(f.Now))
	f.Ended(t, f.Intent(5001), Sent) // logged at the first instant of an hour
	f.Pass(59 * time.Minute)
	late := f.Ended(t, f.Intent(5002), Sent)
	f.Pass(5 * time.Minute) // the hour is over, but a code of the hour has not expired
	count(f.DB, 1000)
	Must(f.Check(t.Context(), Right(late.Verification.ID)))(t)
	f.Pass(time.Hour)
	traffic(t, f, 2)
	asked := statsQueries(begin.Add(-time.Hour), f.Now.Add(time.Hour))
	Must(f.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, 1))(t) // counts the newest hour first
	statsEqualRows(t, f, "partly counted", asked)
	done := make(chan int)
	go func() { done <- count(cmp.Or(f.Replica, f.DB), 2) }()
	count(f.DB, 3)
	<-done
	statsEqualRows(t, f, "counted", asked)
	f.End(t, waiting.Send.ID, store.Outcome{Status: store.Failed, Reason: "expired"})
	statsEqualRows(t, f, "once what was under way has ended", asked)
	count(f.DB, 100)
	statsEqualRows(t, f, "with that counted", asked)
	Equal(t, "hours counted twice", count(f.DB, 100), 0)
	for range 2 { // the repetition changes nothing
		Must(f.Report(t.Context(), reported, store.ReportApproved, nil, store.NewEvent{}))(t)
		statsEqualRows(t, f, "after a late report", asked)
		count(f.DB, 100)
		statsEqualRows(t, f, "with that counted", asked)
	}
}

// Counting begins at the hour of the first row: an empty database has nothing to count.
func countsFromTheFirstSend(t *testing.T, f *Fixture) {
	countsFrom(t, f, func() { f.Ended(t, f.Intent(1), Sent) })
}

func countsFromTheFirstRefusal(t *testing.T, f *Fixture) {
	countsFrom(t, f, func() { OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)})) })
}

func countsFrom(t *testing.T, f *Fixture, first func()) {
	t.Helper()
	f.Pass(f.Now.Truncate(time.Hour).Add(time.Hour).Sub(f.Now))
	count := func() int { return Must(f.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, 1000))(t) }
	Equal(t, "hours of an empty database", count(), 0)
	first()
	f.Pass(5 * time.Hour)
	f.Ended(t, f.Intent(2), Sent)
	f.Pass(2 * time.Hour)
	Equal(t, "hours from the first row on", count(), 6)
}

// statsQueries returns queries whose time ranges begin or end within an hour, and queries of one
// app, channel or purpose.
func statsQueries(from, to time.Time) []store.StatsQuery {
	return []store.StatsQuery{
		{From: from, To: to, IntervalLength: time.Hour},
		{From: from.Add(17 * time.Minute), To: to, IntervalLength: 24 * time.Hour},
		{From: from.Add(time.Hour + time.Microsecond), To: to.Add(-3*time.Hour - 11*time.Minute), IntervalLength: time.Hour},
		{From: from, To: to.Add(-4 * time.Hour), IntervalLength: 24 * time.Hour, App: "desk"},
		{From: from, To: to, IntervalLength: time.Hour, App: "desk"},
		{From: from, To: to, IntervalLength: 24 * time.Hour, Channel: recipient.SMS},
		{From: from.Add(17 * time.Minute), To: to, IntervalLength: time.Hour, Purpose: "login"},
		{From: from, To: to, IntervalLength: time.Hour, Purpose: "nothing"},
	}
}

// rowsOnlyEngine reads statistics from rows alone. In Postgres a read of statistics is a Write.
type rowsOnlyEngine struct {
	sqldb.Engine
	reads *int // reads of the table of counted hours
}

func (e rowsOnlyEngine) Read(ctx context.Context, name string, f func(sqldb.Tx) error) error {
	return e.Engine.Read(ctx, name, e.withoutHours(f))
}

func (e rowsOnlyEngine) Write(ctx context.Context, name string, precedence sqldb.Precedence, f func(sqldb.Tx) error) error {
	return e.Engine.Write(ctx, name, precedence, e.withoutHours(f))
}

func (e rowsOnlyEngine) withoutHours(f func(sqldb.Tx) error) func(sqldb.Tx) error {
	return func(q sqldb.Tx) error {
		q.Conn = noHours{q.Conn, e.reads}
		return f(q)
	}
}

type noHours struct {
	sqldb.Conn
	reads *int
}

func (n noHours) Run(statement string, args sqldb.Args, each func(sqldb.Scan) error) (int64, error) {
	changed := strings.Replace(statement, "FROM counted_hours WHERE", "FROM counted_hours WHERE false AND", 1)
	if changed != statement {
		*n.reads++
	}
	return n.Conn.Run(changed, args, each)
}

// statsEqualRows runs each query twice, with stored counts and with rows only, and compares the
// results.
func statsEqualRows(t *testing.T, f *Fixture, when string, asked []store.StatsQuery) {
	t.Helper()
	reads := 0
	rows := &sqldb.DB{Dialect: f.Dialect, Engine: rowsOnlyEngine{f.Engine, &reads}, LongReads: make(chan struct{}, 1)}
	for _, q := range asked {
		what := fmt.Sprintf("%s, %+v", when, q)
		Equal(t, what, Must(f.Stats(t.Context(), q))(t), Must(rows.Stats(t.Context(), q))(t))
		Equal(t, what+": stops", Must(f.StopCounts(t.Context(), q.From, q.To))(t), Must(rows.StopCounts(t.Context(), q.From, q.To))(t))
		Equal(t, what+": domains", Must(f.DomainTallies(t.Context(), q))(t), Must(rows.DomainTallies(t.Context(), q))(t))
		for by := range sqldb.DimensionColumns {
			Equal(t, what+": codes by "+string(by), Must(f.ApprovalsBy(t.Context(), q, by))(t),
				Must(rows.ApprovalsBy(t.Context(), q, by))(t))
		}
	}
	if reads == 0 {
		t.Errorf("%s: the statistics of rows alone read no table of hours", when)
	}
}

// traffic writes sends and refusals over about the given number of hours, with everything that
// statistics distinguish. All of these sends have ended.
func traffic(t *testing.T, f *Fixture, hours int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(hours)))
	for n := range hours * 12 {
		in := f.Intent(n, func(in *store.Intent) {
			in.Send.App = []string{"shop", "shop", "desk"}[random.IntN(3)]
			in.Send.To = fmt.Sprintf("a•••@%c.example", 'a'+rune(random.IntN(14)))
			if random.IntN(5) == 0 {
				in.Send.Channel, in.Send.To, in.Send.Country, in.Send.Prefix = recipient.SMS, "+49 151•••021", "DE", "+49151"
			}
			in.Verification.CallerChecks = random.IntN(4) == 0
			if in.Verification.CallerChecks {
				in.Code = []byte("sealed")
				in.Verification.Reported = []store.Report{"", store.ReportDue}[n%2]
			}
		})
		begun := f.Admit(t, in)
		again := f.Intent(n, func(again *store.Intent) {
			again.Send.App, again.Send.Channel, again.Send.To, again.Join = in.Send.App, in.Send.Channel, in.Send.To, begun.Verification.ID
		})
		f.Pass(time.Duration(random.IntN(150)) * time.Second)
		outcomes := []store.Outcome{
			{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, BadAddress: true},
			{Status: store.Failed, Reason: "expired"},
			{Status: store.Unknown, Reason: "no_answer"},
			{Status: store.Sent, Provider: []string{"mx1", "mx2"}[n%2]},
		}
		o := outcomes[min(random.IntN(8), 3)]
		f.End(t, begun.Send.ID, o)
		if o.Status == store.Sent {
			if random.IntN(2) == 0 {
				f.Ended(t, again, Sent)
			}
			if random.IntN(3) > 0 && !in.Verification.CallerChecks {
				Must(f.Check(t.Context(), Right(begun.Verification.ID)))(t)
			}
		}
		if random.IntN(3) == 0 {
			OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(n, func(s *store.SendOrRefusal) {
				s.Count, s.BlockedBy = 1+random.IntN(9), []string{"minute", "day"}[random.IntN(2)]
			})}))
		}
		f.Pass(time.Duration(random.IntN(400)) * time.Second)
	}
}

// countsOutliveRows checks that deleted rows stay counted, that the erasure of a recipient removes
// its domain from the counts, and that the counts of old hours are deleted.
func countsOutliveRows(t *testing.T, f *Fixture) {
	rows := func(table string) int {
		return Must(sqldb.ReadAll(t.Context(), f.DB, "countsOutliveRows", sqldb.OneColumn[int], `SELECT count(*) FROM `+table, nil))(t)[0]
	}
	begin := f.Now.Truncate(time.Hour)
	traffic(t, f, 6)
	alone := f.Admit(t, f.Intent(7000, func(in *store.Intent) { in.Send.To = "q•••@quentin.example" }))
	f.End(t, alone.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, BadAddress: true})
	OK(t, f.ConfirmRefund(t.Context(), store.AttemptID{ID: alone.Send.ID, Attempt: 1}))
	f.Pass(2 * time.Hour)
	end := f.Now.Truncate(time.Hour).Add(-time.Hour)
	q := store.StatsQuery{From: begin, To: end, IntervalLength: time.Hour}
	want := Must(f.Stats(t.Context(), q))(t)
	n := Must(f.CountHours(t.Context(), store.MaxCodeLife, f.Now.Sub(begin)+time.Hour, 1000))(t)
	Equal(t, "hours counted while their codes live", n, 0)
	n = Must(f.CountHours(t.Context(), 10*time.Minute, f.Now.Sub(begin)+time.Hour, 1000))(t)
	if hours := rows("counted_hours"); n < 6 || hours != n {
		t.Fatalf("%d hours counted, %d there", n, hours)
	}
	OK(t, f.Erase(t.Context(), alone.Send.Recipient, time.Hour,
		store.AuditEntry{ID: alone.Send.ID, Who: "ann", Role: "owner", What: "erase", Outcome: store.AuditDone}))
	domains := Must(f.DomainTallies(t.Context(), q))(t)
	for _, d := range domains {
		if d.Domain == "quentin.example" {
			t.Error("an erased recipient's domain is left")
		}
	}
	if len(domains) == 0 || rows(`hour_domains WHERE domain = 'quentin.example'`) != 0 {
		t.Errorf("domains %v", domains)
	}
	if n := rows(`hour_codes WHERE value = 'quentin.example'`); n != 0 || rows(`hour_codes WHERE dimension = 'domain'`) == 0 {
		t.Errorf("%d rows of codes still have the erased recipient's domain", n)
	}
	Must(f.CountHours(t.Context(), 10*time.Minute, f.Now.Sub(begin)+time.Hour, 1000))(t) // SQLite counts the erased send's hour again
	codes := Must(f.ApprovalsBy(t.Context(), q, store.ByCountry))(t)
	OK(t, f.Write(t.Context(), "countsOutliveRows", func(q sqldb.Tx) error {
		return q.ExecAll(sqldb.Args{"begin": begin}, `DELETE FROM sends WHERE logged_at >= @begin`)
	}))
	Equal(t, "codes by country once the rows are gone", Must(f.ApprovalsBy(t.Context(), q, store.ByCountry))(t), codes)
	Equal(t, "once the rows are gone", Must(f.Stats(t.Context(), q))(t), want)
	Must(f.CountHours(t.Context(), 10*time.Minute, time.Hour, 1))(t)
	for _, table := range sqldb.AllHourTableNames {
		old := Must(sqldb.ReadAll(t.Context(), f.DB, "countsOutliveRows", sqldb.OneColumn[int],
			`SELECT count(*) FROM `+table+` WHERE hour < @end`,
			sqldb.Args{"end": end.Add(-2 * time.Hour)}))(t)
		Equal(t, table+": rows that are too old", old[0], 0)
	}
}
