package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

// The flow never reads a whole table, neither where the tables are new, nor where they grew since the planner looked.
// The server counts for itself.
func TestPostgresReadsNoWholeTable(t *testing.T) {
	address := newDatabase(t)
	admin := connect(t, address)
	storetest.Must(admin.Exec(t.Context(), `SET enable_seqscan = off`))(t) // what makes the tables grow is not counted
	before := scans(t, admin)
	for round, prepare := range []string{
		`SELECT`, // new
		`ANALYZE`,
		copySends("logged_at") + `, generate_series(1, 20) WHERE logged_at > '-infinity' AND NOT EXISTS (SELECT FROM flights f WHERE f.id = s.id)`, // grown
		`ANALYZE`,
	} {
		storetest.Must(admin.Exec(t.Context(), prepare))(t)
		log := storetest.Must(Open(t.Context(), address, ""))(t)
		useAll(t, storetest.NewFixture(log).Beside(log).Numbered(uint64(round)<<16))
		storetest.OK(t, log.Close()) // its server processes end and report what they did
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
		others := one[int](t, admin, `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
		return others == 0
	})
	storetest.Must(admin.Exec(t.Context(), `SELECT pg_stat_clear_snapshot()`))(t)
	return countsByName(t, admin, `
SELECT coalesce(h.inhparent, s.relid)::regclass::text, sum(s.seq_scan)::bigint FROM pg_stat_user_tables s LEFT JOIN pg_inherits h ON h.inhrelid = s.relid GROUP BY 1`)
}

// countsByName runs a query for names, each with a number.
func countsByName(t *testing.T, admin *pgx.Conn, query string) map[string]int64 {
	t.Helper()
	rows := storetest.Must(admin.Query(t.Context(), query))(t)
	var name string
	var n int64
	counts := map[string]int64{}
	storetest.Must(pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		counts[name] = n
		return nil
	}))(t)
	return counts
}

// useAll calls every method, with every filter that has an index, often enough for the planner to settle.
func useAll(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	for range 8 {
		in := f.Intent(1, storetest.WithRules(storetest.Rule(1000, time.Hour)), storetest.TakenAt("redis", storetest.Epoch))
		in.Verification.Holder = "s:1"
		begun := f.Admit(t, in)
		in = f.Intent(1)
		in.Join = begun.Verification.ID
		f.Admit(t, in)
		held := store.Held{ID: begun.Send.ID, Attempt: 1}
		storetest.OK(t, f.Renew(t.Context(), time.Second, []store.Held{held}))
		storetest.Must(f.Postpone(t.Context(), store.Postponement{Held: held}))(t)
		f.MustTakeOver(t, 1000)
		f.MustFinish(t, store.Outcome{Held: store.Held{ID: held.ID, Attempt: 2}, Status: store.Failed, Refund: true, Suppress: store.SuppressAs{Cause: store.HardBounce, Address: storetest.Address(1), For: time.Hour}}, true)
		storetest.Must(f.RefundsDue(t.Context(), time.Microsecond, 10))(t)
		storetest.OK(t, f.Refunded(t.Context(), store.Held{ID: held.ID, Attempt: 2}))
		storetest.Must3(f.Attempt(t.Context(), begun.Verification.ID))(t)
		storetest.OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(1, nil)}))
		storetest.Must(f.SendsByID(t.Context(), []uuid.UUID{begun.Send.ID}))(t)
		storetest.Must2(f.CodesOf(t.Context(), []string{begun.Verification.ID}))(t)
		storetest.Must(f.Latest(t.Context(), []recipient.Hash{begun.Send.Recipient}, time.Hour))(t)
		storetest.Must(f.Story(t.Context(), begun.Send.ID))(t)
		storetest.Must3(f.Verification(t.Context(), begun.Verification.ID))(t)
		mark := &store.Mark{At: time.Now(), ID: begun.Send.ID}
		for _, filter := range []store.Filter{{}, {Before: mark}, {Recipient: &begun.Send.Recipient, Before: mark}, {Reference: "order 7", Before: mark},
			{After: mark}, {App: "shop"}, {App: "unknown", Before: mark}, {Channel: "email"}, {Channel: "sms", After: mark}, {Purpose: "login"}, {Purpose: "nothing"},
			{App: "shop", Purpose: "login"}, {Status: store.Queued}, {Status: store.Sending}, {Status: store.Failed}, {Status: store.Unknown, Before: mark}, {Status: store.Refused}, {Status: store.Sent}, {Status: store.Delivered}, {Status: store.Undelivered},
			{BlockedBy: "minute"}, {BlockedBy: "nothing", Before: mark}, {Provider: "smtp.example.com"}, {Provider: "nothing", After: mark}, {Country: "DE"},
			{Country: "FR", Before: mark}, {Domain: "example.com"}, {Domain: "example.org", After: mark}, {Outcome: store.CodeWaiting, From: time.Now().Add(-time.Hour)}, {Outcome: store.CodeLocked, From: time.Now().Add(-time.Hour), Before: mark},
			{Network: "203.0.113.0/24", From: time.Now().Add(-time.Hour)}} {
			filter.Limit = 10
			storetest.Must(f.Sends(t.Context(), filter))(t)
		}
		storetest.OK(t, f.CountedSends(t.Context(), "redis", time.Hour, func(store.CountedSend) error { return nil }))
		bucket := store.Bucket{App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, Purposes: in.Purposes}
		storetest.Must2(f.History(t.Context(), bucket, time.Hour))(t)
		storetest.Must2(f.Rejected(t.Context(), bucket, time.Hour))(t)
		storetest.OK(t, f.AllRejected(t.Context(), time.Hour, func(store.CountedSend) error { return nil }))
		storetest.Must(f.IngestProviderEvent(t.Context(), store.ProviderEvent{Send: begun.Send.ID, Kind: store.ProviderBounced}, store.SuppressAs{Cause: store.Complaint, Address: storetest.Address(1), For: time.Hour}))(t)
		storetest.Must2(f.Suppressions(t.Context(), store.SuppressionFilter{Limit: 10, Before: mark}))(t)
		storetest.Must(f.Lift(t.Context(), store.LiftRequest{Channel: in.Send.Channel, Address: storetest.Address(1)}, nil))(t)
		storetest.Must(f.LockedOut(t.Context(), begun.Verification))(t)
		storetest.Must(f.Newest(t.Context(), store.HolderQuery{App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, Purpose: in.Send.Purpose, Holder: "s:1"}))(t)
		storetest.Must(f.Approve(t.Context(), begun.Verification.ID, f.Telling("verification.approved")))(t)
		f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent, Event: f.Telling("send.sent")})
		events, _ := storetest.Must2(f.AppEventsDue(t.Context(), time.Second, []store.Share{{App: "shop", Limit: 10}, {App: "other", Limit: 10}}))(t)
		for _, e := range events {
			storetest.Must(f.AppEventEnded(t.Context(), store.AppEventEnd{Held: store.Held{ID: e.ID, Attempt: e.Attempt}, State: store.EventDelivered}))(t)
		}
		storetest.Must2(f.ForgetAppEvents(t.Context(), time.Hour, 10))(t)
		for _, filter := range []store.AppEventFilter{{}, {App: "shop"}, {State: store.EventGivenUp}, {State: store.EventPending}, {Before: begun.Send.ID}} {
			filter.Limit = 10
			storetest.Must(f.AppEvents(t.Context(), filter))(t)
		}
	}
}

// The second gate and the outcomes look each row up by the index that finds it, in the partitions of their window alone: where the
// tables are new, where they were analysed empty, and where the statistics are from a time when there was one recipient.
func TestPostgresHotPlans(t *testing.T) {
	log := openTest(t, newDatabase(t), serverClock)
	f := storetest.NewFixture(log)
	direct := connect(t, log.pool.Config().ConnString())
	now := time.Now()
	divide(t, direct, now.Add(-60*day), now.Add(-30*day), now.Add(-6*day), now.Add(40*day)) // sends_3 is of now, sends_2 too old for a day's rule
	hotPlans(t, log, now)
	exec(t, direct, `ANALYZE`)
	hotPlans(t, log, now)
	for range 300 {
		f.Admit(t, f.Intent(1))
	}
	hotPlans(t, log, now)
	exec(t, direct, `ANALYZE`)
	hotPlans(t, log, now)
}

func hotPlans(t *testing.T, log *DB, now time.Time) {
	t.Helper()
	b := boundsOf([]*call{{in: (&storetest.Fixture{}).Intent(2, storetest.WithRules(storetest.Rule(1, day)))}}, now)
	window, own := fmt.Sprintf(", '%v', '%v'", b.first, b.last), fmt.Sprintf(", '%v', '%v'", store.LowestID(now), store.LowestID(now.Add(time.Second)))
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
		{stmtRenew, ", NULL, NULL, NULL", []string{"flights_pkey"}},
		{stmtTakeOver, ", NULL, NULL, NULL, NULL, NULL", []string{"flights_due", "flights_pkey", "refunds_pkey", "sends_0_pkey", "sends_1_pkey", "sends_2_pkey", key, "sends_4_pkey", "verifications_pkey"}},
		{stmtEndEvents, strings.Repeat(", NULL", 5), []string{"app_events_pkey"}},
	} {
		plan := planOf(t, log, c.statement, c.parameters[2:])
		if loops := strings.Count(plan, "Nested Loop"); finishes(log, c.statement) && loops > 0 && (loops > 1 || c.statement != stmtTakeOver) { // one row of verifications each
			t.Errorf("%s: each of the list is compared with each row", c.statement)
		}
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

// finishes reports whether the finishers' connections run the statement.
func finishes(log *DB, name string) bool {
	return slices.ContainsFunc(log.finishStatements(), func(s statement) bool { return s.name == name })
}

// planOf is the plan that all batches share.
func planOf(t *testing.T, log *DB, statement, parameters string) string {
	t.Helper()
	pool := log.writers
	if finishes(log, statement) {
		pool = log.finishers
	}
	conn := storetest.Must(pool.Acquire(t.Context()))(t)
	defer conn.Release()
	rows := storetest.Must(conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s(%s)", statement, parameters)))(t)
	plan := storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	return strings.Join(plan, "\n")
}

// The same on the server's own clock, with which no test can meddle: two replicas, batches, real concurrency.
func TestPostgresOnItsOwnClock(t *testing.T) {
	address := newDatabase(t)
	f := storetest.NewFixture(openTest(t, address, serverClock)).Beside(openTest(t, address, serverClock))
	storetest.MixedRecipients(t, f)
	sixty := storetest.NewFixture(f.DB).Beside(f.Other).Numbered(1 << 20)
	seven := func(int) store.Intent { return sixty.Intent(1000, storetest.WithRules(storetest.Rule(7, time.Hour))) }
	sixty.BeginAll(t, 60, seven)
	who := seven(0).Send.Recipient
	rows := storetest.Must(f.Sends(t.Context(), store.Filter{Recipient: &who, Limit: store.MaxPage}))(t)
	storetest.Equal(t, "rows", len(rows), 7)

	// It tells the true wait: who comes when it is over is let in, who comes earlier is not.
	short := []quota.Rule{{Name: "short", Scope: quota.Recipient, Limit: 1, Window: 300 * time.Millisecond}}
	first := f.Admit(t, sixty.Intent(2000, storetest.WithRules(short)))
	for {
		got := f.MustBegin(t, sixty.Intent(2000, storetest.WithRules(short)))
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
	log := openTest(t, newDatabase(t), serverClock)
	f := storetest.NewFixture(log)
	f.Admit(t, f.Intent(1))
	const more = 2*sqldb.CountingPage + 500
	storetest.Must(log.pool.Exec(t.Context(), copySends("logged_at + n / 1500 * interval '1 microsecond'")+`, generate_series(1, $1) n`, more))(t)
	seen := map[string]bool{}
	var last quota.Event
	storetest.OK(t, log.CountedSends(t.Context(), "", time.Hour, func(c store.CountedSend) error {
		if c.Event.At.Before(last.At) || c.Event.At.Equal(last.At) && c.Event.ID <= last.ID {
			t.Fatal("out of order")
		}
		last, seen[c.Event.ID] = c.Event, true
		return nil
	}))
	storetest.Equal(t, "sends", len(seen), more+1)
}
