package store

import (
	"context"
	"time"

	"sendcode/internal/recipient"
)

// MonthsAhead returns how many whole months after the month of now have partitions. until is the end of the last partition.
func MonthsAhead(until, now time.Time) int {
	until, now = until.UTC(), now.UTC()
	return 12*(until.Year()-now.Year()) + int(until.Month()-now.Month()) - 1
}

// MaxLife is the longest life of a code. Rows are kept MaxLife longer than configured: a verification is deleted with its oldest send, and
// its newest send is at most one life younger. So no verification is deleted before all its sends have reached the configured age.
const MaxLife = 10 * time.Minute

// Expirer makes partitions for new rows, deletes old rows, and erases recipients.
type Expirer interface {
	// EnsurePartitions creates the missing partitions of this month and the next three. It returns the end of the last partition; the zero
	// time means that there are no partitions, and none are needed. Several replicas may call it at once.
	EnsurePartitions(ctx context.Context) (until time.Time, err error)
	// Erase removes all data about the recipient from every row, except the keyed hash, which Forget deletes after keep. It cancels the
	// recipient's codes. It ends the sends that wait for their next attempt: Failed, ReasonErased, not refunded. An attempt under way goes
	// on to its outcome. The audit entry is written in the same transaction; it has the hash, and Forget deletes it there too.
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act AuditEntry) error
	// Forget deletes the hashes of erased recipients whose keep has passed. If a suppression of the recipient is in force, the hash stays
	// in the suppression until that ends. It returns the number of recipients that were due, at most 100 in one call.
	Forget(ctx context.Context) (int, error)
	// Expire deletes rows that were logged longer than age ago: up to limit sends and refusals, oldest first, and up to limit rows each of
	// verifications, provider events, and suppressions that also ended so long ago. A send in flight or with a refund due stays until
	// that is done, and its verification too. With partitions, it first drops the oldest partition if no row in it has to stay. Several
	// replicas may call it at once.
	Expire(ctx context.Context, age time.Duration, limit int) (Expired, error)
	// StorageStatus returns the age of the oldest row, and how much Expire and Forget still have to do.
	StorageStatus(ctx context.Context, age time.Duration) (StorageStatus, error)
}

// Expired is what a call of Expire deleted.
type Expired struct {
	Rows      int    // of sends and refusals, not counting those of a partition
	Partition string // name of the dropped partition; "": none
	More      bool   // more rows may be due now
}

// StorageStatus reports the oldest row and how much the background jobs still have to do.
type StorageStatus struct {
	Now        time.Time     // on the log's clock
	Oldest     time.Time     // when the oldest send or refusal was logged; zero: there is none
	Age        time.Duration // how long rows are kept; 0: for ever
	Due        int           // sends and refusals that Expire may delete now, at most MaxDue; 0 if rows are kept for ever
	Forgetting int           // erased recipients whose hash Forget has not deleted yet
	Late       int           // those of Forgetting whose keep has passed
	Partitions []Partition   // of sends, oldest first; empty in SQLite
}

// MaxDue is the largest number of due rows that is counted.
const MaxDue = 10_000

// Until returns the end of the last partition; the zero time if there are no partitions.
func (e StorageStatus) Until() time.Time {
	if len(e.Partitions) == 0 {
		return time.Time{}
	}
	return e.Partitions[len(e.Partitions)-1].Ends
}

// DueBefore returns the instant before which rows are due for deletion if they are kept for age. If age is 0 or negative it returns 1970,
// so that no row is due.
func DueBefore(now time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Unix(0, 0).UTC()
	}
	return now.Add(-(age + MaxLife).Truncate(time.Microsecond))
}

// An erasure removes the recipient from all rows. The rows stay, for statistics. The keyed hash stays until every window has passed, so
// that an erasure frees no quota; then Forget deletes it.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// NoRecipient is the zero hash. Forget writes it in place of a recipient's hash.
var NoRecipient recipient.Hash
