package store

import (
	"math"
	"time"

	"sendcode/internal/base/recipient"
)

// StatsQuery selects the rows that were logged in [From, To). An empty App, Channel or Purpose
// selects all.
type StatsQuery struct {
	App      string
	Channel  recipient.Channel
	Purpose  string
	From, To time.Time
	Each     time.Duration // in whole seconds; each interval begins at a multiple of Each since 1970
	// Zone is the time zone of days, if Each is a number of days. If Zone is nil, the zone is UTC.
	// Rows are counted by hours of UTC. If the zone's offset is not a whole number of hours, a day
	// begins with the first hour of UTC that starts on that day.
	Zone *time.Location
}

// Stats is the result of a StatsQuery.
type Stats struct {
	Tallies   []StatusCount   // sorted by At, then by status, reason and rule
	Intervals []StatsInterval // sorted by time; intervals with neither opened verifications nor sent messages are left out
	Measures                  // of the whole time range
	// Undelivered is the number of text messages whose receipt says that they were lost. The number
	// comes from the rows and not from stored counts of hours, because a receipt may come after the
	// hour was counted.
	Undelivered int
	Reported    int // verifications whose recipients reported in that time that they did not ask
}

// StatusCount is the number of rows with one status, reason and rule in one interval.
type StatusCount struct {
	At        time.Time // start of the interval
	Status    Status
	Reason    string // with Failed and Unknown
	BlockedBy string // with Refused: the rule
	Rows      int
	Requests  int // number of requests that the rows stand for
}

// Validated validates the query and rounds its instants; errors wrap ErrBadRequest.
func (q StatsQuery) Validated() (StatsQuery, error) {
	q.From, q.To = TruncateToMicroseconds(q.From), TruncateToMicroseconds(q.To)
	if q.From.IsZero() || !q.From.Before(q.To) || q.Each < time.Second || q.Each%time.Second != 0 ||
		!AreValidTexts(q.App, q.Purpose, string(q.Channel)) {
		return q, BadRequestf("statistics need a time range in whole seconds")
	}
	return q, nil
}

// ZoneOffset is a zone's offset from UTC, rounded down to whole hours. It applies from an instant
// on.
type ZoneOffset struct {
	From   time.Time
	Offset time.Duration
}

const day = 24 * time.Hour

// ZoneOffsets returns the zone's offsets from UTC in the query's time range, sorted by time. The
// first offset also applies before that range. If Zone is nil or Each is not a number of days, the
// only offset is 0.
func (q StatsQuery) ZoneOffsets() (all []ZoneOffset) {
	if q.Zone == nil || q.Each%day != 0 {
		return []ZoneOffset{{}}
	}
	at, end := q.From.Add(-2*q.Each).In(q.Zone), q.To.Add(2*q.Each)
	for {
		_, east := at.Zone()
		all = append(all, ZoneOffset{From: at.UTC(), Offset: time.Duration(math.Floor(float64(east)/3600)) * time.Hour})
		_, at = at.ZoneBounds()
		if at.IsZero() || at.After(end) {
			return all
		}
	}
}

// IntervalStart returns the beginning of the interval that contains the instant at.
func (q StatsQuery) IntervalStart(at time.Time) time.Time {
	return q.StartOfInterval(q.intervalNumber(at))
}

// NextIntervalStart returns the start of the next interval, which follows the interval of the given
// instant.
func (q StatsQuery) NextIntervalStart(at time.Time) time.Time {
	return q.StartOfInterval(q.intervalNumber(at) + 1)
}

// intervalNumber returns the number of the interval to which the given instant belongs. The numbers
// count intervals from 1970.
func (q StatsQuery) intervalNumber(at time.Time) int64 {
	var offset time.Duration
	for i, s := range q.ZoneOffsets() {
		if i == 0 || !at.Before(s.From) {
			offset = s.Offset
		}
	}
	return int64(math.Floor(float64(at.Add(offset).Unix()) / q.Each.Seconds()))
}

// StartOfInterval returns the beginning of interval n, counted from 1970.
func (q StatsQuery) StartOfInterval(n int64) (at time.Time) {
	all := q.ZoneOffsets()
	for i, s := range all {
		at = time.Unix(n*int64(q.Each/time.Second), 0).UTC().Add(-s.Offset)
		if i > 0 && at.Before(s.From) { // a clock change skipped the first hour of the day
			at = s.From
		}
		if i+1 == len(all) || at.Before(all[i+1].From) {
			break
		}
	}
	return at
}

// Measures are the numbers of codes sent and approved, and the delivery times.
type Measures struct {
	// Opened is the number of verifications whose first send is in the time range. Approved is the
	// number of these verifications that are approved. If the counts of an hour are stored,
	// Approved does not include approvals after the hour was counted. If a caller checks a code
	// itself, the verification is in both numbers only if the caller reports the outcome.
	Opened, Approved int
	// Median and P95 are percentiles of the time from LoggedAt to the outcome of sent messages. If
	// no message was sent, both are 0.
	Median, P95 time.Duration
}

// StatsInterval has the measures of one interval of the time range.
type StatsInterval struct {
	At time.Time // start of the interval
	Measures
}

// DomainTally counts the mails to addresses of one domain.
type DomainTally struct {
	Domain   string // as Send.To shows it
	Sends    int
	Failed   int
	Rejected int // how many of Failed a mail server refused for good
}

// Dimension is a property of sends by which statistics group codes.
type Dimension string

// The dimensions.
const (
	ByPurpose Dimension = "purpose"
	ByApp     Dimension = "app"
	ByCountry Dimension = "country" // of the number
	ByCarrier Dimension = "carrier" // or mail server
	ByDomain  Dimension = "domain"  // of the mail address
)

// ApprovalTally is the number of codes with one value of a dimension, and the number of these that
// were approved.
type ApprovalTally struct {
	Value    string `json:"value"`  // such as "DE" for ByCountry
	Opened   int    `json:"opened"` // as in Measures
	Approved int    `json:"approved"`
}
