package store

import (
	"math"
	"time"

	"sendcode/internal/recipient"
)

// StatsQuery asks what the log holds in [From, To). Empty fields select all.
type StatsQuery struct {
	App      string
	Channel  recipient.Channel
	Purpose  string
	From, To time.Time
	Each     time.Duration // a tally's time, whole seconds; tallies begin at its multiples since 1970
	// Zone is whose days they are, where Each is whole days; nil: UTC's. Hours are counted as they are in UTC, so where a zone is not whole
	// hours from it, a day begins with the first hour of UTC that begins in it.
	Zone *time.Location
}

// Stats is the answer.
type Stats struct {
	Tallies   []Tally    // in order of time, then of what they count
	Intervals []Interval // in order of time, those in which something was opened or sent
	Measures             // of all of it
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

// Validated validates the query and rounds its instants; errors wrap ErrBadRequest.
func (q StatsQuery) Validated() (StatsQuery, error) {
	q.From, q.To = Micro(q.From), Micro(q.To)
	if q.From.IsZero() || !q.From.Before(q.To) || q.Each < time.Second || q.Each%time.Second != 0 || !ValidTexts(q.App, q.Purpose, string(q.Channel)) {
		return q, BadRequestf("statistics are of a time that is given, in whole seconds")
	}
	return q, nil
}

// ZoneOffset is how far a zone is from UTC, whole hours, from an instant on.
type ZoneOffset struct {
	From   time.Time
	Offset time.Duration
}

const day = 24 * time.Hour

// ZoneOffsets returns the zone's offsets from UTC, in order of time, as far as they matter to the query's stretches. The first also
// applies before the query's time range.
func (q StatsQuery) ZoneOffsets() (all []ZoneOffset) {
	if q.Zone == nil || q.Each%day != 0 {
		return []ZoneOffset{{}}
	}
	at, end := q.From.Add(-2*q.Each).In(q.Zone), q.To.Add(2*q.Each)
	for {
		_, east := at.Zone()
		all = append(all, ZoneOffset{From: at.UTC(), Offset: time.Duration(math.Floor(float64(east)/3600)) * time.Hour})
		if _, at = at.ZoneBounds(); at.IsZero() || at.After(end) {
			return all
		}
	}
}

// StretchStart returns the beginning of the stretch of time that contains at.
func (q StatsQuery) StretchStart(at time.Time) time.Time {
	return q.NthStretchStart(q.stretchNumber(at))
}

// NextStretchStart returns the beginning of the stretch after the one that contains at.
func (q StatsQuery) NextStretchStart(at time.Time) time.Time {
	return q.NthStretchStart(q.stretchNumber(at) + 1)
}

// stretchNumber returns the number of the stretch that contains at, counted from 1970.
func (q StatsQuery) stretchNumber(at time.Time) int64 {
	var offset time.Duration
	for i, s := range q.ZoneOffsets() {
		if i == 0 || !at.Before(s.From) {
			offset = s.Offset
		}
	}
	return int64(math.Floor(float64(at.Add(offset).Unix()) / q.Each.Seconds()))
}

// NthStretchStart returns the beginning of stretch n, counted from 1970.
func (q StatsQuery) NthStretchStart(n int64) (at time.Time) {
	all := q.ZoneOffsets()
	for i, s := range all {
		at = time.Unix(n*int64(q.Each/time.Second), 0).UTC().Add(-s.Offset)
		if i > 0 && at.Before(s.From) { // a day whose first hour there is not
			at = s.From
		}
		if i+1 == len(all) || at.Before(all[i+1].From) {
			break
		}
	}
	return at
}

// Measures tell how well codes reached people.
type Measures struct {
	// Opened are the verifications that a first send of the time opened, Approved those of them that were.
	Opened, Approved int
	// Median and P95 are between the row and the outcome, of what was sent; 0 where nothing was.
	Median, P95 time.Duration
}

// Interval has the measures of one stretch of time.
type Interval struct {
	At time.Time // its beginning
	Measures
}

// DomainTally is how the mails to the addresses of one domain fared.
type DomainTally struct {
	Domain   string // as masks show it
	Sends    int
	Failed   int
	Rejected int // of those that failed: refused for good by a mail server
}

// Dimension is what codes are told apart by.
type Dimension string

// The dimensions.
const (
	ByPurpose Dimension = "purpose"
	ByApp     Dimension = "app"
	ByCountry Dimension = "country" // of the number
	ByCarrier Dimension = "carrier" // or mail server
	ByDomain  Dimension = "domain"  // of the mail address
)

// ApprovalTally says how many of the codes of one kind were entered.
type ApprovalTally struct {
	Value            string // in the dimension
	Opened, Approved int    // as in Measures
}
