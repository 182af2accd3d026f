package audit

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The two ways in which a verification is ended. Both change one that is open, and nothing else; they differ in what they
// write down.

// approvedStatus is what an event says of a verification.
const approvedStatus = "approved"

// Approve implements Log.
func (m *Memory) Approve(ctx context.Context, id string, tell Tell) (bool, error) {
	if err := tell.check(); err != nil {
		return false, err
	}
	return m.end(ctx, "Approve", id, func(v *Verification, now time.Time) {
		v.ApprovedAt = now
		m.tell(tell, AppEvent{App: v.App, VerificationID: v.ID, Status: approvedStatus}, now)
	})
}

// Cancel implements Log.
func (m *Memory) Cancel(ctx context.Context, id string) (bool, error) {
	return m.end(ctx, "Cancel", id, func(v *Verification, now time.Time) { v.CanceledAt = now })
}

// late is an act on a verification that had ended.
func (a Act) late() Act {
	a.Outcome, a.Detail = ActFailed, "ended"
	return a
}

// CancelBy implements Log.
func (m *Memory) CancelBy(ctx context.Context, id string, act Act) (ok bool, err error) {
	if act, err = act.checked(); err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "CancelBy")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	if v, found := m.verifications[id]; found && open(*v, now) {
		v.CanceledAt, ok = now, true
	} else {
		act = act.late()
	}
	m.addAct(act, now)
	return ok, nil
}

func (m *Memory) end(ctx context.Context, method, id string, set func(v *Verification, now time.Time)) (ok bool, err error) {
	now, lost, err := m.enter(ctx, method)
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	v, found := m.verifications[id]
	if !found || !open(*v, now) {
		return false, nil
	}
	set(v, now)
	return true, nil
}

// Approve implements Log.
func (s *SQLite) Approve(ctx context.Context, id string, tell Tell) (bool, error) {
	if err := tell.check(); err != nil {
		return false, err
	}
	return s.end(ctx, "approved_at", id, tell)
}

// Cancel implements Log.
func (s *SQLite) Cancel(ctx context.Context, id string) (bool, error) {
	return s.end(ctx, "canceled_at", id, Tell{})
}

// CancelBy implements Log.
func (s *SQLite) CancelBy(ctx context.Context, id string, act Act) (ok bool, err error) {
	if act, err = act.checked(); err != nil {
		return false, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		result, err := tx.ExecContext(ctx, endSQLite("canceled_at"), µs(now), id)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if ok = n > 0; !ok {
			act = act.late()
		}
		return sqliteAct(ctx, tx, act, now)
	})
	return ok && err == nil, err
}

func endSQLite(column string) string {
	return `
UPDATE verifications SET ` + column + ` = $1
WHERE id = $2 AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > $1`
}

func (s *SQLite) end(ctx context.Context, column, id string, tell Tell) (bool, error) {
	return s.oneAnd(ctx, endSQLite(column), func(now time.Time) []any {
		return []any{µs(now), id}
	}, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		return sqliteTell(ctx, tx, tell, uuid.Nil, id, now)
	})
}

// Approve implements Log.
func (p *Postgres) Approve(ctx context.Context, id string, tell Tell) (bool, error) {
	switch err := tell.check(); {
	case err != nil:
		return false, err
	case tell.Type == "" || !storable(id):
		return p.end(ctx, "approved_at", id)
	}
	return p.one(ctx, approveTellingSQL, id, tell.ID, tell.Type, tell.Test)
}

// Cancel implements Log.
func (p *Postgres) Cancel(ctx context.Context, id string) (bool, error) {
	return p.end(ctx, "canceled_at", id)
}

func (p *Postgres) end(ctx context.Context, column, id string) (bool, error) {
	if !storable(id) {
		return false, nil
	}
	return p.one(ctx, endPostgres(column), id)
}

func endPostgres(column string) string {
	return `
UPDATE verifications SET ` + column + ` = {{now}}
WHERE id = $1 AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}}`
}

// CancelBy implements Log.
func (p *Postgres) CancelBy(ctx context.Context, id string, act Act) (ok bool, err error) {
	if act, err = act.checked(); err != nil || !storable(id) {
		return false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, p.sql(endPostgres("canceled_at")), id)
		if err != nil {
			return err
		}
		if ok = tag.RowsAffected() > 0; !ok {
			act = act.late()
		}
		return p.addAct(ctx, tx, act)
	})
	return ok && err == nil, err
}
