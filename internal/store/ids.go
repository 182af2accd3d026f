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

// In Postgres, the table sends has one partition for each week. A partition is a range of IDs, and
// each ID begins with its time. So the primary key is unique over all partitions. A statement that
// reads a time range also limits the range of IDs, so that Postgres skips the other partitions. The
// time in an ID may differ from LoggedAt by MaxIDTimeDrift. So the range of IDs is wider than the
// time range by MaxIDTimeDrift on each side.

// MaxIDTimeDrift is the largest difference between the time in a send's ID and the database's clock
// when the row is written. A repeated request with an Idempotency-Key uses the ID of its first
// request, which may be a day old.
const MaxIDTimeDrift = 48 * time.Hour

// Causes of a failed write. An error that wraps one of them also wraps fault.Unavailable.
var (
	// ErrIDTimeDrift: the time in the ID differs too much from the database's clock. The clock of
	// the database or of this process is wrong.
	ErrIDTimeDrift = errors.New("store: the clock that made the ID is too far from the database's")
	// ErrNoPartition: there is no partition for the row's time; see EnsurePartitions of package
	// sqldb.
	ErrNoPartition = errors.New("store: no partition for that time")
)

// IDGenerator makes UUIDs of version 7. The IDs of one generator sort in the order in which it made
// them (RFC 9562 section 6.2, method 3). The zero value is ready for use. An IDGenerator is safe
// for concurrent use.
type IDGenerator struct {
	mu   sync.Mutex
	last uint64 // 48 bits of ms since 1970, 12 bits of a fraction
}

// maxAheadOfClock limits how far the time of new IDs may be ahead of the clock. If the clock is set
// back by less than this, the times of new IDs continue from the last ID, so that the IDs keep
// their order. If the clock is set back further, the next ID has the clock's time. The limit is 1
// s, in the unit of IDGenerator.last.
const maxAheadOfClock = 1000 << 12

// New makes an ID that begins with the given time. If this ID would not sort after the last ID, New
// uses a slightly later time. New fails if the system cannot supply random bytes.
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

// LowestID returns the smallest ID that a send can have in the millisecond of the given time. The
// SQL function sendcode_lowest_id returns the same ID.
func LowestID(at time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(max(0, at.UnixMilli()))<<16)
	return id
}

// TimeOfID returns the time at the beginning of an ID, in UTC, to the millisecond.
func TimeOfID(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// CheckIDTimeDrift returns an error if the time in the ID is more than MaxIDTimeDrift before or
// after now. The error wraps ErrIDTimeDrift and fault.Unavailable.
func CheckIDTimeDrift(id uuid.UUID, now time.Time) error {
	first, last := LowestID(now.Add(-MaxIDTimeDrift)), LowestID(now.Add(MaxIDTimeDrift))
	if bytes.Compare(id[:], first[:]) < 0 || bytes.Compare(id[:], last[:]) > 0 {
		return fmt.Errorf("%w: %w: that says %s, this %s", fault.Unavailable, ErrIDTimeDrift,
			TimeOfID(id).Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return nil
}

// NewVerificationID returns an ID for a verification that begins at the given time. The first three
// characters of the ID are the week, so that the database can store the rows of one week together.
// They are followed by 128 random bits, because a caller who knows the ID may read, check and
// cancel the verification.
func NewVerificationID(at time.Time) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return verificationIDFromBits(at, random)
}

// verificationIDFromBits returns an ID with the week of the given time and the 128 bits of secret.
// The bits must not be guessable.
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

// Week is the length of a partition. Weeks begin on Monday at 0:00 UTC, as those of
// time.Time.Truncate.
const Week = 7 * 24 * time.Hour

// Partition is a partition of the table sends.
type Partition struct {
	Name         string
	Begins, Ends time.Time // Ends is exclusive. Zero Begins: no lower bound
	Rows         int64     // estimate; -1: not estimated yet
	Bytes        int64     // size, including indexes
}
