package console

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/base/texts"
)

// Chart is a drawing of all intervals of a time range, with a legend of its colours.
type Chart struct {
	Alt       string
	Top, Half string // the values of the grid's two lines
	Bars      []barView
	Keys      []legendEntry
}

// barView is the bar of one interval, in units of the drawing. It links to the list of the rows
// that it counts.
type barView struct {
	X, Wide string
	Parts   []barPart
	Title   string // its time and its numbers
	Link    string
	Mark    string // the label on the axis below the bar; empty: the bar has none
	Minor   bool   // the mark is left out where there is little room
}

type barPart struct{ Class, Y, Height string }

type legendEntry struct{ Class, Name string }

// Table has the numbers of a chart, with one row for each interval.
type Table struct {
	W     texts.Words
	Heads []string
	Rows  []tableRow
}

type tableRow struct {
	At    texts.DisplayTime
	Link  string
	Cells []string
}

// These are the sizes of a chart, in units of the drawing.
const (
	chartWidth  = 720.0
	chartHeight = 160.0
)

// barAmount is one part of a bar. Each part is drawn on top of the parts before it.
type barAmount struct {
	class string
	n     float64
}

// chartedOutcomes lists the outcomes of requests that a chart shows. Bars, legend and table have
// the outcomes in this order.
var chartedOutcomes = []struct {
	class, key string
	of         func(sendCounts) int
}{
	{"good", "overview.sent", func(c sendCounts) int { return c.Sent }},
	{"still", "overview.underway", func(c sendCounts) int { return c.UnderWay }},
	{"unsure", "overview.unknown", func(c sendCounts) int { return c.Unknown }},
	{"bad", "overview.failed", func(c sendCounts) int { return c.Failed }},
	{"warn", "overview.refused", func(c sendCounts) int { return c.Refused }},
}

// ChartBuilder makes the chart of a page.
type ChartBuilder struct {
	Intervals      []interval
	IntervalLength time.Duration
	W              texts.Words
	Rows           func(from, to time.Time) string // returns the address of the rows between two times
}

// bars returns a bar for each interval, with the amounts of the interval stacked. top is the value
// at the upper edge of the chart. No bar is higher than top.
func (c ChartBuilder) bars(of func(interval) (stack []barAmount, said string)) (bars []barView, top float64) {
	highest := 1.0
	for _, s := range c.Intervals {
		sum := 0.0
		stack, _ := of(s)
		for _, a := range stack {
			sum += a.n
		}
		highest = max(highest, sum)
	}
	top = roundUpToGrid(1.1 * highest) // at least a tenth of the highest bar stays free above it
	step := chartWidth / float64(max(1, len(c.Intervals)))
	unit := func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
	for i, s := range c.Intervals {
		stack, said := of(s)
		bar, y := barView{X: unit(float64(i)*step + step*0.1), Wide: unit(step * 0.8), Link: c.Rows(s.begins, s.ends)},
			chartHeight
		bar.Mark, bar.Minor = c.axisLabel(i, s.begins)
		bar.Title = c.W.Get("overview.bar", "time", c.intervalText(s.begins), "numbers", said)
		for _, a := range stack {
			if high := chartHeight * a.n / top; a.n > 0 {
				y -= high
				bar.Parts = append(bar.Parts, barPart{a.class, unit(y), unit(high)})
			}
		}
		bars = append(bars, bar)
	}
	return bars, top
}

// roundUpToGrid returns the value at the top of a chart for values up to n. The value is 2, 4, 6, 8
// or 10 times a power of ten. The chart also has a line at half of that value.
func roundUpToGrid(n float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, even := range []float64{2, 4, 6, 8, 10} {
			if n <= even*unit {
				return even * unit
			}
		}
	}
}

// axisLabel returns the label below the bar of an interval. If the bar has no label, the result is
// "". If minor is true, a narrow chart may leave the label out.
//
// A chart of up to 8 days has a label for each day. A chart of more days has a label for every
// fifth day, counted back from the last day. A chart of up to 4 hours has a label for each hour. A
// chart of up to 30 hours has a label for every sixth hour. In any chart of hours, midnight has a
// label.
func (c ChartBuilder) axisLabel(i int, at time.Time) (text string, minor bool) {
	local, back := at.In(c.W.Zone()), len(c.Intervals)-1-i
	switch {
	case c.IntervalLength >= 24*time.Hour && len(c.Intervals) <= 8:
		return local.Format("01-02"), back%2 == 1
	case c.IntervalLength >= 24*time.Hour && back%5 == 0:
		return local.Format("01-02"), back%10 == 5
	case c.IntervalLength < 24*time.Hour && local.Hour() == 0:
		return local.Format("15:04"), false
	case len(c.Intervals) <= 4, c.IntervalLength < 24*time.Hour && len(c.Intervals) <= 30 && local.Hour()%6 == 0:
		return local.Format("15:04"), local.Hour()%12 == 6
	}
	return "", false
}

// intervalText returns the time of an interval, for example "01-31 14:00–15:00". For an interval of
// a day, it returns the date, for example "2026-01-31".
func (c ChartBuilder) intervalText(at time.Time) string {
	from := at.In(c.W.Zone())
	if c.IntervalLength >= 24*time.Hour {
		return from.Format(time.DateOnly)
	}
	return from.Format("01-02 15:04–") + from.Add(c.IntervalLength).Format("15:04")
}

// SendsChart returns a chart of the outcomes of sends, and a table of its numbers.
func (c ChartBuilder) SendsChart() (Chart, Table) {
	bars, highest := c.bars(func(s interval) (stack []barAmount, said string) {
		var parts []string
		for _, o := range chartedOutcomes {
			n := o.of(s.sendCounts)
			stack = append(stack, barAmount{o.class, float64(n)})
			if n > 0 {
				parts = append(parts, fmt.Sprint(c.W.Get(o.key), " ", n))
			}
		}
		return stack, cmp.Or(strings.Join(parts, c.W.Get("list.comma")), "0")
	})
	chart := Chart{
		Alt: c.W.Get("overview.chart"), Top: strconv.Itoa(int(highest)), Half: strconv.Itoa(int(highest / 2)),
		Bars: bars,
	}
	var heads []string
	for _, o := range chartedOutcomes {
		chart.Keys = append(chart.Keys, legendEntry{o.class, c.W.Get(o.key)})
		heads = append(heads, c.W.Get(o.key))
	}
	return chart, c.table(heads, func(s interval) (cells []string) {
		for _, o := range chartedOutcomes {
			cells = append(cells, strconv.Itoa(o.of(s.sendCounts)))
		}
		return cells
	})
}

func (c ChartBuilder) table(heads []string, of func(interval) []string) Table {
	v := Table{W: c.W, Heads: heads}
	for _, s := range c.Intervals {
		v.Rows = append(v.Rows, tableRow{At: c.W.Clock(s.begins), Link: c.Rows(s.begins, s.ends), Cells: of(s)})
	}
	return v
}

// formatRate returns a share as a percentage; a dash for nil.
func formatRate(rate *float64) string {
	if rate == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100**rate)
}

// formatTook returns milliseconds in words; a dash for nil.
func formatTook(ms *int64, w texts.Words) string {
	if ms == nil {
		return "–"
	}
	return w.Elapsed(max(time.Millisecond, time.Duration(*ms)*time.Millisecond))
}
