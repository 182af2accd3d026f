package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/console/statistics"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// overviewView is what happened lately: numbers beside those of the time before, charts, and what stood in the way.
type overviewView struct {
	layout.Page
	Last     []layout.Option
	Figures  []figureView
	Sends    statistics.Chart
	Became   statistics.Table // of the sends
	Measures []statistics.Chart
	Measured statistics.Table
	Daily    bool
	Refusals []countView // by rule
	Failures []countView // by reason
	Prefixes string      // how many rest now; empty: none
	Domains  []domainView
	By       []byView
	Codes    []conversionView
	Log      *extentView
}

// byView is something that codes can be told apart by.
type byView struct {
	Name, Link string
	Chosen     bool
}

// conversionView is how many codes of one kind were entered; its bar shows the part in hundredths.
type conversionView struct {
	store.ApprovalTally
	Rate, Part string
	Link       string
}

type figureView struct {
	Name, Value, Before string
	Link                string // the rows that it counts
}

type countView struct {
	Name string
	N    int
	Link string
}

// domainView is how the mails to one domain fared; its bar shows what of them failed, in hundredths.
type domainView struct {
	statistics.DomainCounts
	Share       string
	Rejected100 string // of the bar: refused for good
	Other100    string // what failed otherwise, after it
	Link        string // the rows that failed
}

func (a *Console) overviewPage(c echo.Context) error {
	w, ctx := layout.Words(c), c.Request().Context()
	values, err := listing.Values(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	by := store.Dimension(values.Get("by"))
	if values.Del("by"); by != "" && !slices.Contains(dimensions, by) {
		return layout.Invalid("by", "invalid", "Codes are told apart by app, purpose, domain, country or carrier.")
	}
	s, asked, given, err := a.stats(ctx, values.Encode(), w.Zone())
	if err != nil {
		return err
	}
	if !given.Has("from") && !given.Has("last") {
		given.Set("last", "24h")
	}
	last := given.Get("last")
	v := overviewView{
		Page: layout.NewPage(c, "overview.title", "overview"), Daily: s.Each > int(time.Hour/time.Second),
		Last: layout.Options(w, "filter.last", "filter.last", last, "1h", "24h", "7d", "30d")[1:], Figures: figures(s, given, w),
		Refusals: counts(s.Total.Refusals, func(name string) (string, string) { return name, address(given, "blocked_by", name) }),
		Failures: counts(s.Total.Failures, func(name string) (string, string) {
			return w.Or("reason", name), address(given, "status", string(store.Failed))
		}),
	}
	paused, _, err := a.Log.PrefixPauses(c.Request().Context(), store.PrefixPauseFilter{Active: true, Limit: 200})
	if err != nil {
		return err
	}
	if len(paused) > 0 {
		v.Prefixes = w.Plural("overview.prefixes", len(paused))
	}
	d := statistics.Drawing{Stretches: s.Stretches, Each: time.Duration(s.Each) * time.Second, W: w, Rows: rowsOfTime(given)}
	v.Sends, v.Became = d.Sends()
	v.Measures, v.Measured = d.Measures()
	for _, d := range dimensions {
		v.By = append(v.By, byView{w.Get("filter." + string(d)), listing.Address("/admin/overview", given, "by", string(d)) + "#codes-title", d == by})
	}
	if by != "" {
		if v.Codes, err = a.conversions(ctx, asked, given, by); err != nil {
			return err
		}
	}
	v.Domains = domainsOf(s.Domains, given)
	if v.Log, err = a.extent(c.Request().Context(), w); err != nil {
		return err
	}
	return a.layout.Show(c, http.StatusOK, "overview", v)
}

// rowsOfTime returns a function for the address of the rows of a part of the time range.
func rowsOfTime(given url.Values) func(from, to time.Time) string {
	return func(from, to time.Time) string {
		part := maps.Clone(given)
		part.Del("last")
		part.Set("from", from.UTC().Format(time.RFC3339))
		return address(part, "to", to.UTC().Format(time.RFC3339))
	}
}

// Chosen reports whether codes are counted by a dimension.
func (v overviewView) Chosen() bool {
	return slices.ContainsFunc(v.By, func(b byView) bool { return b.Chosen })
}

func figures(s statistics.Statistics, given url.Values, w texts.Words) []figureView {
	number := func(n int) string { return strconv.Itoa(n) }
	now, before := s.Total, s.Before
	rows := func(s store.Status) string { return address(given, "status", string(s)) }
	all := []figureView{{w.Get("overview.sent"), number(now.Sent), number(before.Sent), rows(store.Sent)}}
	if now.Lost+before.Lost > 0 {
		all = append(all, figureView{w.Get("overview.lost"), number(now.Lost), number(before.Lost), rows(store.Undelivered)})
	}
	return append(all, []figureView{
		{w.Get("overview.failed"), number(now.Failed), number(before.Failed), rows(store.Failed)},
		{w.Get("overview.unknown"), number(now.Unknown), number(before.Unknown), rows(store.Unknown)},
		{w.Get("overview.refused"), number(now.Refused), number(before.Refused), rows(store.Refused)},
		{w.Get("overview.rate"), statistics.RateOf(now.Rate), statistics.RateOf(before.Rate), ""},
		{w.Get("overview.median"), statistics.TookOf(now.MedianMS, w), statistics.TookOf(before.MedianMS, w), ""},
		{w.Get("overview.p95"), statistics.TookOf(now.P95MS, w), statistics.TookOf(before.P95MS, w), ""},
	}...)
}

func domainsOf(domains []statistics.DomainCounts, given url.Values) (all []domainView) {
	for _, d := range domains {
		part := func(n int) string { return strconv.FormatFloat(100*float64(n)/float64(max(1, d.Sends)), 'f', 1, 64) }
		failed := maps.Clone(given)
		failed.Set("status", string(store.Failed))
		all = append(all, domainView{
			DomainCounts: d, Share: part(d.Failed) + " %", Rejected100: part(d.Rejected), Other100: part(d.Failed - d.Rejected),
			Link: address(failed, "domain", d.Domain),
		})
	}
	return all
}

// counts returns the counts, highest first.
func counts(by map[string]int, of func(string) (text, link string)) (all []countView) {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		text, link := of(name)
		all = append(all, countView{text, by[name], link})
	}
	slices.SortStableFunc(all, func(a, b countView) int { return b.N - a.N })
	return all
}

// extentView is how far the log reaches, and how far the background has come with what is old.
type extentView struct {
	Lines      []string
	Partitions []partitionView
}

type partitionView struct {
	Name         string
	Begins, Ends string // days in UTC; empty: from the beginning, without an end
	Rows, Size   string
}

// extent returns the view of the log's storage.
func (a *Console) extent(ctx context.Context, w texts.Words) (*extentView, error) {
	e, err := a.Extent(ctx)
	if err != nil {
		return nil, err
	}
	v := extentView{Lines: []string{w.Get("extent.empty")}}
	if !e.Oldest.IsZero() {
		v.Lines = []string{w.Get("extent.oldest", "day", w.Clock(e.Oldest).Date())}
	}
	switch {
	case e.Age == 0:
		v.Lines = append(v.Lines, w.Get("extent.ever"))
	case e.Due >= store.MaxDue:
		v.Lines = append(v.Lines, w.Get("extent.kept", "time", w.Wait(e.Age)), w.Get("extent.due.many", "n", strconv.Itoa(store.MaxDue)))
	case e.Due == 0:
		v.Lines = append(v.Lines, w.Get("extent.kept", "time", w.Wait(e.Age)), w.Get("extent.due.none"))
	default:
		v.Lines = append(v.Lines, w.Get("extent.kept", "time", w.Wait(e.Age)), w.Plural("extent.due", e.Due))
	}
	if e.Forgetting > 0 {
		v.Lines = append(v.Lines, w.Plural("extent.forgetting", e.Forgetting))
	}
	if e.Late > 0 {
		v.Lines = append(v.Lines, w.Plural("extent.late", e.Late))
	}
	for _, p := range e.Partitions {
		v.Partitions = append(v.Partitions, partitionView{p.Name, dayOf(p.Begins), dayOf(p.Ends), about(p.Rows), size(p.Bytes)})
	}
	return &v, nil
}

func dayOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.DateOnly)
}

// about returns an estimated number of rows; the database may not have one yet.
func about(n int64) string {
	if n < 0 {
		return "–"
	}
	return strconv.FormatInt(n, 10)
}

// size writes bytes with a binary unit: "512 KiB".
func size(bytes int64) string {
	n, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && n >= 1024 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.0f %s", n, units[0])
}
