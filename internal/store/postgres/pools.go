package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
)

// namedPool is a pool with its name in the metrics.
type namedPool struct {
	name string
	*pgxpool.Pool
}

// pools returns all pools; those that are not open yet are nil.
func (p *DB) pools() []namedPool {
	return []namedPool{
		{"postgres_begin", p.writers},
		{"postgres_finish", p.finishers},
		{"postgres_look", p.readers},
		{"postgres", p.pool},
	}
}

// Pools implements sqldb.Engine.
func (p *DB) Pools() (all []store.PoolStats) {
	for _, pool := range p.pools() {
		s := pool.Stat()
		all = append(all, store.PoolStats{
			Name: pool.name, InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Waits: s.EmptyAcquireCount(),
		})
	}
	return all
}
