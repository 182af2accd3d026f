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
// which gateSQL builds, returns the facts as rows of several kinds.

// gateCalls is the SQL table u: the parameters of each call of a batch.
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

// extraHistoryRows is the number of rows that are read beyond the largest limit of a bucket. After
// a change of the policy has lowered a limit, more rows than the limit may count. The answer says
// when the oldest row that counts stops counting, so these rows must be read, too.
const extraHistoryRows = 100

// maxHistoryRows returns how many rows of the recipient's history are read; 0 if the intent has no
// rules.
func maxHistoryRows(in store.Intent) int {
	if len(in.Rules) == 0 {
		return 0
	}
	return rowrules.LargestLimit(in) + extraHistoryRows
}

// holderSendsCoverRules reports whether sendsOfHoldersSQL reads every send that the intent's rules
// count.
func holderSendsCoverRules(in store.Intent) bool {
	return in.HolderToJoin() != "" && quota.LongestKeep(in.Rules) <= rowrules.ResendWithin
}

// These are three variants of the statement that reads the facts. Each variant reads different
// sends. gateStatement chooses the variant that a batch needs.
var (
	gateCountedSQL           = gateSQL(countedSendsSQL)
	gateHoldersSQL           = gateSQL(sendsOfHoldersSQL)
	gateCountedAndHoldersSQL = gateSQL(countedSendsSQL, sendsOfHoldersSQL)
)

// gateStatement returns the statement that reads the sends that a batch needs.
func gateStatement(batch []*beginCall) string {
	held := slices.ContainsFunc(batch, func(x *beginCall) bool { return x.In.HolderToJoin() != "" })
	once := !slices.ContainsFunc(batch, func(x *beginCall) bool { return !holderSendsCoverRules(x.In) })
	switch {
	case once:
		return gateHoldersSQL
	case held:
		return gateCountedAndHoldersSQL
	}
	return gateCountedSQL
}

// The kinds of rows that gateSQL returns.
const (
	clockRow                  = "clock"
	repeatedRow               = "repeated"
	suppressionRow            = "suppression"
	countedSendRow            = "counted send"
	rejectedSendRow           = "rejected send"
	verificationWithChecksRow = "verification with checks"
	verificationOfHolderRow   = "verification of the holder"
)

// gateColumns are the columns of the rows that gateSQL returns, with their types; see gateRow.
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

// selectGateRow returns a SELECT of rows of one kind about the calls u. The map `is` gives the SQL
// expression of each column, by the column's name in gateColumns. The columns i and kind have
// defaults. Any other column that is not in the map is NULL.
func selectGateRow(kind string, is map[string]string) string {
	var list []string
	is["i"], is["kind"] = cmp.Or(is["i"], "u.i"), cmp.Or(is["kind"], "'"+kind+"'")
	for _, c := range gateColumns {
		list = append(list, "CAST("+cmp.Or(is[c[0]], "NULL")+" AS "+c[1]+") AS "+c[0])
	}
	return "\nSELECT " + strings.Join(list, ", ")
}

// gateSQL returns the statement that reads all facts of a batch, as rows of several kinds. The
// parameter sends has the queries for the recipients' sends. The statement contains only the
// queries that the batch needs, because each query costs about 40 µs, even if it finds nothing.
//
// The conditions and the order on recipients match only one index, and no index fits the other
// conditions. So the planner can choose only one plan, even without statistics on a new partition.
// The conditions on IDs let Postgres skip partitions. While the database's clock is within the
// bounds of idBoundsOfBatch, @first_id and @last_id exclude no row that counts.
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

// verificationsWithChecksSQL returns the query for a recipient's verifications that have checks
// which may still count. The parameter `of` is the SQL alias of the row with the recipient. The
// parameter `now` is the SQL expression for the time.
func verificationsWithChecksSQL(of, now string) string {
	key := of + ".recipient, " + of + ".app, " + of + ".channel"
	return `
    SELECT o.approved_at, o.expires_at, o.attempts, o.attempts_reset, o.class, o.checks FROM verifications o
    WHERE o.attempts > 0 AND o.recipient = ` + of + `.recipient AND o.app = ` + of + `.app AND o.channel = ` + of + `.channel
      AND (o.recipient, o.app, o.channel, o.expires_at) > (` + key + `, ` + now + ` - ` +
		sqldb.PostgresIntervalSQL(rowrules.ConsecutiveFailedCheckWindow) + `)
    OFFSET 0`
}

// countedSendsSQL reads the counted sends of calls without u.once (see holderSendsCoverRules).
var countedSendsSQL = selectGateRow(countedSendRow, map[string]string{"id": "s.id", "at": "s.logged_at"}) +
	` FROM clock, u CROSS JOIN LATERAL (
    SELECT s.id, s.logged_at FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - u.longest * interval '1 microsecond')
      AND (s.counts AND ` + bucketConditionEnd + `
    ORDER BY s.recipient DESC, s.logged_at DESC LIMIT u.most
) s WHERE NOT u.once`

// sendsOfHoldersSQL reads all sends within the last ResendWithin (a day) to find the open
// verifications of each call's holder. If u.once is set for a call, the call's rules count only
// sends of this day. Then the query also returns the counted sends, so that no second query is
// needed. The query locks no verification, so a verification may change before the call is decided.
// If a call may join one of these verifications, the verification must therefore be read again.
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

// bucketConditionEnd is the end of a condition on the sends s. It selects the sends that belong to
// the bucket of u and to the partitions that are read.
const bucketConditionEnd = `s.app = u.app AND s.channel = u.channel AND s.purpose = ANY (string_to_array(u.purposes, E'\x1f'))) IS TRUE
      AND ` + inPartitionsRead

// inPartitionsRead is the condition that the send s is in the range of IDs of idBounds.args. This
// range determines the partitions that are read.
const inPartitionsRead = `(s.id >= @first_id OR s.id > @first_id) AND (s.id < @last_id OR s.id <= @last_id) -- an OR is of use to no index`

// gateRow is one row of gateSQL. All but i and kind may be NULL.
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

// withChecksFields returns the scan destinations for the columns of verificationsWithChecksSQL. In
// a LEFT JOIN that finds no such row, all these columns are NULL.
func (r *gateRow) withChecksFields() []any {
	return []any{&r.approved, &r.at, &r.attempts, &r.attemptsReset, &r.class, sqlgen.ScannerFor(&r.checks)}
}

// verificationWithChecks returns the fields of a row of verificationsWithChecksSQL, which decide
// lockouts.
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

// batchFacts has what one read found out about each call of a batch.
type batchFacts struct {
	now      time.Time
	facts    []rowrules.RecipientHistory // of each call
	repeated []bool                      // by call: whether its send has a row already
	// The IDs of the open verifications of the call's holder, for each call whose HolderToJoin is
	// not empty. The field facts gets these verifications only after they are locked.
	ofHolders [][]string
}

// addRow stores one row of gateSQL in the facts.
func (b *batchFacts) addRow(r gateRow) {
	if r.kind == clockRow {
		b.now = store.TruncateToMicroseconds(r.at.Time)
		return
	}
	has := &b.facts[r.i-1]
	if ids := &b.ofHolders[r.i-1]; r.held.Valid && !slices.Contains(*ids, r.held.String) {
		*ids = append(*ids, r.held.String)
	}
	switch r.kind {
	case repeatedRow:
		b.repeated[r.i-1] = true
	case suppressionRow:
		has.Suppression = r.id.Bytes
	case countedSendRow:
		has.Past = append(has.Past, rowrules.PastSend{ID: r.id.Bytes, At: store.TruncateToMicroseconds(r.at.Time)})
	case rejectedSendRow:
		has.Rejections = append(has.Rejections, rowrules.PastSend{ID: r.id.Bytes, At: store.TruncateToMicroseconds(r.at.Time)})
	case verificationWithChecksRow:
		has.Tried = append(has.Tried, r.verificationWithChecks())
	}
}

// readBatchFacts reads the rows of gateSQL for n calls. It returns an error if no row has the
// database's time.
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
