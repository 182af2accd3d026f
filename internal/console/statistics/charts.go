package statistics

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/texts"
)

// Chart is one drawing over all stretches of a time, with what its colours stand for.
type Chart struct {
	Title     string
	Alt       string
	Top, Half string // what the grid's two lines stand for
	Bars      []barView
	Keys      []keyView
}

// barView is one stretch of time in units of the drawing. It leads to the rows that it counts.
type barView struct {
	X, Wide string
	Parts   []partView
	Title   string // its time and its numbers
	Link    string
	Mark    string // on the axis below it; empty: it has none
	Minor   bool   // the mark is left out where there is little room
}

type partView struct{ Class, Y, Height string }

type keyView struct{ Class, Name string }

// Table is the table that has the charts' numbers, a row for each stretch of time.
type Table struct {
	Open  string // what the fold that holds it says
	Time  string
	Heads []string
	Rows  []numbersRow
}

type numbersRow struct {
	At    texts.Clock
	Link  string
	Cells []cellView
}

// cellView says again what it is a number of, for where the screen is too narrow for columns.
type cellView struct{ Head, Text string }

// Size of a chart in units of its drawing.
const (
	chartWidth  = 720.0
	chartHeight = 160.0
)

// amount is a part of a bar, from the bottom upwards.
type amount struct {
	class string
	n     float64
}

// Drawing is what all charts of a page have in common.
type Drawing struct {
	Stretches []Interval
	Each      time.Duration
	W         texts.Words
	Rows      func(from, to time.Time) string // address of the rows of a time
}

// bars stack each stretch's amounts; the highest is at most as high as the chart, which stands for top.
func (d Drawing) bars(of func(Interval) []amount, said func(Interval) string) (bars []barView, top float64) {
	highest := 1.0
	for _, s := range d.Stretches {
		highest = max(highest, height(of(s)))
	}
	top = round(highest)
	step := chartWidth / float64(max(1, len(d.Stretches)))
	unit := func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
	for i, s := range d.Stretches {
		bar, y := barView{X: unit(float64(i)*step + step*0.1), Wide: unit(step * 0.8), Link: d.Rows(s.begins, s.ends)}, chartHeight
		bar.Mark, bar.Minor = d.mark(i, s.begins)
		bar.Title = d.W.Get("overview.bar", "time", d.span(s.begins), "numbers", said(s))
		for _, a := range of(s) {
			if a.n > 0 {
				high := chartHeight * a.n / top
				y -= high
				bar.Parts = append(bar.Parts, partView{a.class, unit(y), unit(high)})
			}
		}
		bars = append(bars, bar)
	}
	return bars, top
}

func height(all []amount) (sum float64) {
	for _, a := range all {
		sum += a.n
	}
	return sum
}

// round returns the next number whose half can be read on a grid.
func round(n float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, even := range []float64{2, 4, 6, 8, 10} {
			if n <= even*unit {
				return even * unit
			}
		}
	}
}

// mark returns the label of the axis below a stretch: hours where there are few, each where they are very few, else days, the last one
// among them.
func (d Drawing) mark(i int, at time.Time) (text string, minor bool) {
	local, back := at.In(d.W.Zone()), len(d.Stretches)-1-i
	switch {
	case d.Each >= 24*time.Hour && len(d.Stretches) <= 8:
		return local.Format("01-02"), back%2 == 1
	case d.Each >= 24*time.Hour && back%5 == 0:
		return local.Format("01-02"), back%10 == 5
	case d.Each < 24*time.Hour && local.Hour() == 0:
		return local.Format("01-02"), false
	case len(d.Stretches) <= 4, d.Each < 24*time.Hour && len(d.Stretches) <= 30 && local.Hour()%6 == 0:
		return local.Format("15:04"), local.Hour()%12 == 6
	}
	return "", false
}

// span returns a stretch in words: "14:00–15:00", or the day.
func (d Drawing) span(at time.Time) string {
	from := at.In(d.W.Zone())
	if d.Each >= 24*time.Hour {
		return from.Format(time.DateOnly)
	}
	return from.Format("01-02 15:04–") + from.Add(d.Each).Format("15:04")
}

// Sends returns the chart of what became of the sends.
func (d Drawing) Sends() Chart {
	w := d.W
	bars, most := d.bars(func(s Interval) []amount {
		return []amount{
			{"good", float64(s.Sent)}, {"still", float64(s.UnderWay)}, {"unsure", float64(s.Unknown)}, {"bad", float64(s.Failed)},
			{"warn", float64(s.Refused)},
		}
	}, func(s Interval) string {
		return d.numbers("overview.sent", s.Sent, "overview.failed", s.Failed, "overview.unknown", s.Unknown, "overview.underway", s.UnderWay,
			"overview.refused", s.Refused)
	})
	return Chart{
		Alt: w.Get("overview.chart"), Top: strconv.Itoa(int(most)), Half: strconv.Itoa(int(most / 2)), Bars: bars, Keys: []keyView{
			{"good", w.Get("overview.sent")}, {"bad", w.Get("overview.failed")}, {"warn", w.Get("overview.refused")},
			{"unsure", w.Get("overview.unknown")}, {"still", w.Get("overview.underway")},
		},
	}
}

// numbers names those that are not 0: pairs are a text's key and a number.
func (d Drawing) numbers(pairs ...any) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != 0 {
			parts = append(parts, fmt.Sprint(d.W.Get(pairs[i].(string)), " ", pairs[i+1]))
		}
	}
	return cmp.Or(strings.Join(parts, d.W.Get("list.comma")), "0")
}

// Measures returns the charts of how many codes were approved, and how long sending took.
func (d Drawing) Measures() []Chart {
	w := d.W
	approved, _ := d.bars(func(s Interval) []amount {
		if s.Rate == nil {
			return nil
		}
		return []amount{{"good", 2 * *s.Rate}} // of a chart that is 2 high at least
	}, func(s Interval) string { return RateOf(s.Rate) })
	times, longest := d.bars(func(s Interval) []amount {
		if s.P95MS == nil {
			return nil
		}
		return []amount{{"good", float64(*s.MedianMS)}, {"still", float64(*s.P95MS - *s.MedianMS)}}
	}, func(s Interval) string {
		return w.Get("overview.half") + " " + TookOf(s.MedianMS, w) + w.Get("list.comma") + w.Get("overview.most") + " " + TookOf(s.P95MS, w)
	})
	took := func(ms float64) string { return w.Took(time.Duration(ms) * time.Millisecond) }
	return []Chart{
		{Title: w.Get("overview.rate"), Alt: w.Get("overview.chart.rate"), Top: "100 %", Half: "50 %", Bars: approved},
		{Title: w.Get("overview.took"), Alt: w.Get("overview.chart.took"), Top: took(longest), Half: took(longest / 2),
			Bars: times, Keys: []keyView{
				{"good", w.Get("overview.half")}, {"still", w.Get("overview.most")},
			}},
	}
}

// SendsTable returns the numbers of Sends as a table.
func (d Drawing) SendsTable() Table {
	return d.table([]string{"overview.sent", "overview.failed", "overview.unknown", "overview.underway", "overview.refused"},
		func(s Interval) []string {
			return []string{strconv.Itoa(s.Sent), strconv.Itoa(s.Failed), strconv.Itoa(s.Unknown), strconv.Itoa(s.UnderWay), strconv.Itoa(s.Refused)}
		})
}

// MeasuresTable returns the numbers of Measures as a table.
func (d Drawing) MeasuresTable() Table {
	return d.table([]string{"overview.rate", "overview.half", "overview.most"}, func(s Interval) []string {
		return []string{RateOf(s.Rate), TookOf(s.MedianMS, d.W), TookOf(s.P95MS, d.W)}
	})
}

// table has a column for each of the words' keys.
func (d Drawing) table(keys []string, of func(Interval) []string) Table {
	v := Table{Open: d.W.Get("overview.numbers"), Time: d.W.Get("overview.time")}
	for _, key := range keys {
		v.Heads = append(v.Heads, d.W.Get(key))
	}
	for _, s := range d.Stretches {
		row := numbersRow{At: d.W.Clock(s.begins), Link: d.Rows(s.begins, s.ends)}
		for i, text := range of(s) {
			row.Cells = append(row.Cells, cellView{v.Heads[i], text})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// RateOf writes a share; a dash where there is none.
func RateOf(rate *float64) string {
	if rate == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100**rate)
}

// TookOf writes milliseconds; a dash where there are none.
func TookOf(ms *int64, w texts.Words) string {
	if ms == nil {
		return "–"
	}
	return w.Took(max(time.Millisecond, time.Duration(*ms)*time.Millisecond))
}
