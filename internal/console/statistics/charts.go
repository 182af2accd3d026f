package statistics

import (
	"fmt"
	"strconv"
	"time"

	"sendcode/internal/texts"
)

// Chart is one drawing over all stretches of a time, with what its colours stand for.
type Chart struct {
	Title string
	Alt   string
	Top   string // says what a bar as high as the chart stands for
	Bars  []barView
	Keys  []keyView
}

// barView is one stretch of time in units of the drawing.
type barView struct {
	X, Wide string
	Parts   []partView
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

// drawn stacks each stretch's amounts, the highest bar as high as the chart, which is at least 1.
func drawn(stretches []Interval, of func(Interval) []amount) (bars []barView, highest float64) {
	highest = 1
	for _, s := range stretches {
		sum := 0.0
		for _, a := range of(s) {
			sum += a.n
		}
		highest = max(highest, sum)
	}
	step := chartWidth / float64(max(1, len(stretches)))
	unit := func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
	for i, s := range stretches {
		bar, y := barView{X: unit(float64(i)*step + step*0.1), Wide: unit(step * 0.8)}, chartHeight
		for _, a := range of(s) {
			if a.n > 0 {
				height := chartHeight * a.n / highest
				y -= height
				bar.Parts = append(bar.Parts, partView{a.class, unit(y), unit(height)})
			}
		}
		bars = append(bars, bar)
	}
	return bars, highest
}

// SendsChart shows what became of the sends.
func SendsChart(stretches []Interval, w texts.Words) Chart {
	bars, most := drawn(stretches, func(s Interval) []amount {
		return []amount{
			{"good", float64(s.Sent)}, {"still", float64(s.UnderWay)}, {"unsure", float64(s.Unknown)}, {"bad", float64(s.Failed)},
			{"warn", float64(s.Refused)},
		}
	})
	return Chart{
		Alt: w.Get("overview.chart"), Top: w.Get("overview.unit.n", "n", strconv.Itoa(int(most))), Bars: bars, Keys: []keyView{
			{"good", w.Get("overview.sent")}, {"bad", w.Get("overview.failed")}, {"warn", w.Get("overview.refused")},
			{"unsure", w.Get("overview.unknown")}, {"still", w.Get("overview.underway")},
		},
	}
}

// MeasuresCharts show how many codes were approved, and how long sending took.
func MeasuresCharts(stretches []Interval, w texts.Words) []Chart {
	approved, _ := drawn(stretches, func(s Interval) []amount {
		if s.Rate == nil {
			return nil
		}
		return []amount{{"good", *s.Rate}}
	})
	times, longest := drawn(stretches, func(s Interval) []amount {
		if s.P95MS == nil {
			return nil
		}
		return []amount{{"good", float64(*s.MedianMS)}, {"still", float64(*s.P95MS - *s.MedianMS)}}
	})
	top := func(text string) string { return w.Get("overview.unit.n", "n", text) }
	return []Chart{
		{Title: w.Get("overview.rate"), Alt: w.Get("overview.chart.rate"), Top: top("100 %"), Bars: approved},
		{Title: w.Get("overview.took"), Alt: w.Get("overview.chart.took"), Top: top(w.Took(time.Duration(longest) * time.Millisecond)),
			Bars: times, Keys: []keyView{
				{"good", w.Get("overview.half")}, {"still", w.Get("overview.most")},
			}},
	}
}

// SendsTable has the numbers of the first.
func SendsTable(stretches []Interval, w texts.Words) Table {
	return numbers(stretches, w, []string{"overview.sent", "overview.failed", "overview.unknown", "overview.underway", "overview.refused"},
		func(s Interval) []string {
			return []string{strconv.Itoa(s.Sent), strconv.Itoa(s.Failed), strconv.Itoa(s.Unknown), strconv.Itoa(s.UnderWay), strconv.Itoa(s.Refused)}
		})
}

// MeasuresTable has the numbers of the others.
func MeasuresTable(stretches []Interval, w texts.Words) Table {
	return numbers(stretches, w, []string{"overview.rate", "overview.half", "overview.most"}, func(s Interval) []string {
		return []string{RateOf(s.Rate), TookOf(s.MedianMS, w), TookOf(s.P95MS, w)}
	})
}

// numbers has a column for each of the words' keys.
func numbers(stretches []Interval, w texts.Words, keys []string, of func(Interval) []string) Table {
	v := Table{Open: w.Get("overview.numbers"), Time: w.Get("overview.time")}
	for _, key := range keys {
		v.Heads = append(v.Heads, w.Get(key))
	}
	for _, s := range stretches {
		at, _ := time.Parse(time.RFC3339, s.At)
		row := numbersRow{At: w.Clock(at)}
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
