package store

import (
	"context"
	"time"

	"sendcode/internal/recipient"
)

// MonthsAhead returns for how many whole months after the present one there are partitions.
func MonthsAhead(until, now time.Time) int {
	until, now = until.UTC(), now.UTC()
	return 12*(until.Year()-now.Year()) + int(until.Month()-now.Month()) - 1
}

// MaxLife is the longest that a code lives. Rows stay that much longer, so that the verification that a send opened
// is old enough to go with it.
const MaxLife = 10 * time.Minute

// Expirer makes partitions for new rows, deletes old rows, and erases recipients.
type Expirer interface {
	// EnsurePartitions makes the partitions for rows of this month and of the next three. It returns until when there are partitions; the
	// zero time means for ever. Several replicas may call it at once.
	EnsurePartitions(ctx context.Context) (until time.Time, err error)
	// Erase removes all data about the recipient from every row, except the keyed hash, which Forget deletes after keep. It cancels the
	// recipient's codes and ends the sends that wait for their next attempt (Failed, ReasonErased; they keep their places). A send that
	// an attempt holds ends as that attempt does. The act is written in the same transaction and keeps the hash for as long.
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act AuditEntry) error
	// Forget deletes the hashes of erased recipients whose keep has passed, and returns how many recipients these were.
	Forget(ctx context.Context) (int, error)
	// Expire deletes what was logged longer than age ago: up to limit rows of sends and refusals, the oldest first, and as many
	// verifications, events that providers told, and suppressions that ended so long ago. Sends that are under way, or have a
	// refund due, stay until that is done, each with its verification. Where sends are partitioned, the oldest partition goes
	// whole, with all of its rows, if nothing in it has to stay. Several replicas may call it at once.
	Expire(ctx context.Context, age time.Duration, limit int) (Expired, error)
	// StorageStatus returns the age of the oldest row, and how much Expire and Forget still have to do.
	StorageStatus(ctx context.Context, age time.Duration) (StorageStatus, error)
}

// Expired is what a call of Expire deleted.
type Expired struct {
	Rows      int    // of sends and refusals, not counting those of a partition
	Partition string // the one that went whole; "" is none
	More      bool   // there may be more to let go of now
}

// StorageStatus reports the oldest row and how much the background jobs still have to do.
type StorageStatus struct {
	Now        time.Time     // on the log's clock
	Oldest     time.Time     // when the oldest send or refusal was logged; zero: there is none
	Age        time.Duration // for which rows are kept; 0: for ever
	Due        int           // rows that are older than they are kept, up to MaxDue; 0 where they are kept for ever
	Forgetting int           // persons who were erased and whose hash is still needed
	Late       int           // of those: whose keep has passed
	Partitions []Partition   // of sends, the oldest first; none where there are no partitions
}

// MaxDue is the largest number of due rows that is counted.
const MaxDue = 10_000

// Until returns when the last partition ends; the zero time means never.
func (e StorageStatus) Until() time.Time {
	if len(e.Partitions) == 0 {
		return time.Time{}
	}
	return e.Partitions[len(e.Partitions)-1].Ends
}

// DueBefore returns the instant before which rows are due for deletion if they are kept for age. Without an age it is the zero
// time: none are due.
func DueBefore(now time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Unix(0, 0).UTC()
	}
	return now.Add(-(age + MaxLife).Truncate(time.Microsecond))
}

// A recipient can be erased. The keyed hash stays where it counts, so that an erasure frees no
// quota, and how many there were of what; once every window has passed the hash goes, too.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// NoRecipient is the zero hash. It replaces the hash of a recipient that was forgotten.
var NoRecipient recipient.Hash
