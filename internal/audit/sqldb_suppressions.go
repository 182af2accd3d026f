package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	suppressionColumns = `id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until, lifted_at, lifted_by, lifted_why`

	addSuppressionSQL = `
INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
VALUES (@id, @app, @channel, @address, @recipient, @masked, @reason, @detail, @send, @by, @since, @until) ON CONFLICT (id) DO NOTHING`

	liftSQL = `
UPDATE suppressions SET lifted_at = @now, lifted_by = @by, lifted_why = @why
WHERE lifted_at IS NULL AND until > @now AND channel = @channel AND address = @address AND (@app = '' OR app = @app) RETURNING ` + suppressionColumns
)

func suppressionFields(s *Suppression) []any {
	return []any{
		&s.ID, &s.App, &s.Channel, hashField{&s.Address}, hashField{&s.Recipient}, &s.To, &s.Cause, &s.Detail, maybeIDField{&s.Send}, &s.By,
		timeField{&s.Since}, timeField{&s.Until}, timeField{&s.LiftedAt}, &s.LiftedBy, &s.LiftedWhy,
	}
}

// suppress adds a suppression unless there is one of its ID.
func (q Tx) suppress(x Suppression) (added bool, err error) {
	return q.change(addSuppressionSQL, Args{
		"id": x.ID, "app": x.App, "channel": x.Channel, "address": x.Address, "recipient": x.Recipient, "masked": x.To,
		"reason": x.Cause, "detail": x.Detail, "send": orNull(x.Send), "by": x.By, "since": x.Since, "until": x.Until,
	})
}

// suppressions are those of the IDs, the oldest first.
func (q Tx) suppressions(ids []uuid.UUID) ([]Suppression, error) {
	return all(q, suppressionFields, `SELECT `+suppressionColumns+` FROM suppressions WHERE id IN (@ids) ORDER BY since, id`, Args{"ids": ids})
}

// Suppress implements SuppressionList.
func (db *DB) Suppress(ctx context.Context, x Suppression, lasts time.Duration, act *Act) (out Suppression, added bool, err error) {
	x, act, err = x.checked(lasts, act)
	if err != nil {
		return x, false, err
	}
	err = db.write(ctx, func(q Tx) error {
		if err := q.addActIf(act); err != nil {
			return err
		}
		x.Since, x.Until = q.now, q.now.Add(lasts.Truncate(time.Microsecond))
		out = x
		if added, err = q.suppress(x); err != nil || added {
			return err
		}
		rows, err := q.suppressions([]uuid.UUID{x.ID})
		if err == nil {
			out = rows[0] // rows are not deleted
		}
		return err
	})
	if err != nil {
		return Suppression{}, false, err
	}
	return out, added, nil
}

// Suppressions implements SuppressionList.
func (db *DB) Suppressions(ctx context.Context, f SuppressionFilter) (list []Suppression, now time.Time, err error) {
	if f, err = f.checked(); err != nil {
		return nil, time.Time{}, err
	}
	err = db.read(ctx, func(q Tx) error {
		if now, err = q.clock(); err != nil {
			return err
		}
		var c conditions
		if f.Active {
			c.add("lifted_at IS NULL AND until > ?", now)
		}
		if f.Recipient != nil {
			c.add("recipient = ?", *f.Recipient)
		}
		if f.Before != nil {
			c.add("(since, id) < (?, ?)", f.Before.At, f.Before.ID)
		}
		list, err = all(q, suppressionFields, `SELECT `+suppressionColumns+` FROM suppressions`+c.where()+
			fmt.Sprintf(` ORDER BY since DESC, id DESC LIMIT %d`, f.Limit), numbered(c.args))
		return err
	})
	return list, now, err
}

// Lift implements SuppressionList.
func (db *DB) Lift(ctx context.Context, l Lifting, act *Act) (lifted []Suppression, err error) {
	if l, act, err = l.checked(act); err != nil {
		return nil, err
	}
	err = db.write(ctx, func(q Tx) error {
		lifted, err = all(q, suppressionFields, liftSQL,
			Args{"by": l.By, "why": l.Why, "channel": l.Channel, "address": l.Address, "app": l.App, "now": q.now})
		if err != nil || act == nil {
			return err
		}
		return q.addAct(liftedAs(*act, lifted))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lifted, func(a, b Suppression) int { return byTime(a.mark(), b.mark()) })
	return lifted, nil
}
