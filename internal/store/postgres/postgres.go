// Package postgres is the store in a Postgres that replicas share: what begins, ends and takes over sends, counts hours, partitions,
// migrations and rights.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// DB is the log in a Postgres (14 or newer) that replicas share. It is safe for concurrent use.
type DB struct {
	sqldb.DB

	writers   *pgxpool.Pool // of Begin alone, so that no slow reader can hold it up
	finishers *pgxpool.Pool // of Finish, Postpone, Renew, TakeOver and the ends of events; see finisherSession
	pool      *pgxpool.Pool
	begins    *batcher[store.Intent, store.Begun]
	endings   *batcher[store.Outcome, bool]

	postponements *batcher[store.Postponement, bool]
	eventEnds     *batcher[store.AppEventEnd, bool]

	overdue overdue       // what TakeOver knows
	between func([]*call) // called between the trips of a Begin, by tests; nil: nothing is

	now  string       // the log's clock, in SQL
	seen atomic.Int64 // the log's instant that was told last, µs since 1970: whereabouts its clock is
}

const (
	serverClock = "clock_timestamp()" // not now(): that one stands still from the begin of the transaction, before the lock

	otherConns     = 8 // of each replica, unless the URL says pool_max_conns; Begin has maxWriters more
	finisherConns  = 3 // Finish, Postpone and the ends of events make one round trip at a time; Renew and TakeOver take turns with them
	connectTimeout = 3 * time.Second
	idleTime       = 5 * time.Minute
	lifetime       = time.Hour
)

// session is how our connections are set up, unless the URL says otherwise.
var session = map[string]string{
	"application_name": "sendcode",
	"timezone":         "UTC",
	// No statement of ours runs for long, and one recipient's lock must not hold up the others in a round trip: it is
	// waited for twice at most, in the round trip and then alone, within beginTimeout.
	"statement_timeout":                   "5s",
	"lock_timeout":                        "1s",
	"idle_in_transaction_session_timeout": "5s",
	// A client that vanished in the middle of a transaction holds its locks until the server notices.
	"tcp_keepalives_idle":     "10",
	"tcp_keepalives_interval": "5",
	"tcp_keepalives_count":    "3",
	// Every query has its index. These tables grow faster than the statistics that could talk the planner out of it.
	"enable_seqscan": "off",
	// Each is in the order that is asked for, or looks a few rows up: no query gathers what several conditions leave.
	"enable_bitmapscan": "off",
	"jit":               "off",
}

// writerSession is added to session for Begin.
var writerSession = map[string]string{"idle_in_transaction_session_timeout": betweenTrips}

// finisherSession is added to session for statements that join a list of IDs with the rows that have them. The planner expects one row
// of such a join, whatever the list, and may choose a nested loop, which compares each ID with each row: 256 outcomes took 0.3 s, and
// 4,000 leases more than a second. A hash join costs the same for one ID and grows with the list.
var finisherSession = map[string]string{"enable_nestloop": "off"}

// betweenTrips is how long a transaction of Begin may wait for its second trip: less than others wait for a lock, so that a replica that
// stands still frees its recipients before they give up.
const betweenTrips = "800ms"

// Open connects to the database at url, a postgres:// URL, whose schema Migrate has made, and works there as role; if role is empty, as the
// URL says. ctx bounds the opening. An error names no part of the URL.
func Open(ctx context.Context, url, role string) (*DB, error) {
	return openAt(ctx, url, serverClock, role)
}

// openAt lets tests replace the log's clock.
func openAt(ctx context.Context, url, now, role string) (*DB, error) {
	p := &DB{now: now}
	p.DB = sqldb.DB{Dialect: words, Engine: p}
	p.Dialect.Now = now
	var err error
	told, err := p.openPools(ctx, url, role)
	if err != nil {
		p.closePools()
		return nil, err
	}
	p.seen.Store(told.UnixMicro())
	p.begins = newBatcher(maxWriters, p.decideBatch)
	p.endings, p.postponements, p.eventEnds = newBatcher(1, p.finish), newBatcher(1, p.postpone), newBatcher(1, p.endEvents)
	return p, nil
}

// openPools opens the pools, checks the server and its schema, and returns the log's time. After an error some may be open.
func (p *DB) openPools(ctx context.Context, url, role string) (now time.Time, err error) {
	if p.pool, err = newPool(ctx, url, role, poolOptions{}); err != nil {
		return now, err
	}
	if err = withConn(ctx, p.pool, func(conn *pgxpool.Conn) error { return checkOwnSession(ctx, conn.Conn()) }); err != nil {
		return now, err
	}
	if err = checkSchema(ctx, p.pool); err != nil {
		return now, err
	}
	o := poolOptions{conns: maxWriters, session: writerSession, statements: p.beginStatements()}
	if p.writers, err = newPool(ctx, url, role, o); err != nil {
		return now, err
	}
	o = poolOptions{conns: finisherConns, session: finisherSession, statements: p.finishStatements()}
	if p.finishers, err = newPool(ctx, url, role, o); err != nil {
		return now, err
	}
	return p.Clock(ctx)
}

func (p *DB) closePools() {
	for _, pool := range []*pgxpool.Pool{p.writers, p.finishers, p.pool} {
		if pool != nil {
			pool.Close()
		}
	}
}

// poolOptions say what a pool has that others do not.
type poolOptions struct {
	conns      int32             // at most, of which one is kept open; 0: otherConns, unless the URL says pool_max_conns
	session    map[string]string // settings besides session
	statements []statement       // prepared on each connection, each with one generic plan
}

// statement is a statement to prepare.
type statement struct{ name, sql string }

// newPool opens a pool of connections. Errors do not contain the URL.
func newPool(ctx context.Context, url, role string, o poolOptions) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("store: the database URL can't be read") // the cause may show a password
	}
	if o.conns > 0 {
		config.MaxConns, config.MinConns = o.conns, 1
	} else if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = otherConns
	}
	// A connection that died while it was idle must not make a write uncertain. Prepared statements, which are all repeated after a
	// failure, are spared the round trip that others make after a pause.
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return hasUnreadBytes(p.Conn.PgConn().Conn()) || o.statements == nil && p.IdleDuration > time.Second
	}
	config.MaxConnIdleTime, config.MaxConnLifetime, config.MaxConnLifetimeJitter = idleTime, lifetime, lifetime/10
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ConnectTimeout > connectTimeout {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	settings := maps.Clone(session)
	maps.Copy(settings, o.session)
	for name, value := range settings {
		if _, ok := config.ConnConfig.RuntimeParams[name]; !ok {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if role != "" {
		config.ConnConfig.RuntimeParams["role"] = role
	}
	apply := deferSettings(config.ConnConfig)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		sqldb.RegisterArrays(conn.TypeMap())
		if err := apply(ctx, conn); err != nil {
			return err
		}
		if err := requireDurableCommits(ctx, conn); err != nil {
			return err
		}
		return prepareAll(ctx, conn, o.statements)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// prepareAll prepares the statements on a new connection. They are planned once: the arrays' lengths make each batch look different,
// and planning costs as much as running.
func prepareAll(ctx context.Context, conn *pgx.Conn, statements []statement) error {
	if len(statements) == 0 {
		return nil
	}
	if _, err := conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan"); err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := conn.Prepare(ctx, s.name, s.sql); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// requireDurableCommits turns synchronous_commit on if the server's default is off, so that a committed row is on the disk.
func requireDurableCommits(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	return err
}

// Store is the database, feature by feature.
func (p *DB) Store() store.Store { return store.New(p) }

// Close implements Health. Calls under way are brought to their end.
func (p *DB) Close() error {
	p.begins.close()
	p.endings.close()
	p.postponements.close()
	p.eventEnds.close()
	p.closePools()
	return nil
}

// read runs f, which must only read, on a pooled connection. If the connection was lost, it empties the pool and runs f once more.
func (p *DB) read(ctx context.Context, f func(*pgxpool.Conn) error) error {
	err := withConn(ctx, p.pool, f)
	if err != nil && ctx.Err() == nil && connectionLost(err) {
		p.pool.Reset() // its neighbours were made at the same time
		err = withConn(ctx, p.pool, f)
	}
	return store.Unavailable(postgresCause(err))
}

// change runs f, which may write, on a pooled connection, and never repeats it.
func (p *DB) change(ctx context.Context, f func(*pgxpool.Conn) error) error {
	return writeError(withConn(ctx, p.pool, f))
}

// writeError wraps the error of a statement that writes in ErrUnavailable, and also in ErrUncertain if the write may have been
// committed.
func writeError(err error) error {
	return beginError(store.IsStoreError(err) || pgconn.SafeToRetry(err) || rolledBack(err), err)
}

// withConn runs f on a pooled connection. If no connection can be had, the error wraps ErrUnavailable, since nothing was sent. A
// connection to a server that has become read-only is closed.
func withConn(ctx context.Context, pool *pgxpool.Pool, f func(*pgxpool.Conn) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return store.Unavailable(postgresCause(err))
	}
	defer conn.Release()
	err = f(conn)
	if readOnly(err) {
		_ = conn.Conn().Close(ctx) // this server is no longer the primary; the next connection goes to the one that is
	}
	return err
}

// rolledBack reports whether the server itself ended the statement with an ERROR, which rolls the transaction back.
func rolledBack(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// connectionLost reports whether err may be due to the connection, so that another one may succeed.
func connectionLost(err error) bool {
	return !store.IsStoreError(err) && !rolledBack(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// readOnly says that the server only follows another one. https://www.postgresql.org/docs/current/errcodes-appendix.html
func readOnly(err error) bool { return sqlState(err) == "25006" }

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// sql replaces {{now}} in a statement by the SQL expression that reads the log's clock: the database server's, unless a test sets
// another.
func (p *DB) sql(statement string) string {
	return strings.ReplaceAll(statement, "{{now}}", p.now)
}
