package postgres

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// The first trip of a Begin takes the recipients' locks in a separate statement, and then reads. Under READ COMMITTED, the snapshot of the
// later statements is younger than the locks, so they see everything that earlier holders of the locks committed.

// candidatesSQL returns the statement that reads and locks the verifications that a batch may join; the row locks keep checks from changing
// them meanwhile. They are taken in the order of the IDs, as by checks. ids is an expression for the IDs that a call u may join.
func candidatesSQL(ids string) string {
	return `
SELECT u.i, ` + sqldb.VerificationColumns + `
FROM (
    SELECT u.*, id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[])
      WITH ORDINALITY AS u(join_id, holder, app, channel, purpose, recipient, i)
    CROSS JOIN LATERAL unnest(` + ids + `) AS id
    ORDER BY id
) u CROSS JOIN LATERAL (
    SELECT * FROM verifications v
    WHERE v.id = u.id
      AND (u.join_id <> '' OR v.holder = u.holder) AND v.recipient = u.recipient AND v.app = u.app AND v.channel = u.channel
        AND v.purpose = u.purpose
      AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND v.expires_at > @now
    FOR NO KEY UPDATE OF v
) v`
}

var (
	// namedSQL is for a batch whose calls name verifications. It opens no partition of sends, which takes as long as all of it.
	namedSQL = candidatesSQL(`ARRAY[u.join_id]`)
	// heldSQL also finds those of a holder, by the recipient's recent sends.
	heldSQL = candidatesSQL(`CASE WHEN u.join_id <> '' THEN ARRAY[u.join_id] WHEN u.holder <> '' THEN
        ARRAY(` + resentSQL("u.") + ` AND (s.id >= $7 OR s.id > $7) AND (s.id < $8 OR s.id <= $8) GROUP BY 1) END`)
)

// resentSQL returns the subquery for the IDs of verifications whose codes were sent to a recipient lately. of is the prefix of the column
// or parameter "recipient".
func resentSQL(of string) string {
	return `SELECT s.verification_id FROM sends s
        WHERE s.recipient <= ` + of + `recipient
          AND (s.recipient, s.logged_at) > (` + of + `recipient, @now - ` + sqldb.IntervalSQL(gate.ResendWithin) + `)`
}

// The kinds of rows that gateSQL returns.
const (
	clockRow = iota
	repeatedRow
	suppressedRow
	pastRow
	rejectedRow
	triedRow
)

// triedSQL returns the query for the verifications with checks of the recipient of a row, so far back as they can count.
func triedSQL(of, now string) string {
	key := of + ".recipient, " + of + ".app, " + of + ".channel"
	return `
    SELECT o.approved_at, o.expires_at, o.attempts, o.forgiven, o.class, o.checks FROM verifications o
    WHERE o.attempts > 0 AND o.recipient = ` + of + `.recipient AND o.app = ` + of + `.app AND o.channel = ` + of + `.channel
      AND (o.recipient, o.app, o.channel, o.expires_at) > (` + key + `, ` + now + ` - ` + sqldb.IntervalSQL(gate.RowWindow) + `)
    OFFSET 0`
}

// gateSQL reads all facts by which a batch is decided, as rows of several kinds. The bounds and the order on recipients match only one
// index, and no index can be used for the other conditions. So the planner can only choose one plan, even without statistics on a new
// partition. The bounds on IDs ($10 to $13) let Postgres skip partitions; $10 and $11 leave out no row that counts, if the database's clock
// is where boundsOf assumes it.
var gateSQL = `
WITH clock AS MATERIALIZED (
    SELECT @now AS now
), u AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bigint[], $7::int[], $8::bigint[], $9::bytea[])
        WITH ORDINALITY AS u(id, app, channel, recipient, purposes, longest, most, rejecting, address, i)
)
SELECT 0::bigint AS i, 0 AS kind, NULL::uuid AS id, NULL::text AS clock, NULL::timestamptz AS taken, now AS at,
  NULL::int AS attempts, NULL::int AS forgiven, NULL::text AS class, NULL::text AS checks FROM clock
UNION ALL
SELECT u.i, 1, s.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM u CROSS JOIN LATERAL (SELECT s.id FROM sends s WHERE s.id = u.id AND s.id BETWEEN $12 AND $13 LIMIT 1) s
UNION ALL
SELECT u.i, 2, x.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM u CROSS JOIN LATERAL (
    SELECT x.id FROM suppressions x
    WHERE x.lifted_at IS NULL AND x.address = u.address AND x.channel = u.channel AND x.until > (SELECT now FROM clock)
      AND x.app IN ('', u.app)
    ORDER BY x.until DESC, x.id DESC LIMIT 1
) x
UNION ALL
SELECT u.i, 3, s.id, s.clock, s.taken_at, s.logged_at, NULL, NULL, NULL, NULL FROM clock, u CROSS JOIN LATERAL (
    SELECT s.id, s.clock, s.taken_at, s.logged_at FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - (u.longest + ` + skewSQL + `) * interval '1 microsecond')
      AND (s.counts AND s.app = u.app AND s.channel = u.channel AND s.purpose = ANY (string_to_array(u.purposes, E'\x1f'))) IS TRUE
      AND (s.id >= $10 OR s.id > $10) AND (s.id < $11 OR s.id <= $11) -- an OR is of use to no index
    ORDER BY s.recipient DESC, s.logged_at DESC LIMIT u.most
) s
UNION ALL
SELECT u.i, 4, f.id, NULL, NULL, f.finished_at, NULL, NULL, NULL, NULL FROM clock, u CROSS JOIN LATERAL (
    SELECT f.id, f.finished_at FROM failures f
    WHERE f.recipient = u.recipient AND f.app = u.app AND f.channel = u.channel AND f.counts
      AND f.finished_at > clock.now - u.rejecting * interval '1 microsecond'
    ORDER BY f.finished_at DESC LIMIT 1000
) f
UNION ALL
SELECT u.i, 5, NULL, NULL, o.approved_at, o.expires_at, o.attempts, o.forgiven, o.class, o.checks FROM clock, u CROSS JOIN LATERAL (` +
	triedSQL("u", "clock.now") + `) o`

// skewSQL is MaxClockSkew in µs.
var skewSQL = strconv.FormatInt(store.MaxClockSkew.Microseconds(), 10)

// spareRows is how many more rows of a bucket are read than the largest limit. If a limiter's clock was wrong, the rows that count may not
// be the newest.
const spareRows = 100

// gateRow is one row of gateSQL.
type gateRow struct {
	i     int64
	kind  int32
	id    pgtype.UUID
	clock pgtype.Text
	taken pgtype.Timestamptz
	at    pgtype.Timestamptz

	attempts, forgiven pgtype.Int4
	class              pgtype.Text
	checks             []store.Check
}

// triedFields returns the destinations to scan the columns of triedSQL into. All are NULL if there is no such row.
func (r *gateRow) triedFields() []any {
	return []any{&r.taken, &r.at, &r.attempts, &r.forgiven, &r.class, columns.Into(&r.checks)}
}

// tried returns the fields of a row of triedSQL, by which lockouts are decided.
func (r *gateRow) tried() store.Verification {
	v := store.Verification{ExpiresAt: store.Micro(r.at.Time), Attempts: int(r.attempts.Int32), Forgiven: int(r.forgiven.Int32),
		Class: store.Class(r.class.String), Checks: r.checks}
	if r.taken.Valid {
		v.ApprovedAt = store.Micro(r.taken.Time)
	}
	return v
}

// gateView is what the first trip has read.
type gateView struct {
	now      time.Time
	has      []gate.Facts // of each call
	repeated []bool       // of each call: its send has a row already
}

// addRow stores one row of gateSQL in the view.
func (v *gateView) addRow(r gateRow) {
	if r.kind == clockRow {
		v.now = store.Micro(r.at.Time)
		return
	}
	has := &v.has[r.i-1]
	switch r.kind {
	case repeatedRow:
		v.repeated[r.i-1] = true
	case suppressedRow:
		has.Suppression = r.id.Bytes
	case pastRow:
		has.Past = append(has.Past, gate.CountedSend{ID: r.id.Bytes, Clock: r.clock.String, TakenAt: store.Micro(r.taken.Time),
			LoggedAt: store.Micro(r.at.Time)})
	case rejectedRow:
		has.Rejections = append(has.Rejections, gate.CountedSend{ID: r.id.Bytes, LoggedAt: store.Micro(r.at.Time)})
	case triedRow:
		has.Tried = append(has.Tried, r.tried())
	}
}

// readGateView reads the rows of gateSQL for n calls. It fails if the database's clock is not among them.
func readGateView(rows pgx.Rows, n int) (v gateView, err error) {
	v = gateView{has: make([]gate.Facts, n), repeated: make([]bool, n)}
	var r gateRow
	_, err = pgx.ForEachRow(rows, append([]any{&r.i, &r.kind, &r.id, &r.clock}, r.triedFields()...), func() error { v.addRow(r); return nil })
	if err == nil && v.now.IsZero() {
		err = errNoClock
	}
	return v, err
}

// readCandidates reads the rows of candidatesSQL: for each of n calls the verifications that it may join.
func readCandidates(rows pgx.Rows, n int) ([][]store.Verification, error) {
	list := make([][]store.Verification, n)
	var i int64
	var v store.Verification
	_, err := pgx.ForEachRow(rows, append([]any{&i}, sqldb.VerificationFields(&v)...), func() error {
		list[i-1] = append(list[i-1], v)
		v = store.Verification{}
		return nil
	})
	return list, err
}

// candidates returns the statement that reads what a batch may join, with its parameters; "" if no call names a verification or a holder.
func candidates(batch []*call, b bounds) (statement string, parameters []any) {
	for _, x := range batch {
		switch {
		case x.In.Join == "" && x.In.Verification.Holder != "":
			return stmtHeld, candidateParameters(batch).Args(uuidParameter(b.first), uuidParameter(b.last))
		case x.In.Join != "":
			statement = stmtNamed
		}
	}
	if statement == "" {
		return "", nil
	}
	return statement, candidateParameters(batch).Args()
}

func candidateParameters(batch []*call) *columns.Arrays[*call] {
	p := columns.NewArrays(batch, 8)
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Join...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Verification.Holder...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.App...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.Channel...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.Purpose...) })
	p.Add(columns.Bytes, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.Recipient[:]...) })
	return p
}

// gateParameters returns the parameters of gateSQL.
func gateParameters(batch []*call, b bounds) []any {
	p := columns.NewArrays(batch, 13)
	p.Add(columns.UUID, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.ID[:]...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.App...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.Channel...) })
	p.Add(columns.Bytes, func(buf []byte, x *call) []byte { return append(buf, x.In.Send.Recipient[:]...) })
	p.Add(columns.Text, func(buf []byte, x *call) []byte {
		return append(buf, strings.Join(x.In.Purposes, store.PurposeSeparator)...)
	})
	p.Add(columns.Bigint, func(buf []byte, x *call) []byte {
		return columns.AppendBigint(buf, quota.LongestKeep(x.In.Rules).Microseconds())
	})
	p.Add(columns.Integer, func(buf []byte, x *call) []byte { return columns.AppendInteger(buf, maxHistoryRows(x.In)) })
	p.Add(columns.Bigint, func(buf []byte, x *call) []byte {
		return columns.AppendBigint(buf, x.In.Rejections.Window.Microseconds())
	})
	p.Add(columns.Bytes, func(buf []byte, x *call) []byte { return append(buf, x.In.Address[:]...) })
	return p.Args(uuidParameter(b.first), uuidParameter(b.last), uuidParameter(b.earliest), uuidParameter(b.latest))
}

// maxHistoryRows returns how many rows of the recipient's history are read; 0 if the intent has no rules.
func maxHistoryRows(in store.Intent) int {
	if len(in.Rules) == 0 {
		return 0
	}
	return gate.LargestLimit(in) + spareRows
}

// uuidParameter wraps an ID so that pgx writes it as bytes, without its text form.
func uuidParameter(id uuid.UUID) any { return pgtype.UUID{Bytes: id, Valid: true} }

// bounds are the ranges of IDs that a batch reads, so that Postgres skips other partitions.
type bounds struct {
	from, to         time.Time // assumed range of the database's time; if it is outside, the batch is read again
	first, last      uuid.UUID // range of the rows that may count
	earliest, latest uuid.UUID // range of the batch's own IDs
}

// clockBack is how far the database's clock may be set back so that rows logged before still count.
const clockBack = 31 * 24 * time.Hour

// boundsOf returns the ranges of IDs that a batch needs if the database's clock is at most an hour before and a day after near. The
// range of rows that may count reaches a month past that, since rows of the database's future count if its clock was set back.
func boundsOf(batch []*call, near time.Time) bounds {
	reach := gate.ResendWithin
	for _, x := range batch {
		reach = max(reach, gate.MaxRowAge(x.In))
	}
	b := boundsAround(near, reach)
	b.earliest, b.latest = idRange(batch)
	return b
}

// boundsAround is boundsOf for rows that are at most reach old.
func boundsAround(near time.Time, reach time.Duration) bounds {
	b := bounds{from: near.Add(-sqldb.ClockStep), to: near.Add(24 * time.Hour)}
	b.first, b.last = store.LowestID(b.from.Add(-reach-store.MaxDrift)), store.LowestID(b.to.Add(clockBack+store.MaxDrift))
	return b
}

// contains reports whether now is within the time for which the bounds were made.
func (b bounds) contains(now time.Time) bool { return !now.Before(b.from) && now.Before(b.to) }

// idRange returns the smallest and the largest ID of a batch, which must not be empty.
func idRange(batch []*call) (first, last uuid.UUID) {
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
