package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// These constants are the default and the bounds of the time range of statistics. Up to
// maxHourlyPeriod, an interval is an hour, and beyond it a day. A time range beyond maxStatsPeriod
// could take the database too long.
const (
	defaultStatsPeriod = 24 * time.Hour
	maxStatsPeriod     = 31 * 24 * time.Hour
	maxHourlyPeriod    = 3 * 24 * time.Hour
)

var (
	errStatsTooLong   = layout.Invalid("from", "invalid", "stats.long", "Statistics cover at most 31 days.")
	errStatsDimension = layout.Invalid("by", "invalid", "stats.by",
		"Codes can be counted by app, purpose, domain, country or carrier.")
)

func (console *Console) statsJSON(c echo.Context) error {
	values, by, err := parseDimension(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	ctx, cancel := statsContext(c)
	defer cancel()
	s, query, _, err := console.stats(ctx, values.Encode(), time.UTC)
	if err == nil && by != "" {
		s.Codes, err = console.DB.ApprovalsBy(ctx, query, by)
		s.Codes = append([]store.ApprovalTally{}, s.Codes...) // [] in JSON, not null
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s)
}

// parseDimension parses a raw query. It removes the parameter "by" from the values and returns its
// value, or "" if the query has no such parameter.
func parseDimension(raw string) (values url.Values, by store.Dimension, err error) {
	if values, err = layout.ParseRawQuery(raw); err != nil {
		return nil, "", err
	}
	by = store.Dimension(values.Get("by"))
	values.Del("by")
	if by != "" && !slices.Contains(approvalDimensions, by) {
		return nil, "", errStatsDimension
	}
	return values, by, nil
}

// maxStatsTime bounds the database statements for one answer. Statistics of many rows take longer
// than store.CallTimeout.
const maxStatsTime = time.Minute

// statsContext returns the context for the database statements of statistics. It also extends the
// time limit of the answer.
func statsContext(c echo.Context) (context.Context, context.CancelFunc) {
	server.SetAnswerTime(c, maxStatsTime+writeTimeout)
	return context.WithTimeout(c.Request().Context(), maxStatsTime)
}

// stats loads the statistics that the raw query asks for. It also returns the parsed query and its
// parameters. A day begins at midnight in zone.
func (console *Console) stats(ctx context.Context, raw string, zone *time.Location) (s Statistics,
	query store.StatsQuery,
	given url.Values, err error,
) {
	q, err := parseQuery(raw, console.Now(), zone)
	if err == nil {
		query, err = console.statsQuery(q, zone)
	}
	if err != nil {
		return s, query, q.given, err
	}
	now, err := console.DB.Stats(ctx, query)
	if err != nil {
		return s, query, q.given, err
	}
	earlier := query
	earlier.From, earlier.To = query.From.Add(-query.To.Sub(query.From)), query.From
	before, err := console.DB.Stats(ctx, earlier)
	if err != nil {
		return s, query, q.given, err
	}
	domains, err := console.DB.DomainTallies(ctx, query)
	return summarize(query, now, before, domains), query, q.given, err
}

// statsQuery returns the query for the time, app, channel and purpose of a list's filters. Other
// filters are an error.
func (console *Console) statsQuery(q listQuery, zone *time.Location) (store.StatsQuery, error) {
	for name := range q.given {
		if !slices.Contains([]string{"app", "channel", "purpose", "from", "to", "last"}, name) {
			return store.StatsQuery{}, layout.Invalid(name, "unknown", "stats",
				"Statistics can be filtered only by app, channel, purpose and time.")
		}
	}
	f := q.filter
	if f.To.IsZero() {
		f.To = console.Now()
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-defaultStatsPeriod)
	}
	each := time.Hour
	switch length := f.To.Sub(f.From); {
	case length <= 0:
		return store.StatsQuery{}, layout.ErrEndsBeforeBeginning
	case length > maxStatsPeriod:
		return store.StatsQuery{}, errStatsTooLong
	case length > maxHourlyPeriod:
		each = 24 * time.Hour
	}
	return store.StatsQuery{
		App: f.App, Channel: f.Channel, Purpose: f.Purpose, From: f.From, To: f.To, IntervalLength: each,
		Zone: zone,
	}, nil
}
