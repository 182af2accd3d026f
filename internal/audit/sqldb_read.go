package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

var (
	sendSQL         = `SELECT ` + sendColumns + ` FROM sends s`
	verificationSQL = `SELECT ` + verificationColumns + ` FROM verifications v WHERE v.id = @id`
)

// withNow are fields after the log's clock.
func withNow[T any](now *time.Time, fields func(*T) []any) func(*T) []any {
	return func(x *T) []any { return append([]any{timeField{now}}, fields(x)...) }
}

// Verification implements Verifications.
func (db *DB) Verification(ctx context.Context, id string) (Verification, Send, time.Time, error) {
	if !storable(id) {
		return Verification{}, Send{}, time.Time{}, ErrNotFound
	}
	var now time.Time
	w, err := readSingle(ctx, db, withNow(&now, workFields), `
SELECT @now, `+sendColumns+`, `+verificationColumns+` FROM verifications v CROSS JOIN sends s
WHERE v.id = @id AND s.verification_id = @id AND s.number > 0 AND s.recipient = (SELECT o.recipient FROM verifications o WHERE o.id = @id)
  AND s.logged_at > (SELECT o.created_at FROM verifications o WHERE o.id = @id) - @drift
  AND `+db.dialect.since("(SELECT o.created_at FROM verifications o WHERE o.id = @id)", 0)+` ORDER BY s.number DESC LIMIT 1`, Args{"id": id, "drift": maxDrift})
	if err != nil {
		return Verification{}, Send{}, time.Time{}, err
	}
	return w.Verification, w.Send, now, nil
}

// Sends implements Search.
func (db *DB) Sends(ctx context.Context, filter Filter) ([]Send, error) {
	filter, err := filter.checked()
	if err != nil || !filter.matchable() {
		return nil, err
	}
	query, args := sendFilter{filter}.query(db.dialect)
	return db.page(ctx, filter, query, args)
}

// page is a page of sends, the newest first.
func (db *DB) page(ctx context.Context, filter Filter, query string, args []any) ([]Send, error) {
	rows, err := readAll(ctx, db, sendFields, query, numbered(args))
	if filter.After != nil {
		slices.Reverse(rows)
	}
	return rows, err
}

// SendsByID implements Search.
func (db *DB) SendsByID(ctx context.Context, ids []uuid.UUID) ([]Send, error) {
	if err := checkIDs(ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	return readAll(ctx, db, sendFields, sendSQL+` WHERE s.id IN (@ids) AND s.id BETWEEN @first AND @last`,
		Args{"ids": ids, "first": slices.MinFunc(ids, compareIDs), "last": slices.MaxFunc(ids, compareIDs)})
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// Latest implements Search.
func (db *DB) Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]Send, error) {
	if err := checkLatest(hs, within); err != nil || len(hs) == 0 {
		return nil, err
	}
	statement := db.dialect.latest
	if statement == "" {
		half := sendSQL + ` WHERE s.logged_at > (SELECT @now - @within) AND s.recipient IN (@recipients) AND `
		statement = half + `s.number > 0 UNION ALL ` + half + `s.number = 0`
	}
	rows, err := readAll(ctx, db, sendFields, statement, Args{"recipients": hs, "within": within})
	return latest(rows), err
}

// Referenced implements Search.
func (db *DB) Referenced(ctx context.Context, support string) ([]Send, error) {
	r, ok := readReference(support)
	if !ok {
		return nil, nil
	}
	from, to := r.between()
	rows, err := readAll(ctx, db, sendFields, sendSQL+` WHERE s.id >= @from AND s.id < @to ORDER BY s.id LIMIT @most`,
		Args{"from": from, "to": to, "most": maxReferenced})
	return r.of(rows), err
}

// Story implements Search.
func (db *DB) Story(ctx context.Context, id uuid.UUID) (story Story, err error) {
	err = db.read(ctx, func(q Tx) error {
		story, err = q.story(id)
		return err
	})
	return story, err
}

func (q Tx) story(id uuid.UUID) (story Story, err error) {
	story.Send, err = single(q, withNow(&story.Now, sendFields), `SELECT @now, `+sendColumns+` FROM sends s WHERE s.id = @id`, Args{"id": id})
	if err != nil {
		return story, err
	}
	if story.Suppressions, err = q.suppressions(suppressionsOf(story.Send)); err != nil {
		return story, err
	}
	if story.Send.untried() {
		pauses, err := all(q, prefixPauseFields, prefixPauseSQL+pausedThenSQL,
			Args{"app": story.Send.App, "prefix": story.Send.Prefix, "at": story.Send.FinishedAt})
		if err != nil {
			return story, err
		}
		if len(pauses) > 0 {
			story.Pause = &pauses[0]
		}
	}
	if story.Events, err = all(q, providerEventFields, toldSQL, Args{"id": id}); err != nil || story.Send.VerificationID == "" {
		return story, err
	}
	v, err := single(q, verificationFields, verificationSQL, Args{"id": story.Send.VerificationID})
	if errors.Is(err, ErrNotFound) {
		return story, nil
	}
	if err != nil {
		return story, err
	}
	story.Verification = &v
	story.Related, err = q.related(v)
	return story, err
}

// sentOfSQL finds the sends of a verification by its recipient and the time before which it was not there.
const sentOfSQL = `s.recipient = @its_recipient AND s.number > 0 AND s.logged_at > @since AND s.verification_id = @id`

// related are the sends of a verification, and the refusals of its recipient during its life.
func (q Tx) related(v Verification) ([]Send, error) {
	further := q.dialect.since("@created_at", 0)
	return all(q, sendFields, fmt.Sprintf(`
SELECT %[1]s FROM sends s
WHERE `+sentOfSQL+` AND %[3]s
UNION ALL
SELECT %[1]s FROM sends s
WHERE s.recipient = @recipient AND s.app = @app AND s.channel = @channel AND s.logged_at >= @created_at AND s.logged_at < @expires_at AND s.number = 0 AND %[3]s
ORDER BY logged_at, id LIMIT %[2]d`, sendColumns, maxRelated, further),
		Args{"id": v.ID, "its_recipient": v.Recipient, "since": v.CreatedAt.Add(-maxDrift), "recipient": refusedAs(v.Recipient), "app": v.App, "channel": v.Channel, "created_at": v.CreatedAt, "expires_at": v.ExpiresAt})
}

// refusedAs finds the refusals of a recipient; none of one who was forgotten, for nobody's hash is that of them all.
func refusedAs(h recipient.Hash) []byte {
	if h == nobody {
		return []byte{}
	}
	return h[:]
}

// countingPage is how many rows are read at once: a rebuild may read many, and no statement of ours runs for long.
const countingPage = 2000

// Counting implements Counts.
func (db *DB) Counting(ctx context.Context, clock string, within time.Duration, yield func(Counting) error) error {
	mark := Mark{ID: uuid.Max} // so that the first page begins after that instant
	err := db.read(ctx, func(q Tx) error {
		now, err := q.clock()
		mark.At = now.Add(-within.Truncate(time.Microsecond))
		return err
	})
	for err == nil {
		var page []Send
		page, err = readAll(ctx, db, sendFields, sendSQL+`
WHERE (s.logged_at, s.id) > (@at, @id) AND s.counts = {{true}} AND `+db.dialect.since("@at", 0)+` ORDER BY s.logged_at, s.id LIMIT @page`,
			Args{"at": mark.At, "id": mark.ID, "page": countingPage})
		for _, s := range page {
			if err := yield(counting(s, clock)); err != nil {
				return err
			}
			mark = Mark{s.LoggedAt, s.ID}
		}
		if len(page) < countingPage {
			return err
		}
	}
	return err
}

// counting is a row as a limiter on clock reads it.
func counting(s Send, clock string) Counting {
	c := Counting{App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, Clock: LogClock}
	c.Event = quota.Event{ID: string(s.ID[:]), At: s.LoggedAt}
	if s.Clock == clock {
		c.Event.At, c.Clock = s.TakenAt, clock
	}
	return c
}
