package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/parts"
	"sendcode/internal/recipient"
)

// traffic is some hours of everything that statistics tell apart, some of it under way still.
func traffic(t *testing.T, f *fixture, hours int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(hours)))
	for n := range hours * 12 {
		in := f.intent(n, func(in *Intent) {
			in.Send.App = []string{"shop", "shop", "desk"}[random.IntN(3)]
			in.Send.To = fmt.Sprintf("a•••@%c.example", 'a'+rune(random.IntN(14)))
			if random.IntN(5) == 0 {
				in.Send.Channel, in.Send.To, in.Send.Country, in.Send.Prefix = recipient.SMS, "+49 151•••021", "DE", "+49151"
			}
		})
		begun := f.admit(t, in)
		again := f.intent(n, func(again *Intent) {
			again.Send.App, again.Send.Channel, again.Send.To, again.Join = in.Send.App, in.Send.Channel, in.Send.To, begun.Verification.ID
		})
		f.pass(time.Duration(random.IntN(150)) * time.Second)
		held := Held{begun.Send.ID, 1}
		switch random.IntN(8) {
		case 0:
			f.finish(t, Outcome{Held: held, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
		case 1:
			f.finish(t, Outcome{Held: held, Status: Failed, Reason: "expired"}, true)
		case 2:
			f.finish(t, Outcome{Held: held, Status: Unknown, Reason: "no_answer"}, true)
		default:
			f.finish(t, Outcome{Held: held, Status: Sent}, true)
			if random.IntN(2) == 0 {
				f.finish(t, Outcome{Held: Held{f.admit(t, again).Send.ID, 1}, Status: Sent}, true)
			}
			if random.IntN(3) > 0 {
				_, err := f.Approve(t.Context(), begun.Verification.ID, Tell{})
				ok(t, err)
			}
		}
		if random.IntN(3) == 0 {
			ok(t, f.Refused(t.Context(), []Send{f.refusal(n, func(s *Send) { s.Count, s.BlockedBy = 1+random.IntN(9), []string{"minute", "day"}[random.IntN(2)] })}))
		}
		f.pass(time.Duration(random.IntN(400)) * time.Second)
	}
}

// questions are of times that begin and end within hours, and of parts of what there is.
func questions(from, to time.Time) (all []StatsQuery) {
	for _, q := range []StatsQuery{{}, {App: "desk"}, {Channel: recipient.SMS}, {Purpose: "login"}, {Purpose: "nothing"}} {
		for _, cut := range [][2]time.Duration{{}, {17 * time.Minute, 0}, {time.Hour + time.Microsecond, 5*time.Hour + 11*time.Minute}, {0, 4 * time.Hour}} {
			for _, each := range []time.Duration{time.Hour, 24 * time.Hour, time.Minute} {
				q.From, q.To, q.Each = from.Add(cut[0]), to.Add(-cut[1]), each
				all = append(all, q)
			}
		}
	}
	return all
}

// summed has the tallies of one kind and time as one.
func summed(tallies []Tally) (sum []Tally) {
	slices.SortStableFunc(tallies, inOrder)
	for _, x := range tallies {
		if n := len(sum) - 1; n >= 0 && inOrder(sum[n], x) == 0 {
			sum[n].Rows, sum[n].Requests = sum[n].Rows+x.Rows, sum[n].Requests+x.Requests
		} else {
			sum = append(sum, x)
		}
	}
	return sum
}

// saysAsItsRows asks each question, and of its rows, which stretches of a minute are always read from.
func saysAsItsRows(t *testing.T, f *fixture, when string, asked []StatsQuery) {
	t.Helper()
	for _, q := range asked {
		got, err := f.Stats(t.Context(), q)
		ok(t, err)
		by, err := f.Domains(t.Context(), q)
		ok(t, err)
		each := q.Each
		q.Each = time.Minute
		rows, err := f.Stats(t.Context(), q)
		ok(t, err)
		domains, err := f.Domains(t.Context(), q)
		ok(t, err)
		for i := range rows.Tallies {
			rows.Tallies[i].At = rows.Tallies[i].At.Truncate(each)
		}
		want := Stats{Tallies: summed(rows.Tallies)}
		want.Undelivered, want.Measures = rows.Undelivered, rows.Measures
		for _, x := range got.Stretches {
			part := q
			part.From, part.To = later(q.From, x.At), q.To
			if end := x.At.Add(each); end.Before(q.To) {
				part.To = end
			}
			alone, err := f.Stats(t.Context(), part)
			ok(t, err)
			want.Stretches = append(want.Stretches, Stretch{x.At, alone.Measures})
		}
		near(t, &got, want)
		equal(t, fmt.Sprintf("%s, statistics of %+v", when, q), got, want)
		equal(t, fmt.Sprintf("%s, domains of %+v", when, q), by, domains)
	}
}

// What was counted ahead is what the rows say, whatever is asked and however far the counting has come.
func countedAhead(t *testing.T, f *fixture) {
	count := func(log Store, limit int) (n int) {
		for {
			k, err := log.CountHours(t.Context(), 1000*time.Hour, limit)
			ok(t, err)
			if n += k; k < limit {
				return n
			}
		}
	}
	begin := f.now
	traffic(t, f, 9)
	waiting := f.admit(t, f.intent(5000, func(in *Intent) { in.Lease = 100 * time.Hour })) // its hour can't be counted yet
	f.pass(f.now.Truncate(time.Hour).Add(time.Hour).Sub(f.now))
	turn := f.admit(t, f.intent(5001)) // with an hour's first instant
	f.finish(t, Outcome{Held: Held{turn.Send.ID, 1}, Status: Sent}, true)
	f.pass(59 * time.Minute)
	late := f.admit(t, f.intent(5002))
	f.finish(t, Outcome{Held: Held{late.Send.ID, 1}, Status: Sent}, true)
	f.pass(5 * time.Minute) // the hour is over, and a code of it still good
	count(f.Store, 1000)
	_, err := f.Approve(t.Context(), late.Verification.ID, Tell{})
	ok(t, err)
	f.pass(time.Hour)
	traffic(t, f, 2)
	asked := questions(begin.Add(-time.Hour), f.now.Add(time.Hour))
	for range 3 { // the newest hours first
		_, err := f.CountHours(t.Context(), 1000*time.Hour, 1)
		ok(t, err)
		saysAsItsRows(t, f, "partly counted", asked)
	}
	done := make(chan int)
	go func() { done <- count(f.replica, 2) }()
	count(f.Store, 3)
	<-done
	saysAsItsRows(t, f, "counted", asked)
	f.finish(t, Outcome{Held: Held{waiting.Send.ID, 1}, Status: Failed, Reason: "expired"}, true)
	saysAsItsRows(t, f, "once what was under way has ended", asked)
	count(f.Store, 100)
	saysAsItsRows(t, f, "with that counted", asked)
	if n := count(f.Store, 100); n != 0 {
		t.Errorf("%d hours were counted twice", n)
	}
}

// near has times that are told within 2 % count as the same.
func near(t *testing.T, got *Stats, want Stats) {
	t.Helper()
	same := func(got *Measures, want Measures) {
		for told, is := range map[*time.Duration]time.Duration{&got.Median: want.Median, &got.P95: want.P95} {
			if off := *told - is; max(off, -off) > is/50+time.Microsecond {
				t.Errorf("%s, want %s", *told, is)
			}
			*told = is
		}
	}
	same(&got.Measures, want.Measures)
	for i := range min(len(got.Stretches), len(want.Stretches)) {
		same(&got.Stretches[i].Measures, want.Stretches[i].Measures)
	}
}

// Rows that are gone were counted; who is erased takes their domain with them; old hours go.
func TestPostgresCountsForItself(t *testing.T) {
	f := newPostgresFixture(t, parts.Postgres(t))
	log := f.db.(*Postgres)
	rows := func(table string) (n int) {
		ok(t, log.read(t.Context(), func(conn *pgxpool.Conn) error {
			return conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n)
		}))
		return n
	}
	begin := f.now.Truncate(time.Hour)
	traffic(t, f, 6)
	alone := f.admit(t, f.intent(7000, func(in *Intent) { in.Send.To = "q•••@quentin.example" }))
	f.finish(t, Outcome{Held: Held{alone.Send.ID, 1}, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
	ok(t, log.Refunded(t.Context(), Held{alone.Send.ID, 1}))
	f.pass(2 * time.Hour)
	end := f.now.Truncate(time.Hour).Add(-time.Hour)
	q := StatsQuery{From: begin, To: end, Each: time.Hour}
	want, err := f.Stats(t.Context(), q)
	ok(t, err)
	n, err := f.CountHours(t.Context(), f.now.Sub(begin)+time.Hour, 1000)
	ok(t, err)
	if hours := rows("hours"); n < 6 || hours != n {
		t.Fatalf("%d hours counted, %d there", n, hours)
	}
	ok(t, f.Erase(t.Context(), alone.Send.Recipient, time.Hour, Act{ID: alone.Send.ID, Who: "ann", Role: "owner", What: "erase", Outcome: ActDone}))
	domains, err := f.Domains(t.Context(), q)
	ok(t, err)
	for _, d := range domains {
		if d.Domain == "quentin.example" {
			t.Error("an erased recipient's domain is left")
		}
	}
	if len(domains) == 0 || rows(`hour_domains WHERE domain = 'quentin.example'`) != 0 {
		t.Errorf("domains %v", domains)
	}
	_, err = log.pool.Exec(context.Background(), `DELETE FROM sends`)
	ok(t, err)
	got, err := f.Stats(t.Context(), q)
	ok(t, err)
	near(t, &got, want)
	equal(t, "once the rows are gone", got, want)
	_, err = f.CountHours(t.Context(), time.Hour, 1)
	ok(t, err)
	for _, table := range []string{"hours", "hour_tallies", "hour_times", "hour_domains"} {
		if n := rows(table + ` WHERE hour < '` + end.Add(-2*time.Hour).Format(time.RFC3339) + `'`); n != 0 {
			t.Errorf("%s still has %d rows that are too old", table, n)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
