package store

import (
	"cmp"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// StatsQuery asks what the log holds in [From, To). Empty fields select all.
type StatsQuery struct {
	App      string
	Channel  recipient.Channel
	Purpose  string
	From, To time.Time
	Each     time.Duration // a tally's time, whole seconds; tallies begin at its multiples since 1970, UTC
}

// Stats is the answer.
type Stats struct {
	Tallies   []Tally   // in order of time, then of what they count
	Stretches []Stretch // in order of time, those in which something was opened or sent
	Measures            // of all of it
	// Undelivered are text messages that went out, or may have, and that their carrier says were lost; none of them is counted ahead,
	// for that is said late.
	Undelivered int
}

// Tally is how many rows of one kind there are in one stretch of time.
type Tally struct {
	At        time.Time // its beginning
	Status    Status
	Reason    string // of what failed or is unknown
	BlockedBy string // of what was refused
	Rows      int
	Requests  int // a refusal's row may stand for several
}

func (q StatsQuery) Checked() (StatsQuery, error) {
	q.From, q.To = Micro(q.From), Micro(q.To)
	if q.From.IsZero() || !q.From.Before(q.To) || q.Each < time.Second || q.Each%time.Second != 0 || !Storable(q.App, q.Purpose, string(q.Channel)) {
		return q, Bad("statistics are of a time that is given, in whole seconds")
	}
	return q, nil
}

// InOrder is the order of tallies.
func InOrder(a, b Tally) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Status, b.Status), strings.Compare(a.Reason, b.Reason), strings.Compare(a.BlockedBy, b.BlockedBy))
}
