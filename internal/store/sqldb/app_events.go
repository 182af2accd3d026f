package sqldb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

const (
	forgetAppEventsSQL = `
DELETE FROM app_events WHERE id {{among}}
    SELECT id FROM app_events WHERE ended_at IS NOT NULL AND ended_at < (SELECT @now - @keep)
    ORDER BY ended_at, id LIMIT @limit {{skip locked}} {{end}}`

	giveUpAppEventsSQL = `
UPDATE app_events SET state = 'given_up', due_at = NULL, ended_at = @now WHERE id {{among}}
    SELECT id FROM app_events WHERE due_at IS NOT NULL AND at < (SELECT @now - @keep)
    ORDER BY at, id LIMIT @limit {{skip locked}} {{end}}`

	addApprovedEventSQL = `
INSERT INTO app_events (id, app, type, verification_id, status, reason, test, at, due_at)
SELECT @event, app, @type, id, 'approved', '', @test, approved_at, approved_at FROM verifications WHERE id = @id`
)

// appEventSQL reads events with the columns of their sends and verifications.
var appEventSQL = `SELECT ` + appEventTable.selectList() + ` FROM app_events e {{of event}}`

// takeEventsSQL returns the statement that starts the next attempt of events that are due, as many of each app as its share allows.
// It adds the shares to args.
func takeEventsSQL(shares []store.Share, args Args) string {
	var due []string
	for i, s := range shares {
		app, limit := fmt.Sprint("app", i), fmt.Sprint("limit", i)
		args[app], args[limit] = s.App, s.Limit
		due = append(due, `
    SELECT id FROM (SELECT e.id FROM app_events e WHERE e.app = @`+app+` AND e.due_at IS NOT NULL AND e.due_at <= @now
                    ORDER BY e.due_at, e.id LIMIT @`+limit+` {{skip locked}}) AS share`+fmt.Sprint(i))
	}
	return `UPDATE app_events SET attempt = attempt + 1, due_at = @now + @lease
  WHERE id {{among}}` + strings.Join(due, " UNION ALL ") + ` {{end}} RETURNING id`
}

// anyDueSQL returns the log's time, and whether an event of the apps is due. It takes no lock.
const anyDueSQL = `
SELECT c.now, EXISTS (SELECT 1 FROM app_events e WHERE e.app IN (@apps) AND e.due_at IS NOT NULL AND e.due_at <= c.now)
  FROM (SELECT @now AS now) AS c`

// nothingDue reports whether no event of the apps is due (idle), and returns the log's time. Usually none is due, and then no transaction
// is needed. If the read fails, idle is false: the caller's transaction will return the error.
func (db *DB) nothingDue(ctx context.Context, shares []store.Share) (now time.Time, idle bool) {
	apps := MapSlice(shares, func(s store.Share) string { return s.App })
	due, err := readFirstRow(ctx, db, withNow(&now, OneColumn[bool]), anyDueSQL, Args{"apps": apps})
	return now, err == nil && !due
}

// AppEventsDue starts the next attempt of events that are due or whose lease ran out. Of each app it takes at most Share.Limit events,
// those that are longest overdue. It returns all of them sorted by ID, and the time on the log's clock.
func (db *DB) AppEventsDue(ctx context.Context, lease time.Duration,
	shares []store.Share) (events []store.AppEvent, now time.Time, err error) {
	if now, idle := db.nothingDue(ctx, shares); idle {
		return nil, now, nil
	}
	events, err = Writing(ctx, db, func(q Tx) ([]store.AppEvent, error) {
		if now = q.Now; len(shares) == 0 {
			return nil, nil
		}
		args := Args{"now": now, "lease": lease}
		ids, err := All(q, OneColumn[uuid.UUID], takeEventsSQL(shares, args), args)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return All(q, appEventTable.destinations, appEventSQL+` WHERE e.id IN (@ids) ORDER BY e.id`, Args{"ids": ids})
	})
	return events, now, err
}

// ForgetAppEvents deletes up to limit events that ended longer than keep ago. It also gives up at most limit pending events that
// happened longer than keep ago; nobody delivers them, since their app has no receiver any more. It returns both numbers.
func (db *DB) ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error) {
	args := Args{"keep": keep, "limit": limit}
	forget, giveUp := &Step{Statement: forgetAppEventsSQL, Args: args}, &Step{Statement: giveUpAppEventsSQL, Args: args}
	if err := db.Run(ctx, forget, giveUp); err != nil {
		return 0, 0, err
	}
	return int(forget.Changed), int(giveUp.Changed), nil
}

// AppEvents returns events, newest first, by ID.
func (db *DB) AppEvents(ctx context.Context, f store.AppEventFilter) ([]store.AppEvent, error) {
	if !store.ValidTexts(f.App, string(f.State)) {
		return nil, nil
	}
	var c Conditions
	AddIfSet(&c, "e.app = ?", f.App)
	AddIfSet(&c, "e.id < ?", f.Before)
	switch f.State {
	case "":
	case store.EventGivenUp:
		c.Add("e.state = 'given_up'") // written out, for the partial index
	case store.EventPending:
		c.Add("e.due_at IS NOT NULL")
	default:
		c.Add("e.state = ?", f.State)
	}
	return ReadAll(ctx, db, appEventTable.destinations, appEventSQL+c.Where()+fmt.Sprint(` ORDER BY e.id DESC LIMIT `, f.Limit),
		NumberedArgs(c.Args))
}
