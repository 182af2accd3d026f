package postgres

import (
	"context"
	"time"

	"sendcode/internal/store"
)

// Expire implements Expirer. The oldest partition goes whole, if nothing in it has to stay.
func (p *DB) Expire(ctx context.Context, age time.Duration, limit int) (gone store.Expired, err error) {
	if err := store.CheckAge(age, limit); err != nil {
		return gone, err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return gone, err
	}
	dropped, err := p.dropPartition(ctx, store.DueBefore(now, age))
	if err != nil {
		return gone, err
	}
	gone, err = p.DB.Expire(ctx, age, limit)
	gone.Partition, gone.More = dropped, gone.More || dropped != ""
	return gone, err
}

// Extent implements Expirer.
func (p *DB) Extent(ctx context.Context, age time.Duration) (e store.Extent, err error) {
	if e, err = p.DB.Extent(ctx, age); err != nil {
		return store.Extent{}, err
	}
	e.Partitions, err = p.partitions(ctx)
	return e, err
}
