package store

import (
	"math"
	"time"

	"sendcode/internal/base/recipient"
)

// StatsQuery selects the rows logged in [From, To). Empty App, Channel or Purpose select all.
type StatsQuery struct {
	App            string
	Channel        recipient.Channel
	Purpose        string
	From, To       time.Time
	IntervalLength time.Duration // whole seconds; intervals begin at its multiples since 1970
	// Zone is the time zone of days, if IntervalLength is a number of days; nil means UTC. Rows are
	// counted by hours of UTC, so if the offset isn't whole hours, a day begins with the first such
	// hour that starts on it.
	Zone *time.Location
}

type Stats struct {
	Tallies   []StatusCount   // sorted by At, status, reason and rule
	Intervals []StatsInterval // sorted by time, without those in which nothing was opened or sent
	Measures                  // the measures of the whole range
	// Text messages whose receipt says that they were lost. They are counted in the rows rather
	// than taken from the hourly counts, because a receipt may come after its hour was counted.
	Undelivered int
	Reported    int // verifications whose recipients said in that time that they hadn't asked
}

// StatusCount counts the rows with one status, reason and rule in an interval.
type StatusCount struct {
	At        time.Time // the interval's start
	Status    Status
	Reason    string // with Failed and Unknown
	BlockedBy string // with Refused: the rule
	Rows      int
	Requests  int // how many requests the rows stand for
}

// StopCount counts the requests of a purpose that one rule or reason kept from being sent.
type StopCount struct {
	Purpose   string
	BlockedBy string // the rule of refusals; "" for sends that failed
	Reason    string // the reason of sends that failed
	Requests  int
}

// Validated truncates From and To to microseconds. Errors wrap ErrBadRequest.
func (q StatsQuery) Validated() (StatsQuery, error) {
	q.From, q.To = TruncateToMicroseconds(q.From), TruncateToMicroseconds(q.To)
	switch {
	case q.From.IsZero() || !q.From.Before(q.To) || q.IntervalLength < time.Second || q.IntervalLength%time.Second != 0:
		return q, BadRequestf("statistics need a time range, and intervals of whole seconds")
	case !AreValidTexts(q.App, q.Purpose, string(q.Channel)):
		return q, BadRequestf("a text is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	}
	return q, nil
}

// ZoneOffset is a zone's offset from UTC, rounded down to whole hours, which applies from an
// instant on.
type ZoneOffset struct {
	From   time.Time
	Offset time.Duration
}

const day = 24 * time.Hour

// ZoneOffsets returns the zone's offsets in the query's range, sorted by time. The first also
// applies to earlier times. If Zone is nil or IntervalLength isn't a number of days, the only
// offset is 0.
func (q StatsQuery) ZoneOffsets() (all []ZoneOffset) {
	if q.Zone == nil || q.IntervalLength%day != 0 {
		return []ZoneOffset{{}}
	}
	at, end := q.From.Add(-2*q.IntervalLength).In(q.Zone), q.To.Add(2*q.IntervalLength)
	for {
		_, east := at.Zone()
		all = append(all, ZoneOffset{From: at.UTC(), Offset: time.Duration(math.Floor(float64(east)/3600)) * time.Hour})
		_, at = at.ZoneBounds()
		if at.IsZero() || at.After(end) {
			return all
		}
	}
}

// IntervalStart returns the start of the interval that contains at.
func (q StatsQuery) IntervalStart(at time.Time) time.Time {
	return q.StartOfInterval(q.intervalNumber(at))
}

// NextIntervalStart returns the start of the interval after the one that contains at.
func (q StatsQuery) NextIntervalStart(at time.Time) time.Time {
	return q.StartOfInterval(q.intervalNumber(at) + 1)
}

// intervalNumber counts intervals from 1970.
func (q StatsQuery) intervalNumber(at time.Time) int64 {
	var offset time.Duration
	for i, s := range q.ZoneOffsets() {
		if i == 0 || !at.Before(s.From) {
			offset = s.Offset
		}
	}
	return int64(math.Floor(float64(at.Add(offset).Unix()) / q.IntervalLength.Seconds()))
}

// StartOfInterval is the inverse of intervalNumber: it returns the start of the interval n.
func (q StatsQuery) StartOfInterval(n int64) (at time.Time) {
	all := q.ZoneOffsets()
	for i, s := range all {
		at = time.Unix(n*int64(q.IntervalLength/time.Second), 0).UTC().Add(-s.Offset)
		if i > 0 && at.Before(s.From) { // a clock change skipped the first hour of the day
			at = s.From
		}
		if i+1 == len(all) || at.Before(all[i+1].From) {
			break
		}
	}
	return at
}

// Measures are counts of codes, and delivery times.
type Measures struct {
	// Opened counts the verifications whose first send is in the range, Approved those of them that
	// are approved. If the hour's counts are stored, later approvals aren't included. A code that
	// its caller checks is in both only if the caller reports the outcome.
	Opened, Approved int
	// Percentiles of the time from LoggedAt to the outcome of sent messages; 0 without any.
	Median, P95 time.Duration
}

type StatsInterval struct {
	At time.Time // the interval's start
	Measures
}

// DomainTally counts the mails to a domain.
type DomainTally struct {
	Domain   string // as in Send.To
	Sends    int
	Failed   int
	Rejected int // how many of Failed a mail server refused permanently
}

// Dimension is a property by which statistics group codes.
type Dimension string

const (
	ByPurpose Dimension = "purpose"
	ByApp     Dimension = "app"
	ByCountry Dimension = "country" // of the number
	ByCarrier Dimension = "carrier" // or mail server
	ByDomain  Dimension = "domain"  // of the mail address
)

// ApprovalTally counts the codes with one value of a dimension.
type ApprovalTally struct {
	Value    string `json:"value"`  // such as "DE" for ByCountry
	Opened   int    `json:"opened"` // as in Measures
	Approved int    `json:"approved"`
}
