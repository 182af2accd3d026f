package admin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/audit"
)

// overviewView is what happened lately: numbers beside those of the time before, a chart, and what stood in the way.
type overviewView struct {
	page
	Last     []option
	Figures  []figureView
	Bars     []barView
	Top      string // the number at the chart's top
	Daily    bool
	Refusals []countView // by rule
	Failures []countView // by reason
	Prefixes string      // how many rest now; empty: none
	Domains  []domainView
	Log      *extentView
}

type figureView struct {
	Name, Value, Before string
	Link                string // the rows that it counts
}

// barView is one stretch of time: its numbers for the table, and its parts for the chart, in units of the drawing.
type barView struct {
	At                      clock
	X                       string
	Parts                   []partView
	Sent, Failed, Refused   int
	Unknown, UnderWay, Wide string
}

type partView struct{ Class, Y, Height string }

type countView struct {
	Name string
	N    int
	Link string
}

// domainView is how the mails to one domain fared; its bar shows what of them failed, in hundredths.
type domainView struct {
	domainJSON
	Share       string
	Rejected100 string // of the bar: refused for good
	Other100    string // what failed otherwise, after it
	Link        string // the rows that failed
}

// Size of the chart in units of its drawing.
const (
	chartWidth  = 720.0
	chartHeight = 160.0
)

func (a *Admin) overviewPage(c echo.Context) error {
	s, given, err := a.stats(c)
	if err != nil {
		return err
	}
	w := wordsFor(c.Request())
	if !given.Has("from") && !given.Has("last") {
		given.Set("last", "24h")
	}
	last := given.Get("last")
	v := overviewView{
		page: page{W: w, Title: w.say("overview.title"), In: true, Here: "overview"}, Daily: s.Each > int(time.Hour/time.Second),
		Last: options(w, "filter.last", "filter.last", last, "1h", "24h", "7d", "30d")[1:], Figures: figures(s, given, w),
		Refusals: counts(s.Total.Refusals, func(name string) (string, string) { return name, address(given, "blocked_by", name) }),
		Failures: counts(s.Total.Failures, func(name string) (string, string) {
			return w.or("reason", name), address(given, "status", string(audit.Failed))
		}),
	}
	if v.Prefixes, err = a.prefixesNow(c, w); err != nil {
		return err
	}
	v.Bars, v.Top = bars(s.Stretches)
	v.Domains = domainsOf(s.Domains, given)
	if v.Log, err = a.extent(c.Request().Context(), w); err != nil {
		return err
	}
	return a.pages.show(c, http.StatusOK, "overview", v)
}

func figures(s statsJSON, given url.Values, w words) []figureView {
	number := func(n int) string { return strconv.Itoa(n) }
	rate := func(r *float64) string {
		if r == nil {
			return "–"
		}
		return fmt.Sprintf("%.1f %%", 100**r)
	}
	took := func(ms *int64) string {
		if ms == nil {
			return "–"
		}
		return w.took(max(time.Millisecond, time.Duration(*ms)*time.Millisecond))
	}
	now, before := s.Total, s.Before
	rows := func(s audit.Status) string { return address(given, "status", string(s)) }
	all := []figureView{{w.say("overview.sent"), number(now.Sent), number(before.Sent), rows(audit.Sent)}}
	if now.Lost+before.Lost > 0 {
		all = append(all, figureView{w.say("overview.lost"), number(now.Lost), number(before.Lost), rows(audit.Undelivered)})
	}
	return append(all, []figureView{
		{w.say("overview.failed"), number(now.Failed), number(before.Failed), rows(audit.Failed)},
		{w.say("overview.unknown"), number(now.Unknown), number(before.Unknown), rows(audit.Unknown)},
		{w.say("overview.refused"), number(now.Refused), number(before.Refused), rows(audit.Refused)},
		{w.say("overview.rate"), rate(now.Rate), rate(before.Rate), ""},
		{w.say("overview.median"), took(now.MedianMS), took(before.MedianMS), ""},
		{w.say("overview.p95"), took(now.P95MS), took(before.P95MS), ""},
	}...)
}

func domainsOf(domains []domainJSON, given url.Values) (all []domainView) {
	for _, d := range domains {
		part := func(n int) string { return strconv.FormatFloat(100*float64(n)/float64(max(1, d.Sends)), 'f', 1, 64) }
		failed := maps.Clone(given)
		failed.Set("status", string(audit.Failed))
		all = append(all, domainView{
			domainJSON: d, Share: part(d.Failed) + " %", Rejected100: part(d.Rejected), Other100: part(d.Failed - d.Rejected),
			Link: address(failed, "domain", d.Domain),
		})
	}
	return all
}

// counts are the most frequent first.
func counts(by map[string]int, of func(string) (text, link string)) (all []countView) {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		text, link := of(name)
		all = append(all, countView{text, by[name], link})
	}
	slices.SortStableFunc(all, func(a, b countView) int { return b.N - a.N })
	return all
}

// bars draws what was sent, failed and was refused on top of each other, the highest bar as high as the chart.
func bars(stretches []stretchJSON) (all []barView, top string) {
	highest := 1
	for _, s := range stretches {
		highest = max(highest, s.Sends+s.Refused)
	}
	step := chartWidth / float64(max(1, len(stretches)))
	unit := func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
	for i, s := range stretches {
		at, _ := time.Parse(time.RFC3339, s.At)
		b := barView{
			At: clock{Time: at}, X: unit(float64(i)*step + step*0.1), Wide: unit(step * 0.8), Sent: s.Sent, Failed: s.Failed, Refused: s.Refused,
			Unknown: strconv.Itoa(s.Unknown), UnderWay: strconv.Itoa(s.UnderWay),
		}
		y := chartHeight
		for _, part := range []struct {
			class string
			n     int
		}{{"good", s.Sent}, {"still", s.UnderWay}, {"unsure", s.Unknown}, {"bad", s.Failed}, {"warn", s.Refused}} {
			if part.n > 0 {
				height := chartHeight * float64(part.n) / float64(highest)
				y -= height
				b.Parts = append(b.Parts, partView{part.class, unit(y), unit(height)})
			}
		}
		all = append(all, b)
	}
	return all, strconv.Itoa(highest)
}
