// Package postgres is the store in a Postgres that replicas share. It has the statements that
// differ from those of SQLite (see sqldb.PerDatabase and sqldb.Engine), the partitions, the
// migrations, and the rights of the service's role. Package sqldb has the statements that both
// databases share.
package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/sockets"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
)

// DB is a Postgres (15 or newer) that replicas share. Safe for concurrent use.
type DB struct {
	sqldb.DB

	writers   *pgxpool.Pool // only for ClaimIdempotencyKey, ReleaseIdempotencyKey, Begin and Check, so that no slow reader delays them
	finishers *pgxpool.Pool // for finishStatements, which need finisherSettings
	pool      *pgxpool.Pool // for everything else
	readers   *pgxpool.Pool // for ReadHistory, Verification, VerificationRow and ReadShared
	claims    *batch.Batcher[idempotencyChange, store.IdempotencyClaimAnswer]
	begins    *batch.Batcher[store.Intent, store.BeginAnswer]
	checks    *batch.Batcher[store.CheckRequest, store.CheckAnswer]
	outcomes  *batch.Batcher[store.Outcome, bool]

	postponements    *batch.Batcher[store.Postponement, bool]
	refundEnds       *batch.Batcher[store.AttemptID, bool]
	eventEnds        *batch.Batcher[store.AppEventOutcome, bool]
	histories        *batch.Batcher[rowrules.HistoryQuery, rowrules.History]
	verifications    *batch.Batcher[verificationQuery, storedVerification]
	sharedStatements *batch.Batcher[*sqldb.Statement, struct{}]
	lastReadKey      atomic.Int64 // reads in batches so far; each read's number is its key in the batcher

	searches takeOverSearches // from which due time TakeOver searches next
	stuck    stuckRows        // rows that a call could not lock although it ran alone

	prepared map[string]preparedStatement // by text

	clockSQL  string                    // SQL of the database's time
	lastClock atomic.Pointer[seenClock] // see likelyNow

	committed    atomic.Pointer[sqldb.CommitTiming]
	spaceChecked atomic.Bool // the last Ping could write, and no transaction of writers has failed since
}

const (
	serverClockSQL = "clock_timestamp()" // not now(), the start of the transaction: the statements run only after a wait for locks

	otherConns = 4 // unless the URL says pool_max_conns
	// Finish, Postpone, ConfirmRefund and EndAppEventAttempt have at most one batch each under way.
	// Besides these only RenewLeases and the two TakeOvers need a connection, all for short
	// statements. So three suffice.
	finisherConns   = 3
	maxConnIdleTime = 5 * time.Minute
	maxConnLifetime = time.Hour
)

// ConnsPerReplica is the largest number of connections of one process. pool_max_conns in the URL
// replaces otherConns.
const ConnsPerReplica = writerConns + finisherConns + readerConns + otherConns

const (
	writerConns = 3 * maxWriters // for claims, Begin and Check
	readerConns = 2 * maxReaders // for reads in batches
)

// connectTimeout bounds opening a connection to one host, unless connect_timeout in the URL is
// shorter. With TLS and a password that takes six round trips, or 3.6 s at 600 ms each. It is less
// than store.CallTimeout, so that a call can still return the error.
func connectTimeout() time.Duration { return store.CallTimeout * 9 / 10 }

// sessionSettings apply to the connections of all pools, unless the URL has others. Migrate has its
// own.
var sessionSettings = map[string]string{
	"application_name": "sendcode",
	"timezone":         "UTC",
	// All statements are short. A call that needs a locked row must not delay its batch for long:
	// the whole batch first waits for up to lock_timeout, then runs in parts, each of which waits
	// for up to briefLockTimeout. One deadline holds for all these waits.
	"statement_timeout":                   "5s",
	"lock_timeout":                        "1s",
	"idle_in_transaction_session_timeout": "5s",
	"idle_session_timeout":                "0", // a pool's connection may be idle
	// If a client disappears in a transaction, its locks stay until the server notices. With these
	// settings it notices soon.
	"tcp_keepalives_idle":     "10",
	"tcp_keepalives_interval": "5",
	"tcp_keepalives_count":    "3",
	// Every query has its index, but tables grow faster than their statistics, and the planner
	// might choose a full scan.
	"enable_seqscan": "off",
	// Bitmap scans first collect all matches. No query needs one: each reads an index in its order,
	// or looks up a few rows.
	"enable_bitmapscan": "off",
	"jit":               "off",
}

var writerSettings = map[string]string{"idle_in_transaction_session_timeout": maxIdleInTransaction}

// finisherSettings are for statements that join a list of IDs with rows. The planner expects one
// row of such a join, and may choose a nested loop, which compares each ID with each row: 256
// outcomes took 0.3 s, and 4,000 leases more than 1 s. A hash join is as fast for one ID, and
// proportional to the list.
var finisherSettings = map[string]string{"enable_nestloop": "off"}

// maxIdleInTransaction is how long a transaction of Begin or Check may wait for its second round
// trip. It is less than lock_timeout: if a replica hangs, the database ends its transactions before
// others fail that wait for their locks.
const maxIdleInTransaction = "800ms"

// Open connects to url (postgres://) and works there as role, or as the URL's user if that's empty.
// It fails if Migrate has not updated the schema, and returns when ctx ends at the latest. tracer
// gets the events of every connection. Errors don't contain the URL.
func Open(ctx context.Context, url, role string, tracer ...pgx.QueryTracer) (*DB, error) {
	return openWithClock(ctx, url, serverClockSQL, role, tracer...)
}

// openWithClock is Open with other SQL for the database's time, for tests.
func openWithClock(ctx context.Context, url, clockSQL, role string, tracer ...pgx.QueryTracer) (*DB, error) {
	p := &DB{clockSQL: clockSQL, prepared: map[string]preparedStatement{}}
	p.DB = sqldb.DB{Dialect: sqldb.Postgres, Engine: p, PerDatabase: p, LongReads: make(chan struct{}, 1)}
	var err error
	clock, err := p.openPools(ctx, url, role, tracer)
	if err != nil {
		p.closePools()
		return nil, err
	}
	p.sawClock(clock)
	p.claims = batch.New(maxWriters, p.changeIdempotencyClaims)
	p.begins, p.checks = batch.New(maxWriters, p.beginBatch), batch.New(maxWriters, p.checkBatch)
	p.histories, p.verifications, p.sharedStatements = batch.New(maxReaders, p.answerHistories),
		batch.New(maxReaders, p.answerVerifications),
		batch.New(maxReaders, p.answerSharedReads)
	p.sharedStatements.WaitsOnceBegun = true // a caller must not return while its statement still writes to the caller's variables
	p.outcomes, p.postponements, p.refundEnds, p.eventEnds = batch.New(1, p.finishBatch), batch.New(1, p.postponeBatch),
		batch.New(1, p.confirmRefundBatch), batch.New(1, p.endEventBatch)
	p.outcomes.MinInterval, p.refundEnds.MinInterval = finishPause, finishPause
	slow := beginTimeout() * 3 / 4
	p.claims.Slow, p.begins.Slow, p.checks.Slow, p.outcomes.Slow = slow, slow, slow, slow
	return p, nil
}

// openPools also checks the server and its schema, and returns the database's time. After an error
// some pools may be open.
func (db *DB) openPools(ctx context.Context, url, role string, tracer []pgx.QueryTracer) (now time.Time, err error) {
	if db.pool, err = newPool(ctx, url, role, poolOptions{tracer: tracer}); err != nil {
		return now, err
	}
	if err = withConn(ctx, db.pool,
		func(ctx context.Context, conn *pgxpool.Conn) error { return checkServer(ctx, conn.Conn()) }); err != nil {
		return now, err
	}
	if err = db.checkSchema(ctx); err != nil {
		return now, err
	}
	o := poolOptions{
		tracer: tracer, conns: writerConns, open: writerConns, session: writerSettings,
		statements: db.registerStatements(transactionStatements, claimStatements, beginStatements, checkStatements),
	}
	if db.writers, err = newPool(ctx, url, role, o); err != nil {
		return now, err
	}
	o = poolOptions{
		tracer: tracer, conns: finisherConns, open: finisherConns, session: finisherSettings,
		statements: db.registerStatements(finishStatements),
	}
	if db.finishers, err = newPool(ctx, url, role, o); err != nil {
		return now, err
	}
	o = poolOptions{tracer: tracer, conns: readerConns, open: maxReaders, statements: db.registerStatements(readStatements)}
	if db.readers, err = newPool(ctx, url, role, o); err != nil {
		return now, err
	}
	// Open one connection now: otherwise the first Begin would spend its timeout on that.
	if err = withConn(ctx, db.writers, func(context.Context, *pgxpool.Conn) error { return nil }); err != nil {
		return now, err
	}
	return db.Clock(ctx)
}

func (db *DB) closePools() {
	for _, pool := range db.pools() {
		if pool.Pool != nil {
			pool.Close()
		}
	}
}

// parseURL allows otherConns connections, unless the URL has pool_max_conns. Such parameters of the
// pool aren't sent to the server. Errors don't contain the URL.
func parseURL(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	server, serverErr := pgx.ParseConfig(url) // leaves the pool's parameters among the settings
	if err != nil || serverErr != nil {
		return nil, errors.New("store: the database URL can't be read") // the cause may show a password
	}
	if _, ok := server.RuntimeParams["pool_max_conns"]; !ok {
		config.MaxConns = otherConns
	}
	return config, nil
}

// OpenConnsAhead makes each process open eleven connections in advance, which prepare their
// statements. It is false in tests, most of which need only two.
var OpenConnsAhead = true

// poolOptions has the options in which pools differ.
type poolOptions struct {
	conns      int32             // upper bound; 0: as parseURL says
	open       int32             // how many connections stay open
	session    map[string]string // besides sessionSettings
	statements []string          // prepared on each connection, each with one generic plan
	tracer     []pgx.QueryTracer // at most one
}

// newPool returns errors without the URL.
func newPool(ctx context.Context, url, role string, o poolOptions) (*pgxpool.Pool, error) {
	config, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if o.conns > 0 {
		config.MaxConns = o.conns
	}
	if OpenConnsAhead {
		config.MinConns = o.open
	}
	// ShouldPing is called before an idle connection is used. A lost connection should be noticed
	// before a write, whose result would be uncertain. So pools without prepared statements ping a
	// connection that was idle for more than 1 s. On the other pools it's enough to look for unread
	// bytes: there a call can be repeated, or a first round trip comes before the write.
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return hasUnreadBytes(p.Conn.PgConn().Conn()) || o.statements == nil && p.IdleDuration > time.Second
	}
	config.MaxConnIdleTime, config.MaxConnLifetime, config.MaxConnLifetimeJitter = maxConnIdleTime, maxConnLifetime, maxConnLifetime/10
	for _, t := range o.tracer {
		config.ConnConfig.Tracer = t
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ConnectTimeout > connectTimeout() {
		config.ConnConfig.ConnectTimeout = connectTimeout()
	}
	settings := maps.Clone(sessionSettings)
	// The server makes one generic plan for each statement. Otherwise it would plan each batch
	// anew, because lengths of arrays differ, and planning costs as much as running.
	if len(o.statements) > 0 {
		settings["plan_cache_mode"] = "force_generic_plan"
	}
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
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) (err error) {
		defer panics.Recover(panics.Other, func() { err = panics.Err }) // the pool connects in goroutines of its own
		if err := apply(ctx, conn); err != nil {
			return err
		}
		return prepareStatements(ctx, conn, o.statements)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// LastSendCommit implements sqldb.Engine.
func (db *DB) LastSendCommit() *sqldb.CommitTiming { return db.committed.Load() }

// Close implements sqldb.Engine. It waits until all queued calls have their answers.
func (db *DB) Close() error {
	db.claims.Close()
	db.begins.Close()
	db.checks.Close()
	db.outcomes.Close()
	db.postponements.Close()
	db.refundEnds.Close()
	db.eventEnds.Close()
	db.histories.Close()
	db.verifications.Close()
	db.sharedStatements.Close()
	db.closePools()
	return nil
}

// readOnPool runs f, which must only read. If the connection was lost, it empties the pool and runs
// f once more.
func (db *DB) readOnPool(ctx context.Context, f func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	err := withConn(ctx, db.pool, f)
	if err != nil && ctx.Err() == nil && isConnectionLost(err) {
		db.pool.Reset() // the others are probably lost too
		err = withConn(ctx, db.pool, f)
	}
	return store.WrapUnavailable(withCause(err))
}

// changeOnPool runs f, which may write, and never repeats it.
func (db *DB) changeOnPool(ctx context.Context, f func(context.Context, *pgxpool.Conn) error) error {
	return wrapWriteError(withConn(ctx, db.pool, f))
}

// wrapWriteError wraps the error of a writing statement in fault.Unavailable and, if the statement
// may have been committed, in fault.Uncertain.
func wrapWriteError(err error) error {
	return uncertainUnlessNotCommitted(store.IsStoreError(err) || pgconn.SafeToRetry(err) || isRolledBack(err), err)
}

// withConn waits for a pooled connection until ctx ends, or for store.CallTimeout; without one the
// error wraps fault.Unavailable, because nothing was sent. f gets a context of its own: pgx closes
// a connection if a statement's context ends, and a new one costs several round trips. If the
// server has become read-only, withConn closes the connection.
func withConn(ctx context.Context, pool *pgxpool.Pool, f func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return store.WrapUnavailable(withCause(err))
	}
	defer conn.Release() // closes the connection if its transaction or a statement is under way, as after a panic
	own, cancel := context.WithDeadline(context.WithoutCancel(ctx), statementDeadline(ctx))
	defer cancel()
	err = f(own, conn)
	if isServerReadOnly(err) {
		_ = conn.Conn().Close(own) // no longer the primary; a new connection may reach the new one
	}
	return err
}

// statementDeadline returns the deadline of ctx, which must have one, or store.CallTimeout from now
// if that's later.
func statementDeadline(ctx context.Context) time.Time {
	end, _ := ctx.Deadline()
	if least := time.Now().Add(store.CallTimeout); end.Before(least) {
		return least
	}
	return end
}

// isStatementError reports whether the server ended the statement, and not the session.
func isStatementError(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// isRolledBack reports whether the answer proves that the transaction was rolled back: an ERROR,
// unless it is one of a lost connection, a shutdown, the system or the program itself. A pooler, or
// an engine above several servers, may send such an ERROR after the commit. An ERROR as an answer
// to a COMMIT must pass commitError first.
func isRolledBack(err error) bool {
	c := sqlState(err)
	return isStatementError(err) && !errors.Is(err, errCommitUnclear) && c != completionUnknown && !strings.HasPrefix(c, "57P") &&
		!slices.Contains([]string{"08", "58", "F0", "XX"}, c[:min(2, len(c))])
}

// completionUnknown is the SQLSTATE by which a server says that it doesn't know the outcome.
const completionUnknown = "40003"

var errCommitUnclear = errors.New("store: the answer to a COMMIT does not say whether it took effect")

// commitError wraps the error that answered a COMMIT in errCommitUnclear, unless it proves a
// rollback: an ERROR of a deferred constraint (SQLSTATE class 23), or of a conflict with another
// transaction (40). Our COMMITs have no other reason to fail before they take effect, and Citus was
// seen to answer ERROR, XX000, after a COMMIT had taken effect. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
func commitError(err error) error {
	c := sqlState(err)
	if err == nil || isRolledBack(err) && (strings.HasPrefix(c, "23") || strings.HasPrefix(c, "40")) {
		return err
	}
	return fmt.Errorf("%w: %w", errCommitUnclear, err)
}

// isConnectionLost reports whether the connection may be the cause, so that a new one may succeed.
func isConnectionLost(err error) bool {
	return !store.IsStoreError(err) && !isStatementError(err) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded)
}

// isServerReadOnly reports whether the server is a read-only standby, by
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
func isServerReadOnly(err error) bool { return sqlState(err) == "25006" }

// IsUnreachable reports whether an error of Migrate or Open means that no server accepts
// connections now.
func IsUnreachable(err error) bool {
	if code := sqlState(err); code != "" { // the server starts, shuts down or has too many connections, or PgBouncer reports such a state
		return strings.HasPrefix(code, "57P") || code == "53300" || strings.HasPrefix(code, "08")
	}
	_, notConnected := errors.AsType[*pgconn.ConnectError](err)
	return notConnected || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, fault.Unavailable) && !errors.Is(err, store.ErrSchema)
}

func isUndefinedTable(err error) bool { return sqlState(err) == "42P01" }

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// replaceNow replaces @now by the SQL of the database's time, or of a test's clock.
func (db *DB) replaceNow(statement string) string { return replaceNow(statement, db.clockSQL, nil) }

// seenClock is a reading of the database's clock, and the time of the reading on this process's
// clock.
type seenClock struct{ now, read time.Time }

func (db *DB) sawClock(now time.Time) { db.lastClock.Store(&seenClock{now, time.Now()}) }

// likelyNow returns the last reading of the database's clock plus the time since.
func (db *DB) likelyNow() time.Time {
	last := db.lastClock.Load()
	return store.TruncateToMicroseconds(last.now.Add(time.Since(last.read)))
}

// hasUnreadBytes also reports an ended connection. It is false if the system doesn't say; a lost
// connection is then noticed only when it is used.
func hasUnreadBytes(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	state := sockets.StateOf(conn)
	return state == sockets.UnreadBytes || state == sockets.Ended
}
