package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// table collects the runs of both programs, by the number of callers.
type table struct {
	callers []int
	runs    map[string]map[int][]result
}

func newTable(callers []int) *table {
	return &table{callers: callers, runs: map[string]map[int][]result{"floor": {}, "sendcode": {}}}
}

func (t *table) add(name string, callers int, r result) {
	t.runs[name][callers] = append(t.runs[name][callers], r)
}

// print compares round by round: what disturbed one run most likely disturbed its neighbour.
func (t *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "callers\tfloor, sends/s\tsendcode, sends/s\tratio\tleast\tmost\t202 p50\tp99\tfloor p50\tp99\t")
	for _, n := range t.callers {
		floor, service := t.runs["floor"][n], t.runs["sendcode"][n]
		ratios := make([]float64, len(floor))
		for i := range floor {
			ratios[i] = service[i].rate() / floor[i].rate()
		}
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%s\t%s\t%s\t%s\t\n", n, median(rates(floor)), median(rates(service)),
			median(ratios), slices.Min(ratios), slices.Max(ratios),
			ms(quantile(service, .5)), ms(quantile(service, .99)), ms(quantile(floor, .5)), ms(quantile(floor, .99)))
	}
	_ = w.Flush()
	t.printUsage(out)
}

// printUsage says what a send costs in processor time, by program: where all of them share the processors, the sum is
// what decides.
func (t *table) printUsage(out io.Writer) {
	fmt.Fprintf(out, "\nProcessor time for each send:\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "callers\t\titself\tPostgres\tRedis\tcallers and mail server\t")
	for _, n := range t.callers {
		for _, name := range []string{"floor", "sendcode"} {
			fmt.Fprintf(w, "%d\t%s\t", n, name)
			for _, part := range []string{name, "Postgres", "Redis", "callers and mail server"} {
				var each []float64
				for _, r := range t.runs[name][n] {
					each = append(each, float64(r.each[part]))
				}
				fmt.Fprintf(w, "%s\t", ms(time.Duration(median(each))))
			}
			fmt.Fprintln(w)
		}
	}
	_ = w.Flush()
}

func rates(runs []result) (list []float64) {
	for _, r := range runs {
		list = append(list, r.rate())
	}
	return list
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func quantile(runs []result, q float64) time.Duration {
	var all []time.Duration
	for _, r := range runs {
		all = append(all, r.answers...)
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }
