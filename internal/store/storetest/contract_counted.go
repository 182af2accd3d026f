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

// What was counted ahead is what the rows say, whatever is asked and however far the counting has
// come.
func countsAhead(t *testing.T, f *Fixture) {
	count := func(db *sqldb.DB, limit int) (n int) {
		for {
			k := Must(db.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, limit))(t)
			if n += k; k < limit {
				return n
			}
		}
	}
	begin := f.Now
	reported := f.Ended(t, f.Intent(4999, func(in *store.Intent) {
		in.Verification.CallerChecks, in.Code = true, []byte("sealed")
	}), Sent).Verification.ID
	traffic(t, f, 3)
	// its hour can't be counted yet
	waiting := f.Admit(t, f.Intent(5000, func(in *store.Intent) { in.Lease = 100 * time.Hour }))
	f.Pass(f.Now.Truncate(time.Hour).Add(time.Hour).Sub(f.Now))
	f.Ended(t, f.Intent(5001), Sent) // with an hour's first instant
	f.Pass(59 * time.Minute)
	late := f.Ended(t, f.Intent(5002), Sent)
	f.Pass(5 * time.Minute) // the hour is over, and a code of it still good
	count(f.DB, 1000)
	Must(f.Check(t.Context(), Right(late.Verification.ID)))(t)
	f.Pass(time.Hour)
	traffic(t, f, 2)
	asked := statsQueries(begin.Add(-time.Hour), f.Now.Add(time.Hour))
	Must(f.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, 1))(t) // the newest hours first
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

// statsQueries are of times that begin and end within hours, and of parts of what there is.
func statsQueries(from, to time.Time) []store.StatsQuery {
	return []store.StatsQuery{
		{From: from, To: to, Each: time.Hour}, {From: from.Add(17 * time.Minute), To: to, Each: 24 * time.Hour},
		{From: from.Add(time.Hour + time.Microsecond), To: to.Add(-3*time.Hour - 11*time.Minute), Each: time.Hour},
		{From: from, To: to.Add(-4 * time.Hour), Each: 24 * time.Hour, App: "desk"},
		{From: from, To: to, Each: time.Hour, App: "desk"},
		{From: from, To: to, Each: 24 * time.Hour, Channel: recipient.SMS},
		{From: from.Add(17 * time.Minute), To: to, Each: time.Hour, Purpose: "login"},
		{From: from, To: to, Each: time.Hour, Purpose: "nothing"},
	}
}

// uncounted reads statistics from rows alone.
type uncounted struct{ sqldb.Engine }

func (u uncounted) Read(ctx context.Context, f func(sqldb.Tx) error) error {
	return u.Engine.Read(ctx, func(q sqldb.Tx) error {
		q.Conn = noHours{q.Conn}
		return f(q)
	})
}

type noHours struct{ sqldb.Conn }

func (c noHours) Run(statement string, args sqldb.Args, each func(sqldb.Scan) error) (int64, error) {
	return c.Conn.Run(strings.Replace(statement, "FROM counted_hours WHERE", "FROM counted_hours WHERE false AND", 1),
		args, each)
}

// statsEqualRows asks each question of the database and of its rows alone.
func statsEqualRows(t *testing.T, f *Fixture, when string, asked []store.StatsQuery) {
	t.Helper()
	rows := &sqldb.DB{Dialect: f.Dialect, Engine: uncounted{f.Engine}}
	for _, q := range asked {
		what := fmt.Sprintf("%s, %+v", when, q)
		Equal(t, what, Must(f.Stats(t.Context(), q))(t),
			Must(rows.Stats(t.Context(), q))(t))
		Equal(t, what+": domains", Must(f.DomainTallies(t.Context(), q))(t),
			Must(rows.DomainTallies(t.Context(), q))(t))
		for by := range sqldb.DimensionColumns {
			Equal(t, what+": codes by "+string(by), Must(f.ApprovalsBy(t.Context(), q, by))(t),
				Must(rows.ApprovalsBy(t.Context(), q, by))(t))
		}
	}
}

// traffic is some hours of everything that statistics tell apart, some of it under way still.
func traffic(t *testing.T, f *Fixture, hours int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(hours)))
	for n := range hours * 12 {
		in := f.Intent(n, func(in *store.Intent) {
			in.Send.App = []string{"shop", "shop", "desk"}[random.IntN(3)]
			in.Send.To = fmt.Sprintf("a•••@%c.example", 'a'+rune(random.IntN(14)))
			if random.IntN(5) == 0 {
				in.Send.Channel, in.Send.To, in.Send.Country, in.Send.Prefix = recipient.SMS, "+49 151•••021",
					"DE", "+49151"
			}
			if in.Verification.CallerChecks = random.IntN(4) == 0; in.Verification.CallerChecks {
				in.Code = []byte("sealed")
				in.Verification.Reported = []store.Report{"", store.ReportDue}[n%2]
			}
		})
		begun := f.Admit(t, in)
		again := f.Intent(n, func(again *store.Intent) {
			again.Send.App, again.Send.Channel, again.Send.To, again.Join = in.Send.App, in.Send.Channel, in.Send.To,
				begun.Verification.ID
		})
		f.Pass(time.Duration(random.IntN(150)) * time.Second)
		outcomes := []store.Outcome{
			{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, BadAddress: true},
			{Status: store.Failed, Reason: "expired"},
			{Status: store.Unknown, Reason: "no_answer"}, {Status: store.Sent, Provider: []string{"mx1", "mx2"}[n%2]},
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

// Rows that are gone were counted; who is erased takes their domain with them; old hours go.
func countsForItself(t *testing.T, f *Fixture) {
	rows := func(table string) int {
		return Must(sqldb.ReadAll(t.Context(), f.DB, sqldb.OneColumn[int], `SELECT count(*) FROM `+table, nil))(t)[0]
	}
	begin := f.Now.Truncate(time.Hour)
	traffic(t, f, 6)
	alone := f.Admit(t, f.Intent(7000, func(in *store.Intent) { in.Send.To = "q•••@quentin.example" }))
	f.End(t, alone.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true,
		BadAddress: true})
	OK(t, f.ConfirmRefund(t.Context(), store.AttemptID{ID: alone.Send.ID, Attempt: 1}))
	f.Pass(2 * time.Hour)
	end := f.Now.Truncate(time.Hour).Add(-time.Hour)
	q := store.StatsQuery{From: begin, To: end, Each: time.Hour}
	want := Must(f.Stats(t.Context(), q))(t)
	if n := Must(f.CountHours(t.Context(), store.MaxCodeLife, f.Now.Sub(begin)+time.Hour, 1000))(t); n != 0 {
		t.Errorf("%d hours counted while their codes live", n)
	}
	n := Must(f.CountHours(t.Context(), 10*time.Minute, f.Now.Sub(begin)+time.Hour, 1000))(t)
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
	if n := rows(`hour_codes WHERE value = 'quentin.example'`); n != 0 ||
		rows(`hour_codes WHERE dimension = 'domain'`) == 0 {
		t.Errorf("%d rows of codes still have the erased recipient's domain", n)
	}
	Must(f.CountHours(t.Context(), 10*time.Minute, f.Now.Sub(begin)+time.Hour, 1000))(t) // SQLite counts the erased send's hour again
	codes := Must(f.ApprovalsBy(t.Context(), q, store.ByCountry))(t)
	OK(t, f.Write(t.Context(), func(q sqldb.Tx) error {
		return q.ExecAll(sqldb.Args{"begin": begin}, `DELETE FROM sends WHERE logged_at >= @begin`)
	}))
	Equal(t, "codes by country once the rows are gone",
		Must(f.ApprovalsBy(t.Context(), q, store.ByCountry))(t), codes)
	Equal(t, "once the rows are gone", Must(f.Stats(t.Context(), q))(t), want)
	Must(f.CountHours(t.Context(), 10*time.Minute, time.Hour, 1))(t)
	for _, table := range sqldb.AllHourTableNames {
		old := Must(sqldb.ReadAll(t.Context(), f.DB, sqldb.OneColumn[int], `SELECT count(*) FROM `+table+` WHERE hour < @end`,
			sqldb.Args{"end": end.Add(-2 * time.Hour)}))(t)
		Equal(t, table+": rows that are too old", old[0], 0)
	}
}
