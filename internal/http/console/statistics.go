package console

import (
	"math"
	"time"

	"sendcode/internal/base/texts"
	"sendcode/internal/store"
)

// Statistics are the numbers of a time range, and the numbers of the equally long time range before
// it.
type Statistics struct {
	From            string         `json:"from"`
	To              string         `json:"to"`
	IntervalSeconds int            `json:"each"` // seconds of one interval
	Total           Total          `json:"total"`
	Before          Total          `json:"before"`
	Domains         []domainCounts `json:"domains"`
	// the codes that were opened and approved, by the requested dimension
	Codes     []store.ApprovalTally `json:"codes,omitzero"`
	Intervals []interval            `json:"stretches"` // all intervals, even those without rows, oldest first
}

// sendCounts are the numbers of sends by state. Refused is the number of refused requests.
type sendCounts struct {
	Sends    int `json:"sends"`
	Sent     int `json:"sent"` // delivered and undelivered among them
	Failed   int `json:"failed"`
	Unknown  int `json:"unknown"`
	UnderWay int `json:"under_way"`
	Refused  int `json:"refused"`
}

// add counts the rows of a tally or, for refusals, the requests.
func (c *sendCounts) add(t store.StatusCount) {
	if t.Status == store.Refused {
		c.Refused += t.Requests
		return
	}
	c.Sends += t.Rows
	switch t.Status {
	case store.Failed:
		c.Failed += t.Rows
	case store.Unknown:
		c.Unknown += t.Rows
	case store.Queued, store.Sending:
		c.UnderWay += t.Rows
	default:
		c.Sent += t.Rows
	}
}

// Total has the numbers of a whole time range.
type Total struct {
	sendCounts
	Refusals map[string]int `json:"refusals"` // requests, by rule
	Failures map[string]int `json:"failures"` // how many sends failed, by reason
	// text messages that a carrier reported as not delivered
	Undelivered int `json:"undelivered"`
	Reported    int `json:"reported"`
	codeMeasures
}

// codeMeasures tell how well codes reached people.
type codeMeasures struct {
	Opened   int      `json:"opened"`
	Approved int      `json:"approved"`
	Rate     *float64 `json:"approval_rate"` // null where nothing was opened
	MedianMS *int64   `json:"median_ms"`     // null where nothing was sent
	P95MS    *int64   `json:"p95_ms"`
}

// domainCounts are the numbers of mails to one domain. Statistics list only the domains with the
// most failed mails.
type domainCounts struct {
	Domain   string `json:"domain"`
	Sends    int    `json:"sends"`
	Failed   int    `json:"failed"`
	Rejected int    `json:"rejected"`
}

// FailedOtherwise returns how many mails failed without a final refusal by a server.
func (d domainCounts) FailedOtherwise() int { return d.Failed - d.Rejected }

// interval has the numbers of one hour or day.
type interval struct {
	At string `json:"at"`

	begins, ends time.Time
	sendCounts
	codeMeasures
}

func totalOf(s store.Stats) Total {
	t := Total{Refusals: map[string]int{}, Failures: map[string]int{}, Undelivered: s.Undelivered, Reported: s.Reported}
	for _, x := range s.Tallies {
		t.add(x)
		switch x.Status {
		case store.Refused:
			t.Refusals[x.BlockedBy] += x.Requests
		case store.Failed:
			t.Failures[x.Reason] += x.Rows
		}
	}
	t.codeMeasures = measuresOf(s.Measures, t.Sent)
	return t
}

func measuresOf(m store.Measures, sent int) codeMeasures {
	out := codeMeasures{Opened: m.Opened, Approved: m.Approved}
	if m.Opened > 0 {
		out.Rate = new(math.Round(1000*float64(m.Approved)/float64(m.Opened)) / 1000)
	}
	if sent > 0 {
		out.MedianMS, out.P95MS = new(m.Median.Milliseconds()), new(m.P95.Milliseconds())
	}
	return out
}

func isoTime(t time.Time) string { return texts.DisplayTime{Time: t}.ISO() }

// summarize returns the statistics for the time range of q. current has the database's numbers of
// this range, and previous has those of the range before it, of the same length. domains has the
// mail domains with the most failed mails.
func summarize(q store.StatsQuery, current, previous store.Stats, domains []store.DomainTally) Statistics {
	out := Statistics{
		From: isoTime(q.From), To: isoTime(q.To), IntervalSeconds: int(q.IntervalLength / time.Second),
		Total: totalOf(current), Before: totalOf(previous), Domains: make([]domainCounts, 0, len(domains)),
	}
	for _, d := range domains {
		out.Domains = append(out.Domains, domainCounts(d))
	}
	tallies, intervals := current.Tallies, current.Intervals
	for at := q.IntervalStart(q.From); at.Before(q.To); at = q.NextIntervalStart(at) {
		s := interval{At: isoTime(at), begins: at, ends: q.NextIntervalStart(at)}
		for len(tallies) > 0 && tallies[0].At.Equal(at) {
			s.add(tallies[0])
			tallies = tallies[1:]
		}
		if len(intervals) > 0 && intervals[0].At.Equal(at) {
			s.codeMeasures = measuresOf(intervals[0].Measures, s.Sent)
			intervals = intervals[1:]
		}
		out.Intervals = append(out.Intervals, s)
	}
	return out
}
