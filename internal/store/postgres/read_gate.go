package postgres

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// The first trip of a Begin takes the recipients' locks in a separate statement, and then reads.
// Under READ COMMITTED, the snapshot of the later statements is younger than the locks, so they see
// everything that earlier holders of the locks committed.

// lockCandidatesSQL reads and locks the verifications that calls u may join; the row locks keep
// checks from changing them meanwhile. They are taken in the order of the IDs, as by checks.
var lockCandidatesSQL = `
SELECT u.i, ` + sqldb.VerificationColumns + `
FROM (
    SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[])
      AS u(i, id, holder, app, channel, purpose, recipient)
    ORDER BY id
) u CROSS JOIN LATERAL (
    SELECT * FROM verifications v
    WHERE v.id = u.id AND (u.holder = '' OR v.holder = u.holder)
      AND v.recipient = u.recipient AND v.app = u.app AND v.channel = u.channel AND v.purpose = u.purpose
      AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND v.expires_at > @now
    FOR NO KEY UPDATE OF v
) v`

// The kinds of rows that gateSQL returns.
const (
	clockRow = iota
	repeatedRow
	suppressionRow
	countedSendRow
	rejectedSendRow
	verificationWithChecksRow
	verificationOfHolderRow
)

// verificationsWithChecksSQL returns the query for the verifications with checks of the recipient
// of a row, as far back as their checks can count.
func verificationsWithChecksSQL(of, now string) string {
	key := of + ".recipient, " + of + ".app, " + of + ".channel"
	return `
    SELECT o.approved_at, o.expires_at, o.attempts, o.attempts_reset, o.class, o.checks FROM verifications o
    WHERE o.attempts > 0 AND o.recipient = ` + of + `.recipient AND o.app = ` + of + `.app AND o.channel = ` + of + `.channel
      AND (o.recipient, o.app, o.channel, o.expires_at) > (` + key + `, ` + now + ` - ` + sqldb.PostgresIntervalSQL(rowrules.ConsecutiveFailedCheckWindow) + `)
    OFFSET 0`
}

// gateSQL returns the statement that reads all facts by which a batch is decided, as rows of
// several kinds. sends are the queries of the recipients' sends that the batch needs: each costs
// about 40 µs, even if it finds nothing. The bounds and the order on recipients match only one
// index, and no index can be used for the other conditions. So the planner can only choose one
// plan, even without statistics on a new partition. The bounds on IDs ($12 to $15) let Postgres
// skip partitions; $12 and $13 leave out no row that counts, as long as the database's clock is
// within the bounds that idBoundsOfBatch assumes.
func gateSQL(sends ...string) string {
	return `
WITH clock AS MATERIALIZED (
    SELECT @now AS now
), u AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bigint[], $7::int[], $8::bigint[], $9::bytea[],
        $10::text[], $11::bool[])
        WITH ORDINALITY AS u(id, app, channel, recipient, purposes, longest, most, rejecting, address, holder, once, i)
)
SELECT 0::bigint AS i, 0 AS kind, NULL::uuid AS id, NULL::timestamptz AS approved, now AS at,
  NULL::int AS attempts, NULL::int AS attempts_reset, NULL::text AS class, NULL::text AS checks, NULL::text AS held FROM clock
UNION ALL
SELECT u.i, 1, s.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM u CROSS JOIN LATERAL (SELECT s.id FROM sends s WHERE s.id = u.id AND s.id BETWEEN $14 AND $15 LIMIT 1) s
UNION ALL
SELECT u.i, 2, x.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM u CROSS JOIN LATERAL (
    SELECT x.id FROM suppressions x
    WHERE x.lifted_at IS NULL AND x.address = u.address AND x.channel = u.channel AND x.until > (SELECT now FROM clock)
      AND (x.held_until IS NULL OR x.held_until <= (SELECT now FROM clock))
      AND x.app IN ('', u.app)
    ORDER BY x.until DESC, x.id DESC LIMIT 1
) x
UNION ALL
SELECT u.i, 4, f.id, NULL, f.finished_at, NULL, NULL, NULL, NULL, NULL FROM clock, u CROSS JOIN LATERAL (
    SELECT f.id, f.finished_at FROM failures f
    WHERE f.recipient = u.recipient AND f.app = u.app AND f.channel = u.channel AND f.counts
      AND f.finished_at > clock.now - u.rejecting * interval '1 microsecond'
    ORDER BY f.finished_at DESC LIMIT 1000
) f
UNION ALL
SELECT u.i, 5, NULL, o.approved_at, o.expires_at, o.attempts, o.attempts_reset, o.class, o.checks, NULL
FROM clock, u CROSS JOIN LATERAL (` + verificationsWithChecksSQL("u", "clock.now") + `) o
UNION ALL` + strings.Join(sends, `
UNION ALL`)
}

// countedSendsSQL reads the counted sends of calls without u.once (see holderSendsCoverRules).
var countedSendsSQL = `
SELECT u.i, 3, s.id, NULL, s.logged_at, NULL, NULL, NULL, NULL, NULL FROM clock, u CROSS JOIN LATERAL (
    SELECT s.id, s.logged_at FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - u.longest * interval '1 microsecond')
      AND (s.counts AND ` + bucketConditionEnd + `
    ORDER BY s.recipient DESC, s.logged_at DESC LIMIT u.most
) s WHERE NOT u.once`

// sendsOfHoldersSQL reads the open verifications of the calls' holders, by all sends of the last
// day, and the counted sends of calls with u.once. It does not lock the verifications, so calls
// that may join one are not decided by this read.
var sendsOfHoldersSQL = `
SELECT u.i, CASE WHEN s.past THEN 3 ELSE 6 END, s.id, NULL, s.logged_at, NULL, NULL, NULL, NULL, v.id
FROM clock, u CROSS JOIN LATERAL (
    SELECT s.id, s.logged_at, s.verification_id, u.once AND s.counts
      AND s.logged_at > clock.now - u.longest * interval '1 microsecond' AS past
    FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - ` + resendWithinSQL + ` * interval '1 microsecond')
      AND (` + bucketConditionEnd + `
    OFFSET 0
) s LEFT JOIN LATERAL (
    SELECT v.id FROM verifications v
    WHERE v.id = s.verification_id
      AND (v.holder = u.holder AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts
        AND v.expires_at > clock.now) IS TRUE
    OFFSET 0
) v ON true WHERE u.holder <> '' AND (s.past OR v.id IS NOT NULL)`

// bucketConditionEnd ends a condition on the sends s of u: they are of its bucket, and in the
// partitions that are read.
const bucketConditionEnd = `s.app = u.app AND s.channel = u.channel AND s.purpose = ANY (string_to_array(u.purposes, E'\x1f'))) IS TRUE
      AND (s.id >= $12 OR s.id > $12) AND (s.id < $13 OR s.id <= $13) -- an OR is of use to no index`

// gateStatementName returns the name of the statement that reads the sends that a batch needs.
func gateStatementName(batch []*beginCall) string {
	held := slices.ContainsFunc(batch, func(x *beginCall) bool { return x.In.HolderToJoin() != "" })
	once := !slices.ContainsFunc(batch, func(x *beginCall) bool { return !holderSendsCoverRules(x.In) })
	switch {
	case once:
		return stmtGateHolders
	case held:
		return stmtGateCountedAndHolders
	}
	return stmtGateCounted
}

// holderSendsCoverRules reports whether the sends by which an intent finds its holder's
// verifications are all that its rules count.
func holderSendsCoverRules(in store.Intent) bool {
	return in.HolderToJoin() != "" && quota.LongestKeep(in.Rules) <= rowrules.ResendWithin
}

// resendWithinSQL is ResendWithin in µs.
var resendWithinSQL = strconv.FormatInt(rowrules.ResendWithin.Microseconds(), 10)

// extraHistoryRows is how many more rows of a bucket are read than the largest limit. More than the
// limit may count after a change of the policy, and the answer tells when the oldest leaves.
const extraHistoryRows = 100

// gateRow is one row of gateSQL.
type gateRow struct {
	i        int64
	kind     int32
	id       pgtype.UUID
	approved pgtype.Timestamptz
	at       pgtype.Timestamptz

	attempts, attemptsReset pgtype.Int4
	class                   pgtype.Text
	checks                  []store.Check

	held pgtype.Text // an open verification of the call's holder, not locked
}

// withChecksFields returns the destinations to scan the columns of verificationsWithChecksSQL into.
// All are NULL if there is no such row.
func (r *gateRow) withChecksFields() []any {
	return []any{&r.approved, &r.at, &r.attempts, &r.attemptsReset, &r.class, columns.ScannerFor(&r.checks)}
}

// verificationWithChecks returns the fields of a row of verificationsWithChecksSQL, by which
// lockouts are decided.
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

// batchFacts has the facts by which a batch is decided, as they were read.
type batchFacts struct {
	now      time.Time
	facts    []rowrules.Facts // of each call
	repeated []bool           // of each call: its send has a row already
	// of each call without Join: the IDs of its holder's open verifications; facts has them only
	// once they are locked
	ofHolders [][]string
}

// addRow stores one row of gateSQL in the facts.
func (v *batchFacts) addRow(r gateRow) {
	if r.kind == clockRow {
		v.now = store.TruncateToMicroseconds(r.at.Time)
		return
	}
	has := &v.facts[r.i-1]
	if ids := &v.ofHolders[r.i-1]; r.held.Valid && !slices.Contains(*ids, r.held.String) {
		*ids = append(*ids, r.held.String)
	}
	switch r.kind {
	case repeatedRow:
		v.repeated[r.i-1] = true
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

// readBatchFacts reads the rows of gateSQL for n calls. It fails if the database's clock is not
// among them.
func readBatchFacts(rows pgx.Rows, n int) (v batchFacts, err error) {
	v = batchFacts{facts: make([]rowrules.Facts, n), repeated: make([]bool, n), ofHolders: make([][]string, n)}
	var r gateRow
	fields := append(append([]any{&r.i, &r.kind, &r.id}, r.withChecksFields()...), &r.held)
	_, err = pgx.ForEachRow(rows, fields, func() error { v.addRow(r); return nil })
	if err == nil && v.now.IsZero() {
		err = errNoClock
	}
	return v, err
}

// joinCandidate is a verification that a call may join.
type joinCandidate struct {
	*beginCall
	i  int // of the call in its batch
	id string
}

// listCandidates lists the verifications that the calls of a batch may join: those that they name,
// and those in held, the open ones of each call's holder; held may be nil.
func listCandidates(batch []*beginCall, held [][]string) (list []joinCandidate) {
	for i, x := range batch {
		if x.In.Join != "" {
			list = append(list, joinCandidate{x, i, x.In.Join})
		} else if held != nil {
			for _, id := range held[i] {
				list = append(list, joinCandidate{x, i, id})
			}
		}
	}
	return list
}

// candidateParameters returns the parameters of lockCandidatesSQL.
func candidateParameters(list []joinCandidate) []any {
	p := columns.NewArrayParameters(list, 7)
	p.Add(columns.Integer, func(buf []byte, c joinCandidate) []byte { return columns.AppendInteger(buf, c.i) })
	p.Add(columns.Text, func(buf []byte, c joinCandidate) []byte { return append(buf, c.id...) })
	p.Add(columns.Text, func(buf []byte, c joinCandidate) []byte { return append(buf, c.In.HolderToJoin()...) })
	p.Add(columns.Text, func(buf []byte, c joinCandidate) []byte { return append(buf, c.In.Send.App...) })
	p.Add(columns.Text, func(buf []byte, c joinCandidate) []byte { return append(buf, c.In.Send.Channel...) })
	p.Add(columns.Text, func(buf []byte, c joinCandidate) []byte { return append(buf, c.In.Send.Purpose...) })
	p.Add(columns.Bytes, func(buf []byte, c joinCandidate) []byte { return append(buf, c.In.Send.Recipient[:]...) })
	return p.Args()
}

// readCandidates reads the rows of lockCandidatesSQL into the lists of their calls.
func readCandidates(rows pgx.Rows, locked [][]store.Verification) error {
	var i int32
	var v store.Verification
	_, err := pgx.ForEachRow(rows, append([]any{&i}, sqldb.VerificationFields(&v)...), func() error {
		locked[i] = append(locked[i], v)
		v = store.Verification{}
		return nil
	})
	return err
}

// gateParameters returns the parameters of gateSQL.
func gateParameters(batch []*beginCall, b idBounds) []any {
	p := columns.NewArrayParameters(batch, 15)
	p.Add(columns.UUID, func(buf []byte, x *beginCall) []byte { return append(buf, x.In.Send.ID[:]...) })
	p.Add(columns.Text, func(buf []byte, x *beginCall) []byte { return append(buf, x.In.Send.App...) })
	p.Add(columns.Text, func(buf []byte, x *beginCall) []byte { return append(buf, x.In.Send.Channel...) })
	p.Add(columns.Bytes, func(buf []byte, x *beginCall) []byte { return append(buf, x.In.Send.Recipient[:]...) })
	p.Add(columns.Text, func(buf []byte, x *beginCall) []byte {
		return append(buf, strings.Join(x.In.Purposes, store.PurposeSeparator)...)
	})
	p.Add(columns.Bigint, func(buf []byte, x *beginCall) []byte {
		return columns.AppendBigint(buf, quota.LongestKeep(x.In.Rules).Microseconds())
	})
	p.Add(columns.Integer, func(buf []byte, x *beginCall) []byte { return columns.AppendInteger(buf, maxHistoryRows(x.In)) })
	p.Add(columns.Bigint, func(buf []byte, x *beginCall) []byte {
		return columns.AppendBigint(buf, quota.LongestKeep(x.In.RejectionRules).Microseconds())
	})
	p.Add(columns.Bytes, func(buf []byte, x *beginCall) []byte { return append(buf, x.In.Address[:]...) })
	p.Add(columns.Text, func(buf []byte, x *beginCall) []byte { return append(buf, x.In.HolderToJoin()...) })
	p.Add(columns.Boolean, func(buf []byte, x *beginCall) []byte { return columns.AppendBoolean(buf, holderSendsCoverRules(x.In)) })
	return p.Args(uuidParameter(b.first), uuidParameter(b.last), uuidParameter(b.earliest), uuidParameter(b.latest))
}

// maxHistoryRows returns how many rows of the recipient's history are read; 0 if the intent has no
// rules.
func maxHistoryRows(in store.Intent) int {
	if len(in.Rules) == 0 {
		return 0
	}
	return rowrules.LargestLimit(in) + extraHistoryRows
}

// uuidParameter wraps an ID so that pgx writes it as bytes, without its text form.
func uuidParameter(id uuid.UUID) any { return pgtype.UUID{Bytes: id, Valid: true} }

// idBounds are the ranges of IDs that a batch reads, so that Postgres skips other partitions.
type idBounds struct {
	from, to         time.Time // assumed range of the database's time; if it is outside, the batch is read again
	first, last      uuid.UUID // range of the rows that may count
	earliest, latest uuid.UUID // range of the batch's own IDs
}

// maxClockSetBack is how far the database's clock may be set back so that rows logged before still
// count.
const maxClockSetBack = 31 * 24 * time.Hour

// idBoundsOfBatch returns the ranges of IDs that a batch needs if the database's clock is at most
// an hour before and a day after near. The range of rows that may count reaches a month past that,
// since rows of the database's future count if its clock was set back.
func idBoundsOfBatch(batch []*beginCall, near time.Time) idBounds {
	reach := rowrules.ResendWithin
	for _, x := range batch {
		reach = max(reach, quota.LongestKeep(x.In.Rules))
	}
	b := idBoundsAround(near, reach)
	b.earliest, b.latest = idRange(batch)
	return b
}

// idBoundsAround is idBoundsOfBatch for rows that are at most reach old.
func idBoundsAround(near time.Time, reach time.Duration) idBounds {
	b := idBounds{from: near.Add(-time.Hour), to: near.Add(24 * time.Hour)}
	b.first, b.last = store.LowestID(b.from.Add(-reach-store.MaxIDTimeDrift)),
		store.LowestID(b.to.Add(maxClockSetBack+store.MaxIDTimeDrift))
	return b
}

// contains reports whether now is within the time for which the bounds were made.
func (b idBounds) contains(now time.Time) bool { return !now.Before(b.from) && now.Before(b.to) }

// idRange returns the smallest and the largest ID of a batch, which must not be empty.
func idRange(batch []*beginCall) (first, last uuid.UUID) {
	first, last = batch[0].In.Send.ID, batch[0].In.Send.ID
	for _, x := range batch[1:] {
		if next := x.In.Send.ID; bytes.Compare(next[:], first[:]) < 0 {
			first = next
		} else if bytes.Compare(next[:], last[:]) > 0 {
			last = next
		}
	}
	return first, last
}
