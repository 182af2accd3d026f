package audit

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// found turns pgx's word for no row into ours.
func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// Verification implements Log.
func (p *Postgres) Verification(ctx context.Context, id string) (v Verification, newest Send, now time.Time, err error) {
	if !storable(id) {
		return v, newest, now, ErrNotFound
	}
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		var b pgx.Batch
		b.Queue(p.sql(`SELECT {{now}}, `+verificationColumns+` FROM verifications v WHERE v.id = $1`), id)
		b.Queue(newestOfSQL, id)
		results := conn.SendBatch(ctx, &b)
		defer results.Close()
		if err := results.QueryRow().Scan(append([]any{timeField{&now}}, v.fields()...)...); err != nil {
			return found(err)
		}
		return found(results.QueryRow().Scan(newest.fields()...))
	})
	if err != nil {
		return Verification{}, Send{}, time.Time{}, err
	}
	return v, newest, now, nil
}

// newestOfSQL is the newest send of a verification, by its recipient: refusals are not looked at.
var newestOfSQL = `SELECT ` + sendColumns + ` FROM sends s
WHERE s.recipient = (SELECT v.recipient FROM verifications v WHERE v.id = $1) AND s.number > 0 AND s.verification_id = $1
  AND s.logged_at > (SELECT v.created_at FROM verifications v WHERE v.id = $1) - ` + interval(maxDrift) + `
  AND ` + loggedSince("(SELECT v.created_at FROM verifications v WHERE v.id = $1)") + ` ORDER BY s.number DESC LIMIT 1`

// Sends implements Log.
func (p *Postgres) Sends(ctx context.Context, filter Filter) ([]Send, error) {
	filter, err := filter.checked()
	if err != nil || !filter.matchable() {
		return nil, err
	}
	query, args := filter.postgresQuery()
	rows, err := readRows(ctx, p, (*Send).fields, query, args...)
	return filter.newestFirst(rows), err
}

func readRows[T any](ctx context.Context, p *Postgres, fields func(*T) []any, query string, args ...any) (list []T, err error) {
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, query, args...)
		list, err = pgx.CollectRows(rows, scanned(fields))
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Referenced implements Log.
func (p *Postgres) Referenced(ctx context.Context, support string) ([]Send, error) {
	r, ok := readReference(support)
	if !ok {
		return nil, nil
	}
	from, to := r.between()
	rows, err := readRows(ctx, p, (*Send).fields, referencedSends, from, to)
	return r.of(rows), err
}

// Story implements Log.
func (p *Postgres) Story(ctx context.Context, id uuid.UUID) (story Story, err error) {
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		row := conn.QueryRow(ctx, p.sql(`SELECT {{now}}, `+sendColumns+` FROM sends s WHERE s.id = $1`), id)
		return found(row.Scan(append([]any{timeField{&story.Now}}, story.Send.fields()...)...))
	})
	if err != nil {
		return story, err
	}
	story.Suppressions, err = p.suppressionsOf(ctx, story.Send)
	if err != nil {
		return story, err
	}
	if story.Send.untried() {
		if story.Pause, err = theOne(readRows(ctx, p, (*PrefixPause).fields, pauseOfSQL, story.Send.pauseArgs(postgresWords)...)); err != nil {
			return story, err
		}
	}
	story.Events, err = readRows(ctx, p, (*ProviderEvent).fields, toldSQL, id)
	if err != nil || story.Send.VerificationID == "" {
		return story, err
	}
	v, err := readRows(ctx, p, (*Verification).fields, `SELECT `+verificationColumns+` FROM verifications v WHERE v.id = $1`, story.Send.VerificationID)
	if err != nil || len(v) == 0 {
		return story, err
	}
	story.Verification = &v[0]
	story.Related, err = readRows(ctx, p, (*Send).fields, relatedSQL(" AND "+loggedSince("$7::timestamptz")),
		v[0].ID, v[0].Recipient[:], v[0].CreatedAt.Add(-maxDrift), refusedAs(v[0].Recipient), v[0].App, string(v[0].Channel), v[0].CreatedAt, v[0].ExpiresAt)
	return story, err
}

// countingPage is how many rows are read at once: a rebuild may read many, and no statement of ours runs for long.
const countingPage = 2000

// Counting implements Log.
func (p *Postgres) Counting(ctx context.Context, clock string, within time.Duration, yield func(Counting) error) error {
	mark := Mark{}
	err := p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`SELECT {{now}} - $1 * interval '1 microsecond'`), within.Microseconds()).Scan(timeField{&mark.At})
	})
	mark.ID = uuid.Max // so that the first page begins after that instant
	for err == nil {
		var page []Send
		page, err = readRows(ctx, p, (*Send).fields, `SELECT `+sendColumns+` FROM sends s
WHERE (s.logged_at, s.id) > ($1, $2) AND s.counts AND `+loggedSince("$1::timestamptz")+` ORDER BY s.logged_at, s.id LIMIT $3`, mark.At, mark.ID, countingPage)
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
