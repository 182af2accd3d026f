package store

import "time"

// StorageStatus is how far the log reaches, and what is still to be done in the background.
type StorageStatus struct {
	Now        time.Time     // on the log's clock
	Oldest     time.Time     // when the oldest send or refusal was logged; zero: there is none
	Age        time.Duration // for which rows are kept; 0: for ever
	Due        int           // rows that are older than they are kept, up to MaxDue; 0 where they are kept for ever
	Forgetting int           // persons who were erased and whose hash is still needed
	Late       int           // of those: whose time has come
	Partitions []Partition   // of sends, the oldest first; none where there are no partitions
}

// MaxDue is as far as what is due is counted.
const MaxDue = 10_000

// Until is when the room for new rows ends; zero: never.
func (e StorageStatus) Until() time.Time {
	if len(e.Partitions) == 0 {
		return time.Time{}
	}
	return e.Partitions[len(e.Partitions)-1].Ends
}

// DueBefore is the instant before which rows of an age are let go; for no age the beginning of time.
func DueBefore(now time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Unix(0, 0).UTC()
	}
	return now.Add(-(age + MaxLife).Truncate(time.Microsecond))
}
