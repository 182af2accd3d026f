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

// maxClockTries bounds the reads of a batch. Each assumes bounds for the database's time, and is
// repeated if they were wrong.
const maxClockTries = 3

// idBounds has the ranges of IDs that a batch reads, so that Postgres skips other partitions.
type idBounds struct {
	from, to         time.Time // assumed bounds of the database's time; if it is outside, the batch reads again
	first, last      uuid.UUID // of the rows that may count
	earliest, latest uuid.UUID // of the batch's own IDs
}

func (b idBounds) args() sqldb.Args {
	return sqldb.Args{
		"first_id": uuidParameter(b.first), "last_id": uuidParameter(b.last),
		"earliest_id": uuidParameter(b.earliest), "latest_id": uuidParameter(b.latest),
	}
}

// uuidParameter lets pgx write an ID as bytes, without its text.
func uuidParameter(id uuid.UUID) any { return pgtype.UUID{Bytes: id, Valid: true} }

// maxClockSetBack is how far the database's clock may be set back. If it is set back further, rows
// that were written before that might not count.
const maxClockSetBack = 31 * 24 * time.Hour

// idBoundsOfBatch assumes that the database's time is at most an hour before near, and less than a
// day after. The range of rows ends maxClockSetBack later, so that rows with a time in the future,
// because the clock was set back, still count.
func idBoundsOfBatch(batch []*beginCall, near time.Time) idBounds {
	reach := rowrules.ResendWithin
	for _, x := range batch {
		reach = max(reach, quota.LongestKeep(x.In.Rules))
	}
	b := idBoundsAround(near, reach)
	b.earliest, b.latest = idRange(batch)
	return b
}

// idBoundsAround leaves earliest and latest empty. reach is the greatest age of a row that may
// count.
func idBoundsAround(near time.Time, reach time.Duration) idBounds {
	b := idBounds{from: near.Add(-time.Hour), to: near.Add(24 * time.Hour)}
	b.first, b.last = store.LowestID(b.from.Add(-reach-store.MaxIDTimeDrift)),
		store.LowestID(b.to.Add(maxClockSetBack+store.MaxIDTimeDrift))
	return b
}

func (b idBounds) contains(now time.Time) bool { return !now.Before(b.from) && now.Before(b.to) }

// The batch must not be empty.
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
