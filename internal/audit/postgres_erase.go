package audit

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/recipient"
)

// Erase implements Log.
func (p *Postgres) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error {
	act, err := checkErased(h, keep, act)
	if err != nil {
		return err
	}
	words := strings.NewReplacer("{{now}}", p.now, "{{later}}", p.now+" + $2 * interval '1 microsecond'", "{{empty}}", "''::bytea", "{{false}}", "false")
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+eraseTimeout+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(countLock)); err != nil { // nothing is counted meanwhile
			return err
		}
		for _, x := range personal {
			if x.erase == "" {
				continue
			}
			if _, err := tx.Exec(ctx, words.Replace(x.erase), h[:]); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, words.Replace(addErasureSQL), h[:], keep.Microseconds()); err != nil {
			return err
		}
		return p.addAct(ctx, tx, act)
	})
}

// Forget implements Log. Replicas may do it at once: each person is one's alone.
func (p *Postgres) Forget(ctx context.Context) (n int, err error) {
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+eraseTimeout+"'"); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, strings.ReplaceAll(dueErasuresSQL, "{{now}}", p.now)+" FOR UPDATE SKIP LOCKED")
		due, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return err
		}
		for _, h := range due {
			for _, statement := range forgetting() {
				args := []any{h, nobody[:]}
				if !strings.Contains(statement, "$2") {
					args = args[:1]
				}
				if _, err := tx.Exec(ctx, p.sql(statement), args...); err != nil {
					return err
				}
			}
		}
		n = len(due)
		return nil
	})
	return n, err
}
