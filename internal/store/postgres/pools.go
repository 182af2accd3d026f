package postgres

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
)

// namedPool has its name in the metrics.
type namedPool struct {
	name string
	*pgxpool.Pool
}

// pools returns all pools. If one isn't open yet, its Pool is nil.
func (db *DB) pools() []namedPool {
	return []namedPool{
		{"postgres_begin", db.writers},
		{"postgres_finish", db.finishers},
		{"postgres_look", db.readers},
		{"postgres", db.pool},
	}
}

// OpenConns opens as many connections as are used under full load, within store.CallTimeout. If the
// server or a pooler doesn't accept so many, the error has the first cause.
func (db *DB) OpenConns(ctx context.Context) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	var opening sync.WaitGroup
	var opened []*pgxpool.Conn
	var cause error
	wanted := 0
	var mu sync.Mutex
	for _, pool := range db.pools() {
		for range pool.Config().MaxConns {
			wanted++
			opening.Go(func() {
				defer panics.Recover(panics.Other)
				conn, err := pool.Acquire(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					opened = append(opened, conn)
				}
				cause = cmp.Or(cause, err)
			})
		}
	}
	opening.Wait()
	for _, conn := range opened {
		conn.Release()
	}
	if cause == nil {
		return nil
	}
	return fmt.Errorf("%d of %d connections: %w", len(opened), wanted, cause)
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
