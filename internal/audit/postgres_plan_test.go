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
		`INSERT INTO sends SELECT ` + randomID + `, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip,
		 'sent', reason, attempt, in_doubt, counts, refund_since, taken_at, clock, logged_at FROM sends, generate_series(1, 20) WHERE logged_at > '-infinity' AND due_at IS NULL`, // grown
		`ANALYZE`,
	} {
		_, err := admin.Exec(t.Context(), prepare)
		ok(t, err)
		log, err := OpenPostgres(t.Context(), address)
		ok(t, err)
		useAll(t, &fixture{Log: log, replica: log, serial: uint64(round) << 16})
		ok(t, log.Close()) // its server processes end and report what they did
	}
	for _, table := range []string{"sends", "verifications", "suppressions", "app_events", "provider_events"} {
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
			{App: "shop", Purpose: "login"}, {Status: Queued}, {Status: Sending}, {Status: Failed}, {Status: Unknown, Before: mark}, {Status: Refused}, {Status: Sent},
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

// The second gate looks each recipient up by the index that holds nothing but counting sends, in the partitions of its window alone,
// also where the statistics are from a time when there was one recipient.
func TestPostgresGatePlan(t *testing.T) {
	log := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	f := &fixture{Log: log}
	direct, err := pgx.Connect(t.Context(), log.pool.Config().ConnString())
	ok(t, err)
	defer direct.Close(context.Background())
	const day = 24 * time.Hour
	now := time.Now()
	divide(t, direct, now.Add(-60*day), now.Add(-30*day), now.Add(-6*day), now.Add(40*day)) // sends_3 is of now, sends_2 too old for a day's rule
	for range 300 {
		f.admit(t, f.intent(1))
	}
	_, err = direct.Exec(t.Context(), `ANALYZE`)
	ok(t, err)
	conn, err := log.writers.Acquire(t.Context())
	ok(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), `SET plan_cache_mode = force_generic_plan`) // the one that all batches come to share
	ok(t, err)
	var last strings.Builder
	for _, x := range bounds([]*call{newCall(f.intent(2, withRules(rule(1, day))), 0)}, now) {
		if at, ok := x.(time.Time); ok {
			x = at.Format(time.RFC3339)
		}
		fmt.Fprintf(&last, ", '%v'", x)
	}
	rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s(NULL%s%s, NULL)", stmtDecide, strings.Repeat(", NULL", 33), last.String()))
	ok(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ok(t, err)
	text := strings.Join(plan, "\n")
	const counting, failures = "sends_%d_recipient_app_channel_logged_at_idx on", "sends_%d_recipient_app_channel_finished_at_idx on"
	for _, index := range []string{fmt.Sprintf(counting, 3), fmt.Sprintf(failures, 3), "suppressions_active", "sends_3_pkey", "verifications_pkey", "verifications_holder", "verifications_tried"} {
		if !strings.Contains(text, index) {
			t.Errorf("%s is not used", index)
		}
	}
	for _, n := range []int{0, 1, 2, 4} {
		if strings.Contains(text, fmt.Sprintf(counting, n)) || strings.Contains(text, fmt.Sprintf(failures, n)) {
			t.Errorf("partition %d is looked at", n)
		}
	}
	for _, index := range regexp.MustCompile(`using (\S+) on sends_`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(index[1], "_recipient_") && !strings.HasSuffix(index[1], "_pkey") {
			t.Errorf("%s is used: it finds no recipient", index[1])
		}
	}
	if strings.Count(text, "_pkey on sends_") != 1 || strings.Contains(text, "Bitmap") {
		t.Error("rows are gathered by their IDs") // the earlier one of a repeated call is looked up
	}
	if strings.Contains(text, "Seq Scan") || strings.Contains(text, "JIT") {
		t.Error("a whole table is read, or code compiled")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// The same on the server's own clock, with which no test can meddle: two replicas, batches, real concurrency.
func TestPostgresOnItsOwnClock(t *testing.T) {
	address := newDatabase(t, parts.Postgres(t))
	f := &fixture{Log: openTest(t, address, serverClock), replica: openTest(t, address, serverClock)}
	mixedRecipients(t, f)
	sixty := &fixture{Log: f.Log, replica: f.replica, serial: 1 << 20}
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
	f := &fixture{Log: log}
	f.admit(t, f.intent(1))
	const more = 2*countingPage + 500
	_, err := log.pool.Exec(t.Context(), `
INSERT INTO sends SELECT `+randomID+`, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip,
       'sent', reason, attempt, in_doubt, counts, refund_since, taken_at, clock, logged_at + n / 1500 * interval '1 microsecond'
FROM sends, generate_series(1, $1) n`, more)
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
