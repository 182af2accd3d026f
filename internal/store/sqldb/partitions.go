package sqldb

import (
	"fmt"
	"time"

	"sendcode/internal/store"
)

// LoggedSince says of a statement's rows that none was logged before an instant, for partitions to be left out by; at is SQL. Either half
// is the whole condition. An OR is of use to no index, so the planner can't come to read all rows of the time instead of one
// recipient's.
func LoggedSince(at string) string {
	at = "sendcode_lowest_id(" + at + " - " + Interval(store.MaxDrift) + ")"
	return "(s.id >= " + at + " OR s.id > " + at + ")"
}

// ClockStep is how far the log's clock may be set back at once.
const ClockStep = time.Hour

// logged adds the same for instants that are known here, and for the other end; for the partitioned log alone.
func (c *Conditions) logged(d Dialect, from, to time.Time) {
	if d.Partitioned && !from.IsZero() {
		lowest := store.LowestID(from.Add(-store.MaxDrift))
		c.Add("(s.id >= ? OR s.id > ?)", lowest, lowest)
	}
	if d.Partitioned && !to.IsZero() {
		highest := store.LowestID(to.Add(store.MaxDrift + time.Millisecond))
		c.Add("(s.id < ? OR s.id <= ?)", highest, highest)
	}
}

func Interval(d time.Duration) string {
	return fmt.Sprintf("interval '%d microseconds'", d.Microseconds())
}
