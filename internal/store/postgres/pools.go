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
func (db *DB) pools() []namedPool {
	return []namedPool{
		{"postgres_begin", db.writers},
		{"postgres_finish", db.finishers},
		{"postgres_look", db.readers},
		{"postgres", db.pool},
	}
}

// Pools implements sqldb.Engine.
func (db *DB) Pools() (all []store.PoolStats) {
	for _, pool := range db.pools() {
		s := pool.Stat()
		all = append(all, store.PoolStats{
			Name: pool.name, InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Waits: s.EmptyAcquireCount(),
		})
	}
	return all
}
