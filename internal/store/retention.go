package store

import (
	"context"
	"time"
)

// MonthsAhead is how many whole months after the present one there is room for.
func MonthsAhead(until, now time.Time) int {
	until, now = until.UTC(), now.UTC()
	return 12*(until.Year()-now.Year()) + int(until.Month()-now.Month()) - 1
}

// MaxLife is the longest that a code lives (SEC-3). Rows stay that much longer, so that the verification that a send opened
// is old enough to go with it.
const MaxLife = 10 * time.Minute

// Expirer lets go of what is old (AUDIT-6).
type Expirer interface {
	PartitionMaker

	// Expire deletes what was logged longer than age ago: up to limit rows of sends and refusals, the oldest first, and as many
	// verifications, events that providers told, and suppressions that ended so long ago. Sends that are under way, or have a
	// refund due, stay until that is done, each with its verification. Where sends are partitioned, the oldest partition goes
	// whole, with all of its rows, if nothing in it has to stay. Several replicas may call it at once.
	Expire(ctx context.Context, age time.Duration, limit int) (Expired, error)
	// StorageStatus says how far the log reaches, and what Expire and Forget still have to do.
	StorageStatus(ctx context.Context, age time.Duration) (StorageStatus, error)
}

// Expired is what an Expire let go of.
type Expired struct {
	Rows      int    // of sends and refusals, not counting those of a partition
	Partition string // the one that went whole; "" is none
	More      bool   // there may be more to let go of now
}

// CheckAge says what is wrong with the arguments of a call of Expire or CountHours.
func CheckAge(age time.Duration, limit int) error {
	if age <= 0 || limit < 1 {
		return Bad("an age and a limit are positive")
	}
	return nil
}
