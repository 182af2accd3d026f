package audit

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/quota"
)

// The flow never reads a whole table, neither where the tables are new, nor where they grew since the planner looked.
// The server counts for itself.
func TestPostgresReadsNoWholeTable(t *testing.T) {
	address := newDatabase(t, parts.Postgres(t))
	admin, err := pgx.Connect(t.Context(), address)
	ok(t, err)
	defer admin.Close(context.Background())
	_, err = admin.Exec(t.Context(), `SET enable_seqscan = off`) // what makes the tables grow is not counted
	ok(t, err)
	before := scans(t, admin)
	for round, prepare := range []string{
		`SELECT`, // new
		`ANALYZE`,
		copySends("logged_at") + `, generate_series(1, 20) WHERE logged_at > '-infinity' AND NOT EXISTS (SELECT FROM flights f WHERE f.id = s.id)`, // grown
		`ANALYZE`,
	} {
		_, err := admin.Exec(t.Context(), prepare)
		ok(t, err)
		log, err := OpenPostgres(t.Context(), address)
		ok(t, err)
		useAll(t, newFixture(log).beside(log).numbered(uint64(round)<<16))
		ok(t, log.Close()) // its server processes end and report what they did
	}
	for _, table := range []string{"sends", "verifications", "suppressions", "app_events", "provider_events", "flights", "failures", "refunds", "minutes"} {
		if after := scans(t, admin); after[table] != before[table] {
			t.Errorf("%s was read from end to end %d times", table, after[table]-before[table])
		}
	}
}

// scans is how often each table was read from end to end, or one of its partitions, once all other connections of the database are gone.
func scans(t *testing.T, admin *pgx.Conn) map[string]int64 {
	t.Helper()
	eventually(t, func() bool {
		var others int
		ok(t, admin.QueryRow(t.Context(), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others))
		return others == 0
	})
	_, err := admin.Exec(t.Context(), `SELECT pg_stat_clear_snapshot()`)
	ok(t, err)
	rows, err := admin.Query(t.Context(), `
SELECT coalesce(h.inhparent, s.relid)::regclass::text, sum(s.seq_scan)::bigint FROM pg_stat_user_tables s LEFT JOIN pg_inherits h ON h.inhrelid = s.relid GROUP BY 1`)
	ok(t, err)
	defer rows.Close()
	n := map[string]int64{}
	for rows.Next() {
		var name string
		var scans int64
		ok(t, rows.Scan(&name, &scans))
		n[name] = scans
	}
	return n
}

// useAll calls every method, with every filter that has an index, often enough for the planner to settle.
func useAll(t *testing.T, f *fixture) {
	t.Helper()
	for range 12 {
		in := f.intent(1, withRules(rule(1000, time.Hour)), takenAt("redis", epoch))
		in.Verification.Holder = "s:1"
		begun := f.admit(t, in)
		in = f.intent(1)
		in.Join = begun.Verification.ID
		f.admit(t, in)
		held := Held{begun.Send.ID, 1}
		ok(t, f.Renew(t.Context(), time.Second, []Held{held}))
		_, err := f.Postpone(t.Context(), Postponement{Held: held})
		ok(t, err)
		f.takeOver(t, 1000)
		f.finish(t, Outcome{Held: Held{held.ID, 2}, Status: Failed, Refund: true, Bar: Bar{HardBounce, address(1), time.Hour}}, true)
		_, err = f.RefundsDue(t.Context(), time.Microsecond, 10)
		ok(t, err)
		ok(t, f.Refunded(t.Context(), Held{held.ID, 2}))
		_, _, _, err = f.Attempt(t.Context(), begun.Verification.ID)
		ok(t, err)
		ok(t, f.Refused(t.Context(), []Send{f.refusal(1, nil)}))
		_, err = f.SendsByID(t.Context(), []uuid.UUID{begun.Send.ID})
		ok(t, err)
		_, err = f.Latest(t.Context(), []recipient.Hash{begun.Send.Recipient}, time.Hour)
		ok(t, err)
		_, err = f.Story(t.Context(), begun.Send.ID)
		ok(t, err)
		_, _, _, err = f.Verification(t.Context(), begun.Verification.ID)
		ok(t, err)
		mark := &Mark{At: time.Now(), ID: begun.Send.ID}
		for _, filter := range []Filter{{}, {Before: mark}, {Recipient: &begun.Send.Recipient, Before: mark}, {Reference: "order 7", Before: mark},
			{After: mark}, {App: "shop"}, {App: "nobody", Before: mark}, {Channel: "email"}, {Channel: "sms", After: mark}, {Purpose: "login"}, {Purpose: "nothing"},
			{App: "shop", Purpose: "login"}, {Status: Queued}, {Status: Sending}, {Status: Failed}, {Status: Unknown, Before: mark}, {Status: Refused}, {Status: Sent}, {Status: Delivered}, {Status: Undelivered},
			{BlockedBy: "minute"}, {BlockedBy: "nothing", Before: mark}, {Provider: "smtp.example.com"}, {Provider: "nothing", After: mark}, {Country: "DE"},
			{Country: "FR", Before: mark}, {Domain: "example.com"}, {Domain: "example.org", After: mark}} {
			filter.Limit = 10
			_, err = f.Sends(t.Context(), filter)
			ok(t, err)
		}
		ok(t, f.Counting(t.Context(), "redis", time.Hour, func(Counting) error { return nil }))
		_, _, err = f.History(t.Context(), Bucket{App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, Purposes: in.Purposes}, time.Hour)
		ok(t, err)
		_, _, err = f.Rejected(t.Context(), Bucket{App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, Purposes: in.Purposes}, time.Hour)
		ok(t, err)
		ok(t, f.AllRejected(t.Context(), time.Hour, func(Counting) error { return nil }))
		_, err = f.Heard(t.Context(), ProviderEvent{Send: begun.Send.ID, Kind: ToldBounced}, Bar{Complaint, address(1), time.Hour})
		ok(t, err)
		_, _, err = f.Suppressions(t.Context(), SuppressionFilter{Limit: 10, Before: mark})
		ok(t, err)
		_, err = f.Lift(t.Context(), Lifting{Channel: in.Send.Channel, Address: address(1)}, nil)
		ok(t, err)
		_, err = f.LockedOut(t.Context(), begun.Verification)
		ok(t, err)
		_, err = f.Newest(t.Context(), Holding{in.Send.App, in.Send.Channel, in.Send.Recipient, in.Send.Purpose, "s:1"})
		ok(t, err)
		_, err = f.Approve(t.Context(), begun.Verification.ID, f.telling("verification.approved"))
		ok(t, err)
		told := f.admit(t, f.intent(1))
		f.finish(t, Outcome{Held: Held{told.Send.ID, 1}, Status: Sent, Tell: f.telling("send.sent")}, true)
		events, _, err := f.AppEventsDue(t.Context(), time.Second, []Share{{"shop", 10}, {"other", 10}})
		ok(t, err)
		for _, e := range events {
			_, err = f.AppEventEnded(t.Context(), AppEventEnd{Held: Held{e.ID, e.Attempt}, State: EventDelivered})
			ok(t, err)
		}
		_, _, err = f.ForgetAppEvents(t.Context(), time.Hour, 10)
		ok(t, err)
		for _, filter := range []AppEventFilter{{}, {App: "shop"}, {State: EventGivenUp}, {State: EventPending}, {Before: begun.Send.ID}} {
			filter.Limit = 10
			_, err = f.AppEvents(t.Context(), filter)
			ok(t, err)
		}
	}
}

// The second gate and the outcomes look each row up by the index that finds it, in the partitions of their window alone: where the
// tables are new, where somebody has analysed them empty, and where the statistics are from a time when there was one recipient.
func TestPostgresHotPlans(t *testing.T) {
	log := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	f := newFixture(log)
	direct, err := pgx.Connect(t.Context(), log.pool.Config().ConnString())
	ok(t, err)
	defer direct.Close(context.Background())
	now := time.Now()
	divide(t, direct, now.Add(-60*day), now.Add(-30*day), now.Add(-6*day), now.Add(40*day)) // sends_3 is of now, sends_2 too old for a day's rule
	hotPlans(t, log, now)
	exec(t, direct, `ANALYZE`)
	hotPlans(t, log, now)
	for range 300 {
		f.admit(t, f.intent(1))
	}
	hotPlans(t, log, now)
	exec(t, direct, `ANALYZE`)
	hotPlans(t, log, now)
}

func hotPlans(t *testing.T, log *Postgres, now time.Time) {
	t.Helper()
	b := boundsOf([]*call{newCall((&fixture{}).intent(2, withRules(rule(1, day))), 0)}, now)
	window, own := fmt.Sprintf(", '%v', '%v'", b.first, b.last), fmt.Sprintf(", '%v', '%v'", lowestID(now), lowestID(now.Add(time.Second)))
	const bucket, key = "sends_3_recipient_logged_at_idx", "sends_3_pkey"
	for _, c := range []struct {
		statement, parameters string
		indexes               []string
	}{
		{stmtGate, strings.Repeat(", NULL", 11) + window + own, []string{bucket, key, "failures_recipient", "suppressions_active", "verifications_tried"}},
		{stmtCandidates, strings.Repeat(", NULL", 6) + window, []string{bucket, "verifications_pkey"}},
		{stmtJoin, ", NULL, NULL", []string{"verifications_pkey"}},
		{stmtFinish, strings.Repeat(", NULL", 7) + own, []string{"flights_pkey", key}},
		{stmtFinishFully, strings.Repeat(", NULL", 7) + own + strings.Repeat(", NULL", 8), []string{"flights_pkey", key}},
		{stmtPostpone, strings.Repeat(", NULL", 6) + own, []string{"flights_pkey", key}},
	} {
		plan := planOf(t, log, c.statement, c.parameters[2:])
		used := map[string]bool{}
		for _, index := range regexp.MustCompile(`(?:using|Index Scan on) (\S+)`).FindAllStringSubmatch(plan, -1) {
			used[index[1]] = true
		}
		for _, index := range c.indexes {
			if !used[index] {
				t.Errorf("%s: %s is not used", c.statement, index)
			}
			delete(used, index)
		}
		for index := range used {
			t.Errorf("%s: %s is used", c.statement, index)
		}
		for _, word := range []string{"Seq Scan", "JIT", "Bitmap"} {
			if strings.Contains(plan, word) {
				t.Errorf("%s: %s", c.statement, word)
			}
		}
		// Each scan of an index says what it looks for.
		if scans, conditions := strings.Count(plan, "Index Scan")+strings.Count(plan, "Index Only Scan"), strings.Count(plan, "Index Cond"); scans != conditions {
			t.Errorf("%s: a whole index is read", c.statement)
		}
		if t.Failed() {
			t.Fatal(plan)
		}
	}
}

// planOf is the plan that all batches share.
func planOf(t *testing.T, log *Postgres, statement, parameters string) string {
	t.Helper()
	conn, err := log.writers.Acquire(t.Context())
	ok(t, err)
	defer conn.Release()
	rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s(%s)", statement, parameters))
	ok(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ok(t, err)
	return strings.Join(plan, "\n")
}

// The same on the server's own clock, with which no test can meddle: two replicas, batches, real concurrency.
func TestPostgresOnItsOwnClock(t *testing.T) {
	address := newDatabase(t, parts.Postgres(t))
	f := newFixture(openTest(t, address, serverClock)).beside(openTest(t, address, serverClock))
	mixedRecipients(t, f)
	sixty := newFixture(f.db).beside(f.other).numbered(1 << 20)
	var intents []Intent
	for range 60 {
		intents = append(intents, sixty.intent(1000, withRules(rule(7, time.Hour))))
	}
	together(60, func(i int) {
		if _, err := f.both(i).Begin(t.Context(), intents[i]); err != nil {
			t.Error(err)
		}
	})
	who := intents[0].Send.Recipient
	rows, err := f.Sends(t.Context(), Filter{Recipient: &who, Limit: maxPage})
	ok(t, err)
	equal(t, "rows", len(rows), 7)

	// It tells the true wait: who comes when it is over is let in, who comes earlier is not.
	short := []quota.Rule{{Name: "short", Scope: quota.Recipient, Limit: 1, Window: 300 * time.Millisecond}}
	first := f.admit(t, sixty.intent(2000, withRules(short)))
	for {
		got := f.begin(t, sixty.intent(2000, withRules(short)))
		if got.Admitted {
			if age := got.Now.Sub(first.Now); age < 300*time.Millisecond {
				t.Errorf("let in after %v", age)
			}
			return
		}
		d := quota.Evaluate(short, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
		if age := got.Now.Sub(first.Now); age+d.RetryAfter() != 300*time.Millisecond {
			t.Errorf("told to wait %v at the age of %v", d.RetryAfter(), age)
		}
	}
}

// A rebuild reads more rows than one page has, many of one instant: none is left out, none told twice.
func TestPostgresCountsPageByPage(t *testing.T) {
	log := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	f := newFixture(log)
	f.admit(t, f.intent(1))
	const more = 2*countingPage + 500
	_, err := log.pool.Exec(t.Context(), copySends("logged_at + n / 1500 * interval '1 microsecond'")+`, generate_series(1, $1) n`, more)
	ok(t, err)
	seen := map[string]bool{}
	var last quota.Event
	ok(t, log.Counting(t.Context(), "", time.Hour, func(c Counting) error {
		if c.Event.At.Before(last.At) || c.Event.At.Equal(last.At) && c.Event.ID <= last.ID {
			t.Fatal("out of order")
		}
		last, seen[c.Event.ID] = c.Event, true
		return nil
	}))
	equal(t, "sends", len(seen), more+1)
}
