package postgres

import (
	"bytes"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

var errClockJumps = errors.New("store: the database's clock keeps jumping")

// maxClockTries is the largest number of reads of one batch. Each read assumes a range for the time
// of the database's clock. If the assumption was wrong, the batch reads again.
const maxClockTries = 3

// idBounds are the ranges of IDs that a batch reads, so that Postgres skips all other partitions.
type idBounds struct {
	from, to         time.Time // assumed range of the database's time; if the time is outside, the batch reads again
	first, last      uuid.UUID // range of the rows that may count
	earliest, latest uuid.UUID // range of the batch's own IDs
}

// args returns the bounds as parameters.
func (b idBounds) args() sqldb.Args {
	return sqldb.Args{
		"first_id": uuidParameter(b.first), "last_id": uuidParameter(b.last),
		"earliest_id": uuidParameter(b.earliest), "latest_id": uuidParameter(b.latest),
	}
}

// uuidParameter wraps an ID so that pgx writes it as bytes, without its text form.
func uuidParameter(id uuid.UUID) any { return pgtype.UUID{Bytes: id, Valid: true} }

// maxClockSetBack is the longest time by which the database's clock may be set back. If the clock
// is set back by more, rows from before the change might not be counted.
const maxClockSetBack = 31 * 24 * time.Hour

// idBoundsOfBatch returns the ranges of IDs that a batch needs. It assumes that the database's time
// is at most an hour earlier than the parameter near, and less than a day later. The range of rows
// ends maxClockSetBack after the latest assumed time. So rows whose time is in the future, because
// the clock was set back, still count.
func idBoundsOfBatch(batch []*beginCall, near time.Time) idBounds {
	reach := rowrules.ResendWithin
	for _, x := range batch {
		reach = max(reach, quota.LongestKeep(x.In.Rules))
	}
	b := idBoundsAround(near, reach)
	b.earliest, b.latest = idRange(batch)
	return b
}

// idBoundsAround is idBoundsOfBatch for rows that are at most reach old.
func idBoundsAround(near time.Time, reach time.Duration) idBounds {
	b := idBounds{from: near.Add(-time.Hour), to: near.Add(24 * time.Hour)}
	b.first, b.last = store.LowestID(b.from.Add(-reach-store.MaxIDTimeDrift)),
		store.LowestID(b.to.Add(maxClockSetBack+store.MaxIDTimeDrift))
	return b
}

// contains reports whether now is within the time of the bounds.
func (b idBounds) contains(now time.Time) bool { return !now.Before(b.from) && now.Before(b.to) }

// idRange returns the smallest and the largest ID of a batch, which must not be empty.
func idRange(batch []*beginCall) (first, last uuid.UUID) {
	first, last = batch[0].In.Send.ID, batch[0].In.Send.ID
	for _, x := range batch[1:] {
		if next := x.In.Send.ID; bytes.Compare(next[:], first[:]) < 0 {
			first = next
		} else if bytes.Compare(next[:], last[:]) > 0 {
			last = next
		}
	}
	return first, last
}
