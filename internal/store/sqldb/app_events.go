package sqldb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const (
	endedEventsSQL = `
    SELECT id FROM app_events WHERE ended_at IS NOT NULL AND ended_at < (SELECT @now - CAST(@keep AS interval))
    ORDER BY ended_at, id LIMIT @limit`

	// addVerificationEventSQL is for an event of a verification, addSendEventSQL for one of a send.
	addVerificationEventSQL = `
INSERT INTO app_events (id, app, type, verification_id, status, reason, test, at, due_at)
SELECT @event, app, @type, id, @told, '', @test, @now, @now FROM verifications WHERE id = @id ON CONFLICT DO NOTHING`

	addSendEventSQL = `
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT @event, s.app, @type, s.id, s.verification_id, @told, @why, @test, @now, @now FROM sends s WHERE s.id = @id`

	oldPendingEventsSQL = `
    SELECT id FROM app_events WHERE due_at IS NOT NULL AND at < (SELECT @now - CAST(@keep AS interval)) ORDER BY at, id LIMIT @limit`
)

// ExpiredVerificationsSQL selects verifications of @apps that expired from @from on and before
// @until. It leaves out those that ended earlier, and codes whose outcome the service doesn't know
// (see CountedCodeSQL). The caller has read those that expired exactly at @from up to the ID
// @after.
func (d dialect) ExpiredVerificationsSQL() string {
	return `
SELECT ` + VerificationColumns + ` FROM verifications v
WHERE v.expires_at >= @from AND v.expires_at < @until AND (v.expires_at > @from OR v.id > @after)
  AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND ` + CountedCodeSQL + ` AND v.app ` +
		d.inList("apps") + `
ORDER BY v.expires_at, v.id LIMIT @limit`
}

var appEventSQL = dialectSQL{
	// LATERAL with LIMIT 1 forces the planner to look up each row by its key
	Postgres: `SELECT ` + appEventTable.SelectList() + ` FROM app_events e
LEFT JOIN LATERAL (SELECT * FROM sends s WHERE s.id = e.send_id LIMIT 1) s ON true
LEFT JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = e.verification_id LIMIT 1) v ON true`,
	SQLite: `SELECT ` + appEventTable.SelectList() + ` FROM app_events e
LEFT JOIN sends s ON s.id = e.send_id LEFT JOIN verifications v ON v.id = e.verification_id`,
}

// takeEventsSQL starts the next attempt of due events, up to each app's limit. It adds apps and
// limits to args.
func (d dialect) takeEventsSQL(shares []store.AppEventLimit, args Args) string {
	var due []string
	for i, s := range shares {
		app, limit := fmt.Sprint("app", i), fmt.Sprint("limit", i)
		args[app], args[limit] = s.App, s.Limit
		due = append(due, `
    SELECT id FROM (`+d.lockRows(`SELECT e.id FROM app_events e WHERE e.app = @`+app+` AND e.due_at IS NOT NULL AND e.due_at <= @now
                    ORDER BY e.due_at, e.id LIMIT @`+limit)+`) AS share`+fmt.Sprint(i))
	}
	return `
UPDATE app_events SET attempt = attempt + 1, due_at = @leased WHERE id ` + d.inSubquery(strings.Join(due, " UNION ALL ")) + ` RETURNING id`
}

// noEventDue saves the caller a transaction if no event of the apps is due, which is usual. It
// takes no lock. If the read fails, idle is false, and the caller's transaction returns the error.
func (db *DB) noEventDue(ctx context.Context, shares []store.AppEventLimit) (now time.Time, idle bool) {
	apps := sqlgen.MapSlice(shares, func(s store.AppEventLimit) string { return s.App })
	due, err := readFirst(ctx, db, "LeaseDueAppEvents", withClockColumn(&now, OneColumn[bool]), `
SELECT c.now, EXISTS (SELECT 1 FROM app_events e WHERE e.app `+db.Dialect.inList("apps")+` AND e.due_at IS NOT NULL AND e.due_at <= c.now)
  FROM (SELECT @now AS now) AS c`, Args{"apps": apps})
	return now, err == nil && !due
}

// LeaseDueAppEvents starts the next attempt of events that are due or whose lease has ended, up to
// each app's limit, the longest overdue first. It returns them sorted by ID, and the time on the
// database's clock.
func (db *DB) LeaseDueAppEvents(ctx context.Context, lease time.Duration,
	shares []store.AppEventLimit,
) (events []store.AppEvent, now time.Time, err error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	if now, idle := db.noEventDue(ctx, shares); idle {
		return nil, now, nil
	}
	events, err = WriteWithResult(ctx, db, "LeaseDueAppEvents", func(q Tx) ([]store.AppEvent, error) {
		now = q.Now
		if len(shares) == 0 {
			return nil, nil
		}
		args := Args{"now": now, "leased": now.Add(lease.Truncate(time.Microsecond))}
		ids, err := QueryAll(q, OneColumn[uuid.UUID], q.Dialect.takeEventsSQL(shares, args), args)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return QueryAll(q, appEventTable.Destinations,
			q.Dialect.pick(appEventSQL)+` WHERE e.id `+q.Dialect.inList("ids")+` ORDER BY e.id`, Args{"ids": ids})
	})
	return events, now, err
}

// ForgetAppEvents deletes events that ended more than keep ago. It gives up pending events that
// happened more than keep ago, because their app has no webhook any more. It handles at most limit
// of each kind, and returns how many.
func (db *DB) ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error) {
	args := Args{"keep": keep, "limit": limit}
	ended, old := db.Dialect.inSubquery(db.Dialect.lockRows(endedEventsSQL)),
		db.Dialect.inSubquery(db.Dialect.lockRows(oldPendingEventsSQL))
	forget := &Statement{SQL: `DELETE FROM app_events WHERE id ` + ended, Args: args}
	giveUp := &Statement{SQL: `UPDATE app_events SET state = 'given_up', due_at = NULL, ended_at = @now WHERE id ` +
		old, Args: args}
	if err := db.Run(ctx, "ForgetAppEvents", InOrder, forget, giveUp); err != nil {
		return 0, 0, err
	}
	return int(forget.RowsAffected), int(giveUp.RowsAffected), nil
}

// AppEvents returns events sorted by ID, newest first.
func (db *DB) AppEvents(ctx context.Context, f store.AppEventFilter) ([]store.AppEvent, error) {
	if !store.AreValidTexts(f.App, f.Type, string(f.State)) {
		return nil, nil
	}
	var c Conditions
	AddIfSet(&c, "e.app = ?", f.App)
	AddIfSet(&c, "e.type = ?", f.Type)
	if f.Recipient != nil {
		c.Add("e.verification_id <> '' AND e.verification_id "+
			db.Dialect.inSubquery("SELECT s.verification_id FROM sends s WHERE s.recipient = ?"), f.Recipient[:])
	}
	AddIfSet(&c, "e.id < ?", f.Before)
	switch f.State {
	case "":
	case store.EventGivenUp:
		c.Add("e.state = 'given_up'") // written out, so that the planner uses the partial index
	case store.EventPending:
		c.Add("e.due_at IS NOT NULL")
	default:
		c.Add("e.state = ?", f.State)
	}
	return ReadAll(ctx, db, "AppEvents", appEventTable.Destinations,
		db.Dialect.pick(appEventSQL)+c.Where()+fmt.Sprint(` ORDER BY e.id DESC LIMIT `, f.Limit), c.Args)
}

// AddAppEvents writes events about the verification whose ID is the string id, or the send whose ID
// is the UUID id. why is stored only with events about a send. Events without a Type are left out.
func (t Tx) AddAppEvents(id any, why string, events ...store.NewEvent) error {
	statement := addVerificationEventSQL
	if _, send := id.(uuid.UUID); send {
		statement = addSendEventSQL
	}
	for _, e := range events {
		args := Args{"event": e.ID, "type": e.Type, "told": e.Status, "why": why, "test": e.Test, "id": id}
		if e.Type == "" {
			continue
		}
		if err := t.exec(statement, args); err != nil {
			return err
		}
	}
	return nil
}

// AddExpiryEvents writes an event for each expired verification of the apps, in order of expiry,
// beginning at from. It returns the cursor for the next call, and how many verifications it read:
// if that's limit, there may be more. Repeated calls write no second event, see
// store.ExpiryEventID.
//
// It leaves verifications that expired less than twice store.CallTimeout ago to a later call,
// because a check of them may be about to commit. Those that expired more than an hour before that
// get no event.
func (db *DB) AddExpiryEvents(ctx context.Context, apps []string, from store.ExpiryCursor, limit int,
	event func(store.Verification) (store.NewEvent, error),
) (to store.ExpiryCursor, read int, err error) {
	to, err = WriteWithResult(ctx, db, "AddExpiryEvents", func(q Tx) (store.ExpiryCursor, error) {
		until := q.Now.Add(-2 * store.CallTimeout)
		if earliest := until.Add(-time.Hour); from.At.Before(earliest) {
			from = store.ExpiryCursor{At: earliest}
		}
		list, err := QueryAll(q, VerificationFields, q.Dialect.ExpiredVerificationsSQL(),
			Args{"apps": apps, "from": from.At, "after": from.ID, "until": until, "limit": limit})
		if err != nil {
			return from, err
		}
		for _, v := range list {
			e, err := event(v)
			e.ID = store.ExpiryEventID(v)
			if err == nil {
				err = q.AddAppEvents(v.ID, "", e)
			}
			if err != nil {
				return from, err
			}
		}
		read = len(list)
		if read == limit {
			return store.ExpiryCursor{At: list[read-1].ExpiresAt, ID: list[read-1].ID}, nil
		}
		return store.ExpiryCursor{At: until}, nil
	})
	return to, read, err
}
