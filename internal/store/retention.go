package store

import (
	"time"

	"sendcode/internal/base/recipient"
)

// PartitionWeeksAhead returns how many whole weeks after this one have partitions, if the last
// partition ends at until.
func PartitionWeeksAhead(until, now time.Time) int {
	return int(until.Sub(now.Truncate(Week))/Week) - 1
}

// MaxCodeLife is the longest life of a code. Rows are kept for the configured age plus MaxCodeLife,
// because a verification is deleted with its oldest send, and its newest send, which is younger by
// up to MaxCodeLife, must reach the age too.
const MaxCodeLife = 24 * time.Hour

// DeletedRows counts what a call of DeleteAged deleted.
type DeletedRows struct {
	Rows      int    // sends and refusals, without those of a dropped partition
	Partition string // the dropped partition; "": none
	More      bool   // more rows may be due now
}

// StorageStatus describes the stored rows, and what the jobs still have to delete.
type StorageStatus struct {
	Now    time.Time     // on the database's clock
	Oldest time.Time     // when the oldest send or refusal was logged; zero: none
	Age    time.Duration // how long rows are kept; 0: for ever
	// Rows that DeleteAged should have deleted an hour ago, in the table with the most; at most
	// MaxDueCounted.
	Due           int
	Forgetting    int         // erased recipients whose hash is kept until ForgetDueErased
	ForgettingDue int         // how many of these were due an hour ago
	Partitions    []Partition // of the table sends, oldest first; empty in SQLite
	Bytes         int64       // of the database, with indexes
}

// MaxDueCounted bounds StorageStatus.Due.
const MaxDueCounted = 10_000

// PartitionsUntil returns the end of the last partition, or the zero time.
func (s StorageStatus) PartitionsUntil() time.Time {
	if len(s.Partitions) == 0 {
		return time.Time{}
	}
	return s.Partitions[len(s.Partitions)-1].Ends
}

// RetentionCutoff returns the time before which rows are deleted: age and MaxCodeLife ago, or 1970
// if age is 0 or negative, since rows are then kept for ever.
func RetentionCutoff(now time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Unix(0, 0).UTC()
	}
	return now.Add(-(age + MaxCodeLife).Truncate(time.Microsecond))
}

// An erasure removes the recipient from all rows, which stay for statistics. The keyed hash stays
// until every window of the rules has passed, so that an erasure doesn't free quota. Then
// sqldb.DB.ForgetDueErased deletes it.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// NoRecipient replaces an erased recipient's hash when ForgetDueErased deletes it.
var NoRecipient recipient.Hash
