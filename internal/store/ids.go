package store

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
)

// In Postgres the table sends has a partition for each week. A partition is a range of IDs, which
// begin with their time, so the primary key is unique over all of them. A statement that reads a
// time range bounds the IDs too, wider by MaxIDTimeDrift on each side, so that Postgres skips the
// other partitions.

// MaxIDTimeDrift is how far the time in a send's ID may be from the database's clock when the row
// is written. A repeated request with an Idempotency-Key uses its first request's ID, which may be
// a day old.
const MaxIDTimeDrift = 48 * time.Hour

// These are causes of a failed write. An error that wraps one also wraps fault.Unavailable.
var (
	// ErrIDTimeDrift: the database's clock or this process's is wrong.
	ErrIDTimeDrift = errors.New("store: the clock that made the ID is too far from the database's")
	// ErrNoPartition: no partition has the row's time; see sqldb.DB.EnsurePartitions.
	ErrNoPartition = errors.New("store: there is no partition for that time")
)

// IDGenerator makes UUIDs of version 7 that sort in the order of their making (RFC 9562 section
// 6.2, method 3). The zero value is ready for use. It's safe for concurrent use.
type IDGenerator struct {
	mu   sync.Mutex
	last uint64 // 48 bits of ms since 1970, 12 bits of a fraction
}

// maxAheadOfClock (1 s, in the unit of IDGenerator.last) is how far IDs may be ahead of the clock.
// If the clock is set back by less, IDs continue from the last one to keep their order. Otherwise
// they continue from the clock.
const maxAheadOfClock = 1000 << 12

// New makes an ID whose time is at, or slightly later so that the ID sorts after the last. It fails
// if the system has no random bytes.
func (g *IDGenerator) New(at time.Time) (uuid.UUID, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return id, err
	}
	ticks := uint64(max(0, at.UnixMilli()))<<12 | uint64(at.Nanosecond()%1e6)<<12/1e6
	g.mu.Lock()
	if ticks <= g.last && g.last-ticks < maxAheadOfClock {
		ticks = g.last + 1
	}
	g.last = ticks
	g.mu.Unlock()
	binary.BigEndian.PutUint64(id[:], ticks>>12<<16|0x7000|ticks&0xfff)
	return id, nil
}

// LowestID returns the smallest ID of a send in the millisecond of at, as the SQL function
// sendcode_lowest_id does.
func LowestID(at time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(max(0, at.UnixMilli()))<<16)
	return id
}

// TimeOfID returns the time in an ID, in UTC, to the millisecond.
func TimeOfID(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// CheckIDTimeDrift returns an error that wraps ErrIDTimeDrift and fault.Unavailable if the ID's
// time is more than MaxIDTimeDrift from now.
func CheckIDTimeDrift(id uuid.UUID, now time.Time) error {
	first, last := LowestID(now.Add(-MaxIDTimeDrift)), LowestID(now.Add(MaxIDTimeDrift))
	if bytes.Compare(id[:], first[:]) < 0 || bytes.Compare(id[:], last[:]) > 0 {
		return fmt.Errorf("%w: %w: the ID's time is %s, the database's is %s", fault.Unavailable, ErrIDTimeDrift,
			TimeOfID(id).Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return nil
}

// NewVerificationID returns an ID that begins with the week of at in three characters, so that the
// rows of a week lie together. 128 random bits follow, because anybody who has the ID may read,
// check and cancel the verification.
func NewVerificationID(at time.Time) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return verificationIDFromBits(at, random)
}

// verificationIDFromBits needs a secret that nobody can guess.
func verificationIDFromBits(at time.Time, secret [16]byte) string {
	week := max(0, (at.Unix()+3*86400)/(7*86400)) // 1970 began on a Thursday
	var id [3 + 26]byte
	id[0], id[1], id[2] = base32Digits[week>>10&31], base32Digits[week>>5&31], base32Digits[week&31]
	lowerBase32.Encode(id[3:], secret[:])
	return string(id[:])
}

// base32Digits are in the order of ASCII, so IDs sort by their weeks, until the year 2597.
const base32Digits = "0123456789abcdefghijklmnopqrstuv"

var lowerBase32 = base32.NewEncoding(base32Digits).WithPadding(base32.NoPadding)

// Week is the length of a partition. Weeks begin on Monday at 0:00 UTC, like those of
// time.Time.Truncate.
const Week = 7 * 24 * time.Hour

// Partition is a partition of the table sends in Postgres, for StorageStatus.
type Partition struct {
	Name         string
	Begins, Ends time.Time // Ends is exclusive; zero Begins: no lower bound
	Rows         int64     // estimate; -1: not estimated yet
	Bytes        int64     // with indexes
}
