package statistics

import (
	"reflect"
	"testing"
	"time"

	"sendcode/internal/texts"
)

// The 95th percentile is a line at its own height, not a part upon the median.
func TestP95IsALine(t *testing.T) {
	measures := func(median, p95 int64) interval {
		return interval{codeMeasures: codeMeasures{MedianMS: &median, P95MS: &p95}}
	}
	d := ChartBuilder{Stretches: []interval{measures(500, 2000), measures(1000, 1500), {}}, Each: time.Hour,
		W:    texts.ForConsole("en"),
		Rows: func(time.Time, time.Time) string { return "" }}
	charts, _ := d.MeasureCharts()
	var got [][]barPart
	for _, bar := range charts[1].Bars {
		got = append(got, bar.Parts)
	}
	want := [][]barPart{
		{{"good", "120.0", "40.0"}, {"still", "0.0", "3.0"}},
		{{"good", "80.0", "80.0"}, {"still", "40.0", "3.0"}},
		nil,
	}
	if charts[1].Top != "2.0 s" || !reflect.DeepEqual(got, want) {
		t.Errorf("top %s, bars %v, want %v", charts[1].Top, got, want)
	}
}
