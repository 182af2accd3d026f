package sqldb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

var (
	suppressionSQL = `SELECT ` + suppressionTable.SelectList() + ` FROM suppressions`

	liftSuppressionsSQL = `
UPDATE suppressions SET lifted_at = @now, lifted_by = @by, lifted_why = @why
WHERE lifted_at IS NULL AND until > @now AND channel = @channel AND address = @address AND (@app = '' OR app = @app)
  RETURNING ` + suppressionTable.SelectList()
)

// Suppress adds a suppression. False: there is one with this ID already, and nothing was changed.
func (q Tx) Suppress(x store.Suppression) (added bool, err error) {
	insert, args := suppressionTable.InsertSQL(store.InsertedColumn, &x)
	return q.Change(insert+` ON CONFLICT (id) DO NOTHING`, args)
}

// suppressions returns the suppressions with these IDs, oldest first. Unknown IDs are left out.
func (q Tx) suppressions(ids []uuid.UUID) ([]store.Suppression, error) {
	return QueryAll(q, suppressionTable.Destinations, suppressionSQL+` WHERE id `+q.Dialect.inList("ids")+` ORDER BY since, id`,
		Args{"ids": ids})
}

// Suppress adds a suppression that begins now, and returns it. False: a suppression with this ID
// exists, perhaps a lifted one; it is returned unchanged. The audit entry is written in both cases.
func (db *DB) Suppress(ctx context.Context, x store.Suppression, lasts time.Duration,
	act *store.AuditEntry) (out store.Suppression, added bool, err error) {
	x, act, err = x.Validated(act)
	if err != nil {
		return x, false, err
	}
	err = db.Write(ctx, func(q Tx) error {
		if act != nil {
			if err := q.addAuditEntry(*act); err != nil {
				return err
			}
		}
		x.Since, x.Until = q.Now, q.Now.Add(lasts.Truncate(time.Microsecond))
		out = x
		if added, err = q.Suppress(x); err != nil || added {
			return err
		}
		rows, err := q.suppressions([]uuid.UUID{x.ID})
		if err == nil {
			out = rows[0] // rows are not deleted
		}
		return err
	})
	if err != nil {
		return store.Suppression{}, false, err
	}
	return out, added, nil
}

// Suppressions returns suppressions, newest first, by Since and then ID, and the time on the
// database's clock.
func (db *DB) Suppressions(ctx context.Context, f store.SuppressionFilter) (list []store.Suppression, now time.Time,
	err error) {
	now, err = db.readWithClock(ctx, func(q Tx, now time.Time) error {
		var c Conditions
		if f.Active {
			c.Add("lifted_at IS NULL AND until > ?", now)
		}
		if f.Recipient != nil {
			c.Add("recipient = ?", *f.Recipient)
		}
		c.addBefore("since, id", f.Before)
		list, err = QueryAll(q, suppressionTable.Destinations, suppressionSQL+c.Where()+
			fmt.Sprintf(` ORDER BY since DESC, id DESC LIMIT %d`, f.Limit), c.Args)
		return err
	})
	return list, now, err
}

// LiftSuppressions ends all suppressions of an address that are in force now, and returns them,
// oldest first. The audit entry is written even if there were none. Its Detail becomes their
// number, and its recipient, if it has none, that of the first.
func (db *DB) LiftSuppressions(ctx context.Context, l store.LiftSuppressionsRequest, act *store.AuditEntry) (lifted []store.Suppression,
	err error) {
	if l, act, err = l.Validated(act); err != nil {
		return nil, err
	}
	lifted, err = WriteWithResult(ctx, db, func(q Tx) ([]store.Suppression, error) {
		list, err := QueryAll(q, suppressionTable.Destinations, liftSuppressionsSQL,
			Args{"by": l.By, "why": l.Why, "channel": l.Channel, "address": l.Address, "app": l.App, "now": q.Now})
		if err != nil || act == nil {
			return list, err
		}
		return list, q.addAuditEntry(act.WithLiftedSuppressions(list))
	})
	slices.SortFunc(lifted, func(a, b store.Suppression) int {
		return cmp.Or(a.Since.Compare(b.Since),
			compareIDs(a.ID, b.ID))
	})
	return lifted, err
}
