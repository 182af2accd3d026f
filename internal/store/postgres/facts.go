package postgres

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
	"sendcode/quota"
)

// This file reads the facts by which package rowrules decides a batch of Begins. One statement,
// which gateSQL makes, returns rows of several kinds.

// gateCalls are the rows u of gateSQL: the calls of a batch.
var gateCalls = sqlgen.NewList("u", new(beginCall), func(x *beginCall, to *sqlgen.Row) {
	in := &x.In
	to.UUID("id", in.Send.ID)
	to.Text("app", in.Send.App)
	to.Text("channel", string(in.Send.Channel))
	to.Bytes("recipient", in.Send.Recipient[:])
	to.Text("purposes", strings.Join(in.Purposes, store.PurposeSeparator))
	to.Duration("longest", quota.LongestKeep(in.Rules))
	to.Integer("most", maxHistoryRows(*in))
	to.Duration("rejecting", quota.LongestKeep(in.RejectionRules))
	to.Bytes("address", in.Address[:])
	to.Text("holder", in.HolderToJoin())
	to.Bool("once", holderSendsCoverRules(*in))
})

// extraHistoryRows are read beyond the largest limit of a bucket. If the policy has lowered a
// limit, more rows may count than the limit, and quota.State.ResetAfter depends on the oldest of
// them.
const extraHistoryRows = 100

// maxHistoryRows returns 0 if there are no rules.
func maxHistoryRows(in store.Intent) int {
	if len(in.Rules) == 0 {
		return 0
	}
	return rowrules.LargestLimit(in) + extraHistoryRows
}

// holderSendsCoverRules reports whether sendsOfHoldersSQL reads every send that the rules count.
func holderSendsCoverRules(in store.Intent) bool {
	return in.HolderToJoin() != "" && quota.LongestKeep(in.Rules) <= rowrules.ResendWithin
}

// These read different sends; see gateStatement.
var (
	gateCountedSQL           = gateSQL(countedSendsSQL)
	gateHoldersSQL           = gateSQL(sendsOfHoldersSQL)
	gateCountedAndHoldersSQL = gateSQL(countedSendsSQL, sendsOfHoldersSQL)
)

func gateStatement(batch []*beginCall) string {
	anyHolder := slices.ContainsFunc(batch, func(x *beginCall) bool { return x.In.HolderToJoin() != "" })
	allCovered := !slices.ContainsFunc(batch, func(x *beginCall) bool { return !holderSendsCoverRules(x.In) })
	switch {
	case allCovered:
		return gateHoldersSQL
	case anyHolder:
		return gateCountedAndHoldersSQL
	}
	return gateCountedSQL
}

// These are the kinds of rows of gateSQL.
const (
	clockRow                  = "clock"
	repeatedRow               = "repeated"
	suppressionRow            = "suppression"
	countedSendRow            = "counted send"
	rejectedSendRow           = "rejected send"
	verificationWithChecksRow = "verification with checks"
	verificationOfHolderRow   = "verification of the holder"
)

// gateColumns are the columns of gateSQL's rows, with their types; see gateRow.
var gateColumns = [][2]string{
	{"i", "bigint"},
	{"kind", "text"},
	{"id", "uuid"},
	{"approved_at", "timestamptz"},
	{"at", "timestamptz"},
	{"attempts", "integer"},
	{"attempts_reset", "integer"},
	{"class", "text"},
	{"checks", "text"},
	{"held", "text"},
}

// selectGateRow selects rows of one kind about the calls u. columns has SQL by column of
// gateColumns. i and kind have defaults, other columns are NULL.
func selectGateRow(kind string, columns map[string]string) string {
	var list []string
	columns["i"], columns["kind"] = cmp.Or(columns["i"], "u.i"), cmp.Or(columns["kind"], "'"+kind+"'")
	for _, c := range gateColumns {
		list = append(list, "CAST("+cmp.Or(columns[c[0]], "NULL")+" AS "+c[1]+") AS "+c[0])
	}
	return "\nSELECT " + strings.Join(list, ", ")
}

// gateSQL reads all facts of a batch. sends are the queries for the recipients' sends, only those
// that are needed: each query costs about 40 µs even if it finds nothing.
//
// Conditions and order on recipients match only one index, and no index fits the other conditions,
// so that the planner has one plan even without statistics on a new partition. The conditions on
// IDs let Postgres skip partitions; while the database's clock is within idBoundsOfBatch, @first_id
// and @last_id exclude no row that counts.
func gateSQL(sends ...string) string {
	return `
WITH clock AS MATERIALIZED (
    SELECT @now AS now
), u AS MATERIALIZED (
    SELECT * FROM ` + gateCalls.NumberedSQL() + `
)` + strings.Join(append([]string{
		selectGateRow(clockRow, map[string]string{"i": "0", "at": "now"}) + ` FROM clock`,
		selectGateRow(repeatedRow, map[string]string{"id": "s.id"}) + ` FROM u CROSS JOIN LATERAL (
    SELECT s.id FROM sends s WHERE s.id = u.id AND s.id BETWEEN @earliest_id AND @latest_id LIMIT 1
) s`,
		selectGateRow(suppressionRow, map[string]string{"id": "x.id"}) + ` FROM u CROSS JOIN LATERAL (
    SELECT x.id FROM suppressions x
    WHERE x.lifted_at IS NULL AND x.address = u.address AND x.channel = u.channel AND x.until > (SELECT now FROM clock)
      AND x.app IN ('', u.app)
    ORDER BY x.until DESC, x.id DESC LIMIT 1
) x`,
		selectGateRow(rejectedSendRow, map[string]string{"id": "f.id", "at": "f.finished_at"}) + ` FROM clock, u CROSS JOIN LATERAL (
    SELECT f.id, f.finished_at FROM failures f
    WHERE f.recipient = u.recipient AND f.app = u.app AND f.channel = u.channel AND f.counts
      AND f.finished_at > clock.now - u.rejecting * interval '1 microsecond'
    ORDER BY f.finished_at DESC LIMIT 1000
) f`,
		selectGateRow(verificationWithChecksRow, map[string]string{
			"approved_at": "o.approved_at", "at": "o.expires_at", "attempts": "o.attempts", "attempts_reset": "o.attempts_reset",
			"class": "o.class", "checks": "o.checks",
		}) + ` FROM clock, u CROSS JOIN LATERAL (` + verificationsWithChecksSQL("u", "clock.now") + `) o`,
	}, sends...), "\nUNION ALL")
}

// verificationsWithChecksSQL reads a recipient's verifications with checks that may still count.
// alias is the SQL alias of the row with the recipient, nowSQL the SQL of the time.
func verificationsWithChecksSQL(alias, nowSQL string) string {
	key := alias + ".recipient, " + alias + ".app, " + alias + ".channel"
	return `
    SELECT o.approved_at, o.expires_at, o.attempts, o.attempts_reset, o.class, o.checks FROM verifications o
    WHERE o.attempts > 0 AND o.recipient = ` + alias + `.recipient AND o.app = ` + alias + `.app AND o.channel = ` + alias + `.channel
      AND (o.recipient, o.app, o.channel, o.expires_at) > (` + key + `, ` + nowSQL + ` - ` +
		sqldb.PostgresIntervalSQL(rowrules.ConsecutiveFailedCheckWindow) + `)
    OFFSET 0`
}

// countedSendsSQL is for calls without u.once (see holderSendsCoverRules).
var countedSendsSQL = selectGateRow(countedSendRow, map[string]string{"id": "s.id", "at": "s.logged_at"}) +
	` FROM clock, u CROSS JOIN LATERAL (
    SELECT s.id, s.logged_at FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - u.longest * interval '1 microsecond')
      AND (s.counts AND ` + bucketConditionEnd + `
    ORDER BY s.recipient DESC, s.logged_at DESC LIMIT u.most
) s WHERE NOT u.once`

// sendsOfHoldersSQL reads all sends within ResendWithin (a day) to find the open verifications of
// each call's holder. With u.once, the rules count only sends of this day, so it also returns these
// sends, to save a second query. It locks no verification, so a verification that a call may join
// must be read again.
var sendsOfHoldersSQL = selectGateRow("", map[string]string{
	"kind": `CASE WHEN s.past THEN '` + countedSendRow + `' ELSE '` + verificationOfHolderRow + `' END`,
	"id":   "s.id", "at": "s.logged_at", "held": "v.id",
}) + ` FROM clock, u CROSS JOIN LATERAL (
    SELECT s.id, s.logged_at, s.verification_id, u.once AND s.counts
      AND s.logged_at > clock.now - u.longest * interval '1 microsecond' AS past
    FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - ` + sqldb.PostgresIntervalSQL(rowrules.ResendWithin) + `)
      AND (` + bucketConditionEnd + `
    OFFSET 0
) s LEFT JOIN LATERAL (
    SELECT v.id FROM verifications v
    WHERE v.id = s.verification_id
      AND (v.holder = u.holder AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts
        AND v.expires_at > clock.now) IS TRUE
    OFFSET 0
) v ON true WHERE u.holder <> '' AND (s.past OR v.id IS NOT NULL)`

// bucketConditionEnd ends a condition on sends s: that they are in u's bucket, and in the
// partitions that are read.
const bucketConditionEnd = `s.app = u.app AND s.channel = u.channel AND s.purpose = ANY (string_to_array(u.purposes, E'\x1f'))) IS TRUE
      AND ` + inPartitionsRead

// inPartitionsRead is the condition that the send s is in the range of IDs of idBounds.args.
const inPartitionsRead = `(s.id >= @first_id OR s.id > @first_id) AND (s.id < @last_id OR s.id <= @last_id) -- an OR is of use to no index`

// gateRow is a row of gateSQL. All but i and kind may be NULL.
type gateRow struct {
	i        int64
	kind     string
	id       pgtype.UUID
	approved pgtype.Timestamptz
	at       pgtype.Timestamptz

	attempts, attemptsReset pgtype.Int4
	class                   pgtype.Text
	checks                  []store.Check

	held pgtype.Text // an open verification of the call's holder, not locked
}

// withChecksFields returns the destinations of the columns of verificationsWithChecksSQL. In a LEFT
// JOIN without such a row, all columns are NULL.
func (r *gateRow) withChecksFields() []any {
	return []any{&r.approved, &r.at, &r.attempts, &r.attemptsReset, &r.class, sqlgen.ScannerFor(&r.checks)}
}

// verificationWithChecks returns the fields by which lockouts are decided.
func (r *gateRow) verificationWithChecks() store.Verification {
	v := store.Verification{
		ExpiresAt: store.TruncateToMicroseconds(r.at.Time), Attempts: int(r.attempts.Int32),
		AttemptsReset: int(r.attemptsReset.Int32),
		Class:         store.Class(r.class.String), Checks: r.checks,
	}
	if r.approved.Valid {
		v.ApprovedAt = store.TruncateToMicroseconds(r.approved.Time)
	}
	return v
}

var errNoClock = errors.New("store: the database returned no time")

type batchFacts struct {
	now      time.Time
	facts    []rowrules.RecipientHistory // the facts of each call
	repeated []bool                      // by call: its send has a row already
	// by call: the IDs of its holder's open verifications, if it has a HolderToJoin. facts has the
	// verifications only once they're locked.
	ofHolders [][]string
}

func (b *batchFacts) addRow(r gateRow) {
	if r.kind == clockRow {
		b.now = store.TruncateToMicroseconds(r.at.Time)
		return
	}
	facts := &b.facts[r.i-1]
	if ids := &b.ofHolders[r.i-1]; r.held.Valid && !slices.Contains(*ids, r.held.String) {
		*ids = append(*ids, r.held.String)
	}
	switch r.kind {
	case repeatedRow:
		b.repeated[r.i-1] = true
	case suppressionRow:
		facts.Suppression = r.id.Bytes
	case countedSendRow:
		facts.Past = append(facts.Past, rowrules.PastSend{ID: r.id.Bytes, At: store.TruncateToMicroseconds(r.at.Time)})
	case rejectedSendRow:
		facts.Rejections = append(facts.Rejections, rowrules.PastSend{ID: r.id.Bytes, At: store.TruncateToMicroseconds(r.at.Time)})
	case verificationWithChecksRow:
		facts.Tried = append(facts.Tried, r.verificationWithChecks())
	}
}

// readBatchFacts reads gateSQL's rows for n calls.
func readBatchFacts(rows pgx.Rows, n int) (v batchFacts, err error) {
	v = batchFacts{facts: make([]rowrules.RecipientHistory, n), repeated: make([]bool, n), ofHolders: make([][]string, n)}
	var r gateRow
	fields := append(append([]any{&r.i, &r.kind, &r.id}, r.withChecksFields()...), &r.held)
	_, err = pgx.ForEachRow(rows, fields, func() error { v.addRow(r); return nil })
	if err == nil && v.now.IsZero() {
		err = errNoClock
	}
	return v, err
}
