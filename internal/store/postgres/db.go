package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store/sqldb"
)

// words is the dialect of Postgres, without the clock, which openAt sets.
var words = sqldb.Dialect{
	Typed: true,
	Words: map[string]string{
		"true": "true", "false": "false", "skip locked": "FOR UPDATE SKIP LOCKED", "lock": "FOR NO KEY UPDATE",
		// With ARRAY, the planner always reads the subquery once and first, and then looks the rows up by their key.
		"among": "= ANY (ARRAY(", "end": "))",
		// LATERAL with LIMIT 1: the planner can only look up each row by its key.
		"of event": `LEFT JOIN LATERAL (SELECT * FROM sends s WHERE s.id = e.send_id LIMIT 1) s ON true
LEFT JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = e.verification_id LIMIT 1) v ON true`,
	},
	At:          func(t time.Time) any { return t },
	Failures:    "failures f CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = f.id LIMIT 1) s",
	Delivered:   deliveredSQL,
	Partitioned: true,
	Since:       sqldb.LoggedSinceSQL,
	Stretch: func(column string, offset, each time.Duration) string {
		return fmt.Sprintf("floor((extract(epoch FROM %s) + %d) / %d)::bigint", column, offset/time.Second, each/time.Second)
	},
	Instant:   func(at time.Time) string { return fmt.Sprintf("to_timestamp(%d)", at.Unix()) },
	Took:      bucketSQL("s.finished_at - s.logged_at"),
	Time:      bucketMiddle,
	Latest:    latestSQL,
	Lock:      `SELECT pg_advisory_xact_lock(@key)`,
	LockTries: lockRecipientSQL,
	// The lock keeps CountHours from counting an hour during the erasure.
	BeforeErase: []string{patientSQL, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, int64(countLock)), eraseHoursSQL,
		eraseCodesSQL},
	BeforeForget: []string{patientSQL},
	// The BRIN index of verifications by time can only be read by a bitmap scan.
	BeforeExpire: []string{`SET LOCAL enable_bitmapscan = on`},
}

// pgConn runs statements on a connection or in a transaction.
type pgConn struct {
	ctx context.Context
	q   interface {
		Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
	}
}

// Run implements sqldb.Conn.
func (c pgConn) Run(statement string, args []any, each func(sqldb.Scan) error) (int64, error) {
	rows, err := c.q.Query(c.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return drain(rows, each)
}

// drain reads and closes the rows. It calls each, if not nil, for every row and stops at its first error. It returns the number of
// rows that the statement changed or returned.
func drain(rows pgx.Rows, each func(sqldb.Scan) error) (int64, error) {
	defer rows.Close()
	for each != nil && rows.Next() {
		if err := each(rows.Scan); err != nil {
			return 0, err
		}
	}
	rows.Close()
	return rows.CommandTag().RowsAffected(), rows.Err()
}

// Read implements sqldb.Engine.
func (p *DB) Read(ctx context.Context, f func(sqldb.Tx) error) error {
	return p.read(ctx, func(c *pgxpool.Conn) error { return f(sqldb.Tx{Conn: pgConn{ctx, c}, Dialect: &p.Dialect}) })
}

// Write implements sqldb.Engine. BEGIN and the query of the clock are one round trip.
func (p *DB) Write(ctx context.Context, f func(sqldb.Tx) error) error {
	return p.change(ctx, func(c *pgxpool.Conn) error {
		now, err := p.begin(ctx, c)
		if err != nil {
			return err
		}
		if err := f(sqldb.Tx{Conn: pgConn{ctx, c}, Dialect: &p.Dialect, Now: now}); err != nil {
			_, _ = c.Exec(context.WithoutCancel(ctx), "ROLLBACK")
			return err
		}
		tag, err := c.Exec(ctx, "COMMIT")
		return errors.Join(err, notCommitted(err, tag))
	})
}

// begin starts a transaction and reads the log's clock, in one round trip.
func (p *DB) begin(ctx context.Context, c *pgxpool.Conn) (now time.Time, err error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue("SELECT " + p.now)
	results := c.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return now, err
	}
	return now, results.QueryRow().Scan(sqldb.TimeField{To: &now})
}

// Run implements sqldb.Engine, in one round trip.
func (p *DB) Run(ctx context.Context, steps ...*sqldb.Step) error {
	return p.change(ctx, func(c *pgxpool.Conn) error {
		var b pgx.Batch
		b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
		for _, s := range steps {
			text, args := p.DB.Dialect.Bind(s.Statement, s.Args, time.Time{})
			b.Queue(text, args...)
		}
		b.Queue("COMMIT")
		results := c.SendBatch(ctx, &b)
		defer results.Close()
		if _, err := results.Exec(); err != nil {
			return err
		}
		for _, s := range steps {
			if err := readStep(s, results); err != nil {
				return err
			}
		}
		tag, err := results.Exec()
		return errors.Join(err, notCommitted(err, tag))
	})
}

// readStep reads the results of one step of a batch and sets how many rows it changed.
func readStep(s *sqldb.Step, results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	s.Changed, err = drain(rows, s.Each)
	return err
}

// notCommitted returns an error if the server answered a COMMIT without an error but with something else, such as ROLLBACK.
func notCommitted(err error, tag pgconn.CommandTag) error {
	if err == nil && tag.String() != "COMMIT" {
		return errors.New("store: a transaction was not committed")
	}
	return nil
}

// Clock returns the time on the log's clock.
func (p *DB) Clock(ctx context.Context) (time.Time, error) {
	return sqldb.Reading(ctx, &p.DB, sqldb.Tx.Clock)
}

// deliveredSQL adds the minute of a delivered message to the table minute_index, by which minuteQuery finds such messages.
const deliveredSQL = `
INSERT INTO minute_index (field, value, minute) SELECT 'receipt', 'delivered', date_trunc('minute', s.logged_at) FROM sends s WHERE s.id = @id
  ON CONFLICT DO NOTHING`

// readRows runs a query with numbered parameters and returns all of its rows.
func readRows[T any](ctx context.Context, p *DB, fields func(*T) []any, query string, args ...any) ([]T, error) {
	return sqldb.ReadAll(ctx, &p.DB, fields, query, sqldb.NumberedArgs(args))
}

// latestSQL reads the newest send and the newest refusal of each recipient. LATERAL makes the planner look up each recipient in the index.
var latestSQL = `
SELECT s.* FROM unnest(@recipients) AS h (recipient) CROSS JOIN LATERAL (
    (SELECT ` + sqldb.SendColumns + ` FROM sends s WHERE s.recipient = h.recipient AND s.number > 0 AND s.logged_at > @now - @within
     ORDER BY s.logged_at DESC, s.id DESC LIMIT 1)
    UNION ALL
    (SELECT ` + sqldb.SendColumns + ` FROM sends s WHERE s.recipient = h.recipient AND s.number = 0 AND s.logged_at > @now - @within
     ORDER BY s.logged_at DESC, s.id DESC LIMIT 1)
) s`
