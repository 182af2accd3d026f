package bench

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
)

// The arithmetic assumes these values. operations.md names them, too.
const (
	peakFactor = 4    // the busiest second, divided by the mean
	busy       = 0.5  // how busy a processor may be at the peak
	retention  = 90   // days; a partition is dropped when its whole week is older
	shortest   = 32   // days, the least that the setting retention accepts
	scattered  = 2    // index entries of a send that are not ordered by time: those of its recipient and of its verification's key
	pageSize   = 8192 // bytes
	day        = 24 * 60 * 60
)

// unitNames are the costs of one send with its check, measured with 64 callers. They are rows of
// PERFORMANCE.md.
var unitNames = []string{
	"processor time of a send and one check: the program, µs", "… Postgres, µs", "… Redis, µs",
	"WAL of a send, without whole pages, B", "tables and indexes of a send, B", "memory of Redis for a recipient, B",
}

// growth returns the table of sizes and processors for some numbers of sends a day, from the unit
// costs.
func growth(units []float64) string {
	const peak = float64(peakFactor) / day // sends in the busiest second, for one send a day
	rows := [][]string{{"a day", "1M sends", "10M sends", "100M sends"}}
	for _, line := range []struct {
		what string
		each float64 // what one send costs
		show func(float64) string
	}{
		{"the database", units[4] * (retention + 7), size},
		{"memory of Redis", units[5], size},
		{"WAL a day, at most", units[3] + scattered*pageSize, size},
		{"sends a second, peak", peak, number},
		{"processors, the program", peak * units[0] / 1e6 / busy, number},
		{"processors, Postgres", peak * units[1] / 1e6 / busy, number},
		{"processors, Redis", peak * units[2] / 1e6 / busy, number},
	} {
		rows = append(rows, []string{line.what, line.show(1e6 * line.each), line.show(1e7 * line.each), line.show(1e8 * line.each)})
	}
	return table(rows)
}

// reach returns the table of sends that one Postgres can take, by its number of processors, from
// the unit costs.
func reach(units []float64) string {
	rows := [][]string{{
		"processors of Postgres", "sends a second", "sends a day", "WAL a second",
		fmt.Sprintf("disk, %d days", retention), fmt.Sprintf("disk, %d days", shortest),
	}}
	for _, processors := range []float64{2, 8, 16, 32} {
		peak := processors * busy / (units[1] / 1e6)
		daily := peak / peakFactor * day
		rows = append(rows, []string{
			fmt.Sprint(processors), number(peak), number(daily/1e6) + "M", size(peak * units[3]),
			size(daily * units[4] * (retention + 7)), size(daily * units[4] * (shortest + 7)),
		})
	}
	return table(rows)
}

// The tables of operations.md follow from the unit costs of PERFORMANCE.md, and the page has the
// assumed values.
func TestGrowth(t *testing.T) {
	const file = "../../docs/operations.md"
	text, err := os.ReadFile(file)
	servertest.OK(t, err)
	page, err := os.ReadFile(performance)
	servertest.OK(t, err)
	assumed := fmt.Sprintf("%d times the sends of an average one, and that processors are %.0f %% busy then. Rows are kept for %d days",
		peakFactor, busy*100, retention)
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), assumed) {
		t.Errorf("operations.md does not assume %q", assumed)
	}
	var units []float64
	for _, name := range unitNames {
		_, rest, _ := strings.Cut(string(page), "\n"+name+" ")
		line, _, _ := strings.Cut(rest, "\n")
		cost, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(line), ",", ""), 64)
		servertest.OK(t, err)
		units = append(units, cost)
	}
	tables := regexp.MustCompile("(?s)(### Growth\n.*?)```\n.*?```\n(.*?)```\n.*?```\n")
	if !tables.Match(text) {
		t.Fatal("operations.md has no two tables of growth")
	}
	golden.File(t, file, tables.ReplaceAllString(string(text), "${1}"+growth(units)+"${2}"+reach(units)))
}

const performance = "../../docs/PERFORMANCE.md"

// table returns a plain-text table in a fence. The first column is aligned to the left, numbers to
// the right. Two spaces separate columns.
func table(rows [][]string) string {
	out := strings.Builder{}
	out.WriteString("```\n")
	for _, row := range rows {
		for i, cell := range row {
			widest := 0
			for _, r := range rows {
				widest = max(widest, utf8.RuneCountInString(r[i]))
			}
			fill := strings.Repeat(" ", widest-utf8.RuneCountInString(cell))
			if i == 0 {
				out.WriteString(cell + fill)
			} else {
				out.WriteString("  " + fill + cell)
			}
		}
		out.WriteString("\n")
	}
	return out.String() + "```\n"
}

// number formats a number with three significant digits, or with all digits before the point. If
// the number is unknown, it returns "–".
func number(f float64) string {
	switch {
	case math.IsNaN(f):
		return "–"
	case f == 0:
		return "0"
	case f >= 1000:
		digits := fmt.Sprintf("%.0f", f)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	}
	return strconv.FormatFloat(f, 'f', max(0, 2-int(math.Floor(math.Log10(max(f, .001))))), 64)
}

// size formats a number of bytes for people.
func size(bytes float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if bytes < 1000 {
			return number(bytes) + " " + unit
		}
		bytes /= 1000
	}
	return number(bytes) + " TB"
}
