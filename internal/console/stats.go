package console

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/layout"
	"sendcode/internal/store"
)

// Bounds of statistics: they count rows, so a longer time would take the log longer than anybody waits.
const (
	defaultStats = 24 * time.Hour
	maxStats     = 31 * 24 * time.Hour
	hourlyUpTo   = 3 * 24 * time.Hour
)

// statsJSON is what happened in a stretch of time, and in the one as long before it.
type statsJSON struct {
	From      string        `json:"from"`
	To        string        `json:"to"`
	Each      int           `json:"each"` // seconds of one stretch
	Total     totalJSON     `json:"total"`
	Before    totalJSON     `json:"before"`
	Domains   []domainJSON  `json:"domains"`
	Stretches []stretchJSON `json:"stretches"` // those without rows too, oldest first
}

// countsJSON counts sends by what became of them; refused counts requests.
type countsJSON struct {
	Sends    int `json:"sends"`
	Sent     int `json:"sent"` // delivered and undelivered among them
	Failed   int `json:"failed"`
	Unknown  int `json:"unknown"`
	UnderWay int `json:"under_way"`
	Refused  int `json:"refused"`
}

type totalJSON struct {
	countsJSON
	Refusals map[string]int `json:"refusals"`    // requests, by rule
	Failures map[string]int `json:"failures"`    // by reason
	Lost     int            `json:"undelivered"` // text messages that went out, or may have, and were lost as their carrier says
	measuresJSON
}

// measuresJSON tells how well codes reached people.
type measuresJSON struct {
	Opened   int      `json:"opened"`
	Approved int      `json:"approved"`
	Rate     *float64 `json:"approval_rate"` // null where nothing was opened
	MedianMS *int64   `json:"median_ms"`     // null where nothing was sent
	P95MS    *int64   `json:"p95_ms"`
}

// domainJSON is how the mails to one domain fared, of those domains to which most failed.
type domainJSON struct {
	Domain   string `json:"domain"`
	Sends    int    `json:"sends"`
	Failed   int    `json:"failed"`
	Rejected int    `json:"rejected"`
}

type stretchJSON struct {
	At string `json:"at"`
	countsJSON
	measuresJSON
}

func (c *countsJSON) add(t store.Tally) {
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

func totalOf(s store.Stats) totalJSON {
	t := totalJSON{Refusals: map[string]int{}, Failures: map[string]int{}, Lost: s.Undelivered}
	for _, x := range s.Tallies {
		t.add(x)
		switch x.Status {
		case store.Refused:
			t.Refusals[x.BlockedBy] += x.Requests
		case store.Failed:
			t.Failures[x.Reason] += x.Rows
		}
	}
	t.measuresJSON = measuresOf(s.Measures, t.Sent)
	return t
}

func measuresOf(m store.Measures, sent int) measuresJSON {
	out := measuresJSON{Opened: m.Opened, Approved: m.Approved}
	if m.Opened > 0 {
		out.Rate = new(math.Round(1000*float64(m.Approved)/float64(m.Opened)) / 1000)
	}
	if sent > 0 {
		out.MedianMS, out.P95MS = new(m.Median.Milliseconds()), new(m.P95.Milliseconds())
	}
	return out
}

func (a *Console) statsJSON(c echo.Context) error {
	s, _, err := a.stats(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s)
}

// stats are those that a request's address asks for, and what it says.
func (a *Console) stats(c echo.Context) (s statsJSON, given url.Values, err error) {
	q, err := parseQuery(c.Request().URL.RawQuery, a.Now())
	if err != nil {
		return s, nil, err
	}
	asked, err := a.statsQuery(q)
	if err != nil {
		return s, nil, err
	}
	s, err = a.statsOf(c.Request().Context(), asked)
	return s, q.given, err
}

// statsQuery takes what a list's filters can say of a time, an app, a channel and a purpose.
func (a *Console) statsQuery(q query) (store.StatsQuery, error) {
	for name := range q.given {
		if !slices.Contains([]string{"app", "channel", "purpose", "from", "to", "last"}, name) {
			return store.StatsQuery{}, layout.Invalid(name, "unknown", "Statistics are by app, channel, purpose and time alone.")
		}
	}
	f := q.filter
	if f.To.IsZero() {
		f.To = a.Now()
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-defaultStats)
	}
	each := time.Hour
	switch length := f.To.Sub(f.From); {
	case length <= 0:
		return store.StatsQuery{}, layout.Invalid("to", "invalid", "The end must be after the beginning.")
	case length > maxStats:
		return store.StatsQuery{}, layout.Invalid("from", "invalid", "Statistics are of 31 days at most.")
	case length > hourlyUpTo:
		each = 24 * time.Hour
	}
	return store.StatsQuery{App: f.App, Channel: f.Channel, Purpose: f.Purpose, From: f.From, To: f.To, Each: each}, nil
}

func (a *Console) statsOf(ctx context.Context, q store.StatsQuery) (statsJSON, error) {
	now, err := a.Log.Stats(ctx, q)
	if err != nil {
		return statsJSON{}, err
	}
	earlier := q
	earlier.From, earlier.To = q.From.Add(-q.To.Sub(q.From)), q.From
	before, err := a.Log.Stats(ctx, earlier)
	if err != nil {
		return statsJSON{}, err
	}
	domains, err := a.Log.Domains(ctx, q)
	if err != nil {
		return statsJSON{}, err
	}
	out := statsJSON{
		Domains: make([]domainJSON, 0, len(domains)),
		From:    *stamp(q.From), To: *stamp(q.To), Each: int(q.Each / time.Second),
		Total: totalOf(now), Before: totalOf(before),
	}
	for _, d := range domains {
		out.Domains = append(out.Domains, domainJSON(d))
	}
	tallies, stretches := now.Tallies, now.Intervals
	for at := q.From.Truncate(q.Each); at.Before(q.To); at = at.Add(q.Each) {
		s := stretchJSON{At: *stamp(at)}
		for len(tallies) > 0 && tallies[0].At.Equal(at) {
			s.add(tallies[0])
			tallies = tallies[1:]
		}
		if len(stretches) > 0 && stretches[0].At.Equal(at) {
			s.measuresJSON = measuresOf(stretches[0].Measures, s.Sent)
			stretches = stretches[1:]
		}
		out.Stretches = append(out.Stretches, s)
	}
	return out, nil
}
