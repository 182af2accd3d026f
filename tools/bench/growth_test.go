//go:build nightly

package bench

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/golden"
)

// growth is what so many sends a day need, beside the metric that shows it.
func growth(u units, sends ...float64) string {
	head := []string{"a day", "seen as"}
	for _, n := range sends {
		head = append(head, whole(n/1e6)+"M sends")
	}
	g, processors := newGrid(head...), func(n, each float64) string { return fmt.Sprintf("%.2g", atPeak(n, each)) }
	for _, line := range []struct {
		what, metric string
		of           func(sends float64) string
	}{
		{"sends kept", "sendcode_database_sends", func(n float64) string { return whole(n*(retention+7)/1e6) + "M" }},
		{"the database", "sendcode_database_bytes",
			func(n float64) string { return size(n * u.row * (retention + 7)) }},
		{"… a week of it", "sendcode_database_bytes", func(n float64) string { return size(n * u.row * 7) }},
		{"memory of Redis", "sendcode_redis_memory_bytes", func(n float64) string { return size(n * u.key) }},
		{"WAL a day, at most", "the archive's size",
			func(n float64) string { return size(n * (u.wal + scattered*pageSize)) }},
		{"sends a second, peak", "Sends by outcome", func(n float64) string { return number(peakFactor * n / day) }},
		{"processors, the program", "Processor and memory", func(n float64) string { return processors(n, u.program) }},
		{"processors, Postgres", "the machine", func(n float64) string { return processors(n, u.postgres) }},
		{"processors, Redis", "the machine", func(n float64) string { return processors(n, u.redis) }},
	} {
		cells := []string{line.what, line.metric}
		for _, n := range sends {
			cells = append(cells, line.of(n))
		}
		g.add(cells...)
	}
	return g.String()
}

// atPeak is how many processors the busiest second needs where a send takes so many µs.
func atPeak(sends, each float64) float64 { return peakFactor * sends / day * each / 1e6 / busy }

// unitCosts reads the unit costs that PERFORMANCE.md has.
func unitCosts(t *testing.T) (u units) {
	t.Helper()
	text, err := os.ReadFile("../../docs/PERFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	for label, into := range map[string]*float64{
		"processor time of a send and one check: the program": &u.program, "… Postgres": &u.postgres,
		"… Redis":                            &u.redis,
		"WAL of a send, without whole pages": &u.wal, "tables and indexes of a send": &u.row,
		"memory of Redis for a recipient": &u.key,
	} {
		found := regexp.MustCompile(`(?m)^` + label + ` +([0-9.,]+) (µs|B|kB)$`).FindStringSubmatch(string(text))
		if found == nil {
			t.Fatalf("PERFORMANCE.md has no unit cost %q", label)
		}
		*into, err = strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		if found[2] == "kB" {
			*into *= 1e3
		}
	}
	return u
}

// The arithmetic of operations.md follows from the unit costs of PERFORMANCE.md.
func TestGrowthFollowsFromTheUnitCosts(t *testing.T) {
	const file = "../../docs/operations.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	assumed := fmt.Sprintf("%d times the mean, processors %.0f %% busy then, rows kept for %d days", peakFactor,
		busy*100, retention)
	if !strings.Contains(string(text), assumed) {
		t.Errorf("operations.md does not assume %q", assumed)
	}
	before, rest, ok := strings.Cut(string(text), "### Growth\n")
	beginning, rest, opened := strings.Cut(rest, "```\n")
	_, after, closed := strings.Cut(rest, "```\n")
	if !ok || !opened || !closed {
		t.Fatal("operations.md has no table of growth")
	}
	golden.File(t, file, before+"### Growth\n"+beginning+growth(unitCosts(t), 1e6, 10e6, 100e6)+after)
}
