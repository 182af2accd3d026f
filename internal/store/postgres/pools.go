package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
)

// Pools implements sqldb.Engine.
func (p *DB) Pools() (all []store.Pool) {
	for _, named := range []struct {
		name string
		pool *pgxpool.Pool
	}{{"postgres_begin", p.writers}, {"postgres_finish", p.finishers}, {"postgres", p.pool}} {
		s := named.pool.Stat()
		all = append(all, store.Pool{
			Name: named.name, InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Waits: s.EmptyAcquireCount(),
		})
	}
	return all
}
