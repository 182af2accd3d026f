package store

import (
	"time"

	"sendcode/internal/base/recipient"
)

// PartitionWeeksAhead returns how many whole weeks after the current week have partitions. The
// parameter until is the end of the last partition.
func PartitionWeeksAhead(until, now time.Time) int {
	return int(until.Sub(now.Truncate(Week))/Week) - 1
}

// MaxCodeLife is the longest life of a code. Rows are kept for the configured age plus MaxCodeLife.
// A verification is deleted together with its oldest send. Its newest send may be younger by up to
// MaxCodeLife, and must also reach the configured age.
const MaxCodeLife = 24 * time.Hour

// DeletedRows counts the rows that a call of DeleteAged deleted.
type DeletedRows struct {
	Rows      int    // number of deleted sends and refusals, without the rows of a dropped partition
	Partition string // name of the dropped partition; "": none
	More      bool   // more rows may be due now
}

// StorageStatus describes the stored rows and the rows that the background jobs still have to
// delete.
type StorageStatus struct {
	Now    time.Time     // on the database's clock
	Oldest time.Time     // when the oldest send or refusal was logged; zero: there is none
	Age    time.Duration // how long rows are kept; 0: for ever
	// how many rows DeleteAged should have deleted an hour ago, in the table with the most such
	// rows; at most MaxDueCounted
	Due           int
	Forgetting    int         // erased recipients with a hash that ForgetDueErased has not deleted yet
	ForgettingDue int         // how many recipients of Forgetting have a hash that was due for deletion an hour ago
	Partitions    []Partition // partitions of the table sends, oldest first; empty in SQLite
	Bytes         int64       // size of the database, with indexes
}

// MaxDueCounted is the largest number of due rows that is counted.
const MaxDueCounted = 10_000

// PartitionsUntil returns the end of the last partition; the zero time if there are no partitions.
func (s StorageStatus) PartitionsUntil() time.Time {
	if len(s.Partitions) == 0 {
		return time.Time{}
	}
	return s.Partitions[len(s.Partitions)-1].Ends
}

// RetentionCutoff returns the time before which rows are deleted: now minus age and MaxCodeLife. If
// age is 0 or negative, rows are kept for ever, and RetentionCutoff returns 1970.
func RetentionCutoff(now time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Unix(0, 0).UTC()
	}
	return now.Add(-(age + MaxCodeLife).Truncate(time.Microsecond))
}

// An erasure removes the recipient from all rows. The rows stay, for statistics. The keyed hash
// stays until every window of the rules has passed, so that an erasure does not free quota. Then
// ForgetDueErased of package sqldb deletes the hash.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// NoRecipient is the zero hash. ForgetDueErased writes it in place of a recipient's hash.
var NoRecipient recipient.Hash
