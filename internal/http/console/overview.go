package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
)

// overviewView is the data of the page of statistics. The page shows numbers beside those of the
// previous time range, a chart, failures and refusals.
type overviewView struct {
	layout.Page
	Statistics
	Mistake    layout.FilterMistake // if it is set, the page has only the form
	Last       []layout.FieldOption
	FilterText string      // the filters of the page except the time, in words; empty: none
	UnderWay   *figureView // sends that are not finished now; nil: not known
	Figures    []figureView
	Sends      Chart
	SendsTable Table            // the outcomes of the sends
	Prefixes   string           // how many prefixes are paused now; empty: none
	Conversion []texts.Sentence // a sentence on each app where few codes of strangers are entered
	By         store.Dimension  // the dimension by which the table of codes is grouped
	Codes      []store.ApprovalTally
	Storage    []string // sentences on the oldest rows and on the rows due to be deleted
	Partitions []store.Partition

	query  store.StatsQuery
	values url.Values
}

type figureView struct {
	Name, Value, Before string
	Change              string       // the change since Before, with its sign; empty: unknown
	Better, Worse       bool         // whether the change is good or bad news; both false: neither
	Note                string       // shown in place of Before
	Status              store.Status // the status of the rows that the figure counts; empty if the figure counts no rows
}

type nameAndCount struct {
	Name string
	N    int
}

// approvalDimensions are the ways in which the table of codes can be grouped, in the order of the
// page. The list of sends can also be filtered by each of them.
var approvalDimensions = []store.Dimension{store.ByCountry, store.ByCarrier, store.ByDomain, store.ByApp, store.ByPurpose}

func (console *Console) overviewPage(c echo.Context) error {
	w, ctx := layout.Words(c), c.Request().Context()
	v := overviewView{Page: layout.NewPage(c, "overview.title", "overview")}
	long, cancel := statsContext(c)
	defer cancel()
	raw := c.Request().URL.RawQuery
	values, by, err := parseDimension(raw)
	if err == nil {
		v.By = by
		v.Statistics, v.query, v.values, err = console.stats(long, values.Encode(), w.Zone())
	}
	if mistake, _, ok := layout.FilterMistakeOf(raw, err, w); ok {
		v.Mistake, v.Last = mistake, timeSpanOptions("24h", w)
		return console.layout.Show(c, mistake.StatusOr(http.StatusOK), "overview", v)
	}
	if err != nil {
		return err
	}
	filters := maps.Clone(v.values)
	filters.Del("last")
	v.FilterText = layout.FilterTexts(filters, w)
	if !v.values.Has("from") && !v.values.Has("last") {
		v.values.Set("last", "24h")
	}
	v.Last = timeSpanOptions(v.values.Get("last"), w)
	v.Figures = figureViews(v.Total, v.Before, w)
	if s := console.Status(ctx); s.Counted {
		f := figureView{Name: w.Get("overview.under_way"), Value: strconv.Itoa(s.UnderWay.Sends), Status: store.Queued}
		if s.UnderWay.Sends > 0 {
			f.Note = w.Get("overview.oldest", "age", w.Wait(s.UnderWay.Age.Truncate(time.Second)))
		}
		v.UnderWay = &f
	}
	paused, _, err := console.DB.PrefixPauses(ctx, store.PrefixPauseFilter{Active: true, Limit: 200})
	if err != nil {
		return err
	}
	if len(paused) > 0 {
		v.Prefixes = w.Plural("overview.prefixes", len(paused))
	}
	low, err := console.DB.LowConversions(ctx)
	if err != nil {
		return err
	}
	for _, l := range low {
		v.Conversion = append(v.Conversion, w.Sentence("overview.conversion", texts.Strong("app", l.App),
			texts.AtTime("since", l.Since), texts.Plain("sends", strconv.Itoa(l.Sends)), texts.Plain("approved", strconv.Itoa(l.Approved))))
	}
	d := ChartBuilder{Intervals: v.Intervals, IntervalLength: v.query.IntervalLength, W: w, Rows: v.rowsAddressBetween}
	v.Sends, v.SendsTable = d.SendsChart()
	dimensions := []store.Dimension{v.By}
	if v.By == "" { // the dimension with more codes: the domain for mails, the country for text messages
		dimensions = []store.Dimension{store.ByDomain, store.ByCountry}
	}
	mostOpened := -1
	for _, dimension := range dimensions {
		codes, err := console.DB.ApprovalsBy(long, v.query, dimension)
		if err != nil {
			return err
		}
		opened := 0
		for _, line := range codes {
			opened += line.Opened
		}
		if opened > mostOpened {
			mostOpened, v.By, v.Codes = opened, dimension, codes
		}
	}
	status, err := console.StorageStatus(ctx)
	if err != nil {
		return err
	}
	v.Storage, v.Partitions = storageTexts(status, w), status.Partitions
	return console.layout.Show(c, http.StatusOK, "overview", v)
}

// timeSpanOptions returns the choices of the field last, without the empty one.
func timeSpanOptions(chosen string, w texts.Words) []layout.FieldOption {
	return layout.FieldOptions(w, "filter.last", "filter.last", chosen, timeSpanChoices...)[1:]
}

// Dimensions returns the ways in which the table of codes can be grouped.
func (v overviewView) Dimensions() []store.Dimension { return approvalDimensions }

// Daily reports whether the chart has a bar for each day, not for each hour.
func (v overviewView) Daily() bool { return v.query.IntervalLength > time.Hour }

// GroupedByAddress returns the address of this page with the table of codes grouped by a dimension.
func (v overviewView) GroupedByAddress(d store.Dimension) string {
	return layout.ListAddress("/admin/overview", v.values, "by", string(d)) + "#codes-title"
}

// RowsAddress returns the address of the list of sends for the page's time range. pairs has names
// and values in turn. RowsAddress adds them to the parameters of the address.
func (v overviewView) RowsAddress(pairs ...string) string {
	given := maps.Clone(v.values)
	for i := 0; i+1 < len(pairs); i += 2 {
		given.Set(pairs[i], pairs[i+1])
	}
	return listAddress(given, "", "")
}

// CodesAddress returns the address of a list of sends. The list has the sends that a line of the
// table of codes counts. value is the line's value of the dimension, such as an app or a purpose.
func (v overviewView) CodesAddress(value string) string {
	v.values = maps.Clone(v.values)
	v.values.Set(string(v.By), value)
	return v.rowsAddressBetween(v.query.From, v.query.To)
}

// rowsAddressBetween returns the address of the list of sends from one time to another, with the
// page's other filters.
func (v overviewView) rowsAddressBetween(from, to time.Time) string {
	part := maps.Clone(v.values)
	part.Del("last")
	part.Set("from", from.UTC().Format(time.RFC3339))
	return listAddress(part, "to", to.UTC().Format(time.RFC3339))
}

// GroupName returns the name of a line in the table of codes. For a country, it is the name in the
// reader's language.
func (v overviewView) GroupName(value string) string {
	if v.By != store.ByCountry {
		return value
	}
	return cmp.Or(v.W.Country(value), value)
}

// minForPercent is the smallest number for which a percentage is meaningful.
const minForPercent = 20

// HasPercent reports whether a percentage of all is shown.
func (v overviewView) HasPercent(all int) bool { return all >= minForPercent }

// Percent returns n as a percentage of all, to one decimal place.
func (v overviewView) Percent(n, all int) string {
	return strconv.FormatFloat(100*float64(n)/float64(max(1, all)), 'f', 1, 64)
}

// HighestFirst returns counts, the highest first.
func (v overviewView) HighestFirst(counts map[string]int) (all []nameAndCount) {
	for name, n := range counts {
		all = append(all, nameAndCount{name, n})
	}
	slices.SortFunc(all, func(a, b nameAndCount) int { return cmp.Or(b.N-a.N, strings.Compare(a.Name, b.Name)) })
	return all
}

// FormatBytes writes bytes with a binary unit: "512 KiB".
func (v overviewView) FormatBytes(bytes int64) string {
	n, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && n >= 1024 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.0f %s", n, units[0])
}

func figureViews(now, before Total, w texts.Words) (all []figureView) {
	// add appends a figure. good is the change of the figure divided by a typical change by chance.
	// It is positive if the change is good news, and negative if it is bad news.
	add := func(key, value, earlier, change string, good float64, rows store.Status) {
		all = append(all, figureView{
			Name: w.Get(key), Value: value, Before: earlier, Change: change, Better: change != "" && good > 1,
			Worse: change != "" && good < -1, Status: rows,
		})
	}
	// The random change of a count is about the square root of the count. Here, good is -1 if a
	// rise is bad news, and 0 if a rise is neither good nor bad news.
	count := func(key string, now, before int, good float64, rows store.Status) {
		rise := float64(now-before) / (2 * math.Sqrt(float64(max(1, now+before))))
		add(key, strconv.Itoa(now), strconv.Itoa(before), percentChange(float64(now), float64(before), before), good*rise, rows)
	}
	count("overview.sent", now.Sent, before.Sent, 0, store.Sent)
	count("overview.lost", now.Undelivered, before.Undelivered, -1, store.Undelivered)
	count("overview.failed", now.Failed, before.Failed, -1, store.Failed)
	count("overview.unknown", now.Unknown, before.Unknown, -1, store.Unknown)
	count("overview.refused", now.Refused, before.Refused, 0, store.Refused)
	count("overview.reported", now.Reported, before.Reported, -1, "")
	var points string
	var good float64
	rate := func(t Total) string {
		if t.Opened < minForPercent {
			return "–"
		}
		return formatRate(t.Rate)
	}
	if now.Opened >= minForPercent && before.Opened >= minForPercent {
		rise := *now.Rate - *before.Rate
		points = formatSigned(100*rise, 1) + " " + w.Get("overview.points")
		good = rise / math.Sqrt(1/float64(now.Opened)+1/float64(before.Opened)) // in two standard deviations, for rates of one half
	}
	add("overview.rate", rate(now), rate(before), points, good, "")
	// This figure has the median and the 95th percentile of delivery times, but only the change of
	// the median. A change by a quarter is beyond the usual variation of servers.
	var change string
	good = 0
	if now.MedianMS != nil && before.MedianMS != nil {
		change = percentChange(float64(*now.MedianMS), float64(*before.MedianMS), min(now.Sent, before.Sent))
		good = float64(*before.MedianMS-*now.MedianMS) / (0.25 * float64(max(1, *before.MedianMS)))
	}
	took := func(t Total) string { return formatTook(t.MedianMS, w) + " · " + formatTook(t.P95MS, w) }
	add("overview.took", took(now), took(before), change, good, "")
	return all
}

// percentChange returns the change from before to now in percent, with its sign. It returns "" if
// before is zero, or if counts, the number of rows, is less than minForPercent.
func percentChange(now, before float64, counts int) string {
	if before == 0 || counts < minForPercent {
		return ""
	}
	return formatSigned(100*(now-before)/before, 0) + " %"
}

// formatSigned formats a difference with its sign; zero as ±0.
func formatSigned(d float64, decimals int) string {
	text := strconv.FormatFloat(math.Abs(d), 'f', decimals, 64)
	switch {
	case strings.Trim(text, "0.") == "":
		return "±0"
	case d < 0:
		return "−" + text
	}
	return "+" + text
}

// storageTexts returns sentences on how far back the database reaches, and on how much is due to be
// deleted.
func storageTexts(s store.StorageStatus, w texts.Words) []string {
	lines := []string{w.Get("extent.empty")}
	if !s.Oldest.IsZero() {
		lines = []string{w.Get("extent.oldest", "day", w.Clock(s.Oldest).Date())}
	}
	if s.Age == 0 {
		lines = append(lines, w.Get("extent.ever"))
	} else {
		lines = append(lines, w.Get("extent.kept", "time", w.Wait(s.Age)))
		switch {
		case s.Due >= store.MaxDueCounted:
			lines = append(lines, w.Get("extent.due.many", "n", strconv.Itoa(store.MaxDueCounted)))
		case s.Due > 0:
			lines = append(lines, w.Plural("extent.due", s.Due))
		}
	}
	if s.Forgetting > 0 {
		lines = append(lines, w.Plural("extent.forgetting", s.Forgetting))
	}
	if s.ForgettingDue > 0 {
		lines = append(lines, w.Plural("extent.late", s.ForgettingDue))
	}
	return lines
}
