package admin

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
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

// Size of the chart in units of its drawing.
const (
	chartWidth  = 720.0
	chartHeight = 160.0
)

func (a *Admin) overviewPage(c echo.Context) error {
	s, err := a.stats(c)
	if err != nil {
		return err
	}
	w := wordsFor(c.Request())
	last := or(c.QueryParam("last"), "24h")
	v := overviewView{
		page: page{W: w, Title: w.say("overview.title"), In: true, Here: "overview"}, Daily: s.Each > int(time.Hour/time.Second),
		Last: options(w, "filter.last", "filter.last", last, "1h", "24h", "7d", "30d")[1:], Figures: figures(s, last, w),
		Refusals: counts(s.Total.Refusals, func(name string) (string, string) { return name, "/admin?last=" + last + "&blocked_by=" + name }),
		Failures: counts(s.Total.Failures, func(name string) (string, string) {
			return w.or("reason", name), "/admin?last=" + last + "&status=failed"
		}),
	}
	v.Bars, v.Top = bars(s.Stretches)
	return a.pages.show(c, http.StatusOK, "overview", v)
}

func figures(s statsJSON, last string, w words) []figureView {
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
	now, before, rows := s.Total, s.Before, "/admin?last="+last
	return []figureView{
		{w.say("overview.sent"), number(now.Sent), number(before.Sent), rows + "&status=sent"},
		{w.say("overview.failed"), number(now.Failed), number(before.Failed), rows + "&status=failed"},
		{w.say("overview.unknown"), number(now.Unknown), number(before.Unknown), rows + "&status=unknown"},
		{w.say("overview.refused"), number(now.Refused), number(before.Refused), rows + "&status=refused"},
		{w.say("overview.rate"), rate(now.Rate), rate(before.Rate), ""},
		{w.say("overview.median"), took(now.MedianMS), took(before.MedianMS), ""},
		{w.say("overview.p95"), took(now.P95MS), took(before.P95MS), ""},
	}
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
