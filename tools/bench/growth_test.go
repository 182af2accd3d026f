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
	"sendcode/internal/store/postgres"
)

// What the arithmetic takes for granted, as PERFORMANCE.md and operations.md say.
const (
	peakFactor = 4    // busiest second to mean
	busy       = 0.5  // how busy a processor may be at the peak
	retention  = 90   // days; a partition is dropped when its whole week is older
	perReplica = 4    // processors of one replica
	mostConns  = 1000 // of one replica to a mail server
	mailTime   = 0.3  // s that a mail server takes for a mail
	scattered  = 2    // index entries of a send in no order of time: its recipient, the key of its verification
	pageSize   = 8192 // bytes
	day        = 24 * 60 * 60
)

// units are the costs of one send with its check, as measured at 64 callers.
type units struct {
	program, postgres, redis float64 // µs of processor time
	wal                      float64 // bytes, without whole pages
	row                      float64 // bytes of tables and indexes
	key                      float64 // bytes of Redis for a recipient
}

// label is a row of PERFORMANCE.md's table of unit costs.
type label struct {
	name, unit string
	of         *float64
}

func (u *units) labels() []label {
	return []label{
		{"processor time of a send and one check: the program", "µs", &u.program},
		{"… Postgres", "µs", &u.postgres},
		{"… Redis", "µs", &u.redis},
		{"WAL of a send, without whole pages", "B", &u.wal},
		{"tables and indexes of a send", "B", &u.row},
		{"memory of Redis for a recipient", "B", &u.key},
	}
}

func (u units) String() string {
	rows := [][]string{{"unit", "measured"}}
	for _, l := range u.labels() {
		rows = append(rows, []string{l.name, number(*l.of) + " " + l.unit})
	}
	return table(rows)
}

// read reads the table back.
func (u *units) read(t *testing.T, page string) {
	t.Helper()
	for _, l := range u.labels() {
		found := regexp.MustCompile(`(?m)^` + l.name + ` +([0-9.,]+) ` + l.unit + `$`).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("PERFORMANCE.md has no unit cost %q", l.name)
		}
		var err error
		if *l.of, err = strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64); err != nil {
			t.Fatal(err)
		}
	}
}

// growth is what so many sends a day need, beside the metric that shows it.
func growth(u units, days ...float64) string {
	rows := [][]string{{"a day", "seen as"}}
	for _, n := range days {
		rows[0] = append(rows[0], whole(n/1e6)+"M sends")
	}
	peak := func(n float64) float64 { return peakFactor * n / day }
	processors := func(n, each float64) float64 { return peak(n) * each / 1e6 / busy }
	replicas := func(n float64) float64 {
		return max(2, math.Ceil(processors(n, u.program)/perReplica), math.Ceil(peak(n)*mailTime/mostConns)) // one may fail
	}
	for _, line := range []struct {
		what, metric string
		of           func(sends float64) string
	}{
		{"sends kept", "sendcode_database_sends", func(n float64) string { return whole(n*(retention+7)/1e6) + "M" }},
		{"the database", "sendcode_database_bytes", func(n float64) string { return size(n * u.row * (retention + 7)) }},
		{"… a week of it", "sendcode_database_bytes", func(n float64) string { return size(n * u.row * 7) }},
		{"memory of Redis", "sendcode_redis_memory_bytes", func(n float64) string { return size(n * u.key) }},
		{
			"WAL a day, at most", "the archive's size",
			func(n float64) string { return size(n * (u.wal + scattered*pageSize)) },
		},
		{"sends a second, peak", "Sends by outcome", func(n float64) string { return number(peak(n)) }},
		{
			"processors, the program", "Processor and memory",
			func(n float64) string { return fmt.Sprintf("%.2g", processors(n, u.program)) },
		},
		{"processors, Postgres", "the machine", func(n float64) string { return fmt.Sprintf("%.2g", processors(n, u.postgres)) }},
		{"processors, Redis", "the machine", func(n float64) string { return fmt.Sprintf("%.2g", processors(n, u.redis)) }},
		{"replicas", "the deployment", func(n float64) string { return whole(replicas(n)) }},
		{"connections to Postgres", "the server", func(n float64) string { return whole(replicas(n) * postgres.ConnsPerReplica) }},
		{"connections to mail servers", "the servers", func(n float64) string { return whole(math.Ceil(peak(n) * mailTime)) }},
	} {
		cells := []string{line.what, line.metric}
		for _, n := range days {
			cells = append(cells, line.of(n))
		}
		rows = append(rows, cells)
	}
	return table(rows)
}

// The arithmetic of operations.md follows from the unit costs of PERFORMANCE.md, and both say what
// it assumes.
func TestGrowth(t *testing.T) {
	const file = "../../docs/operations.md"
	text, err := os.ReadFile(file)
	servertest.OK(t, err)
	page, err := os.ReadFile(performance)
	servertest.OK(t, err)
	assumed := fmt.Sprintf("%d times the mean, and that processors are %.0f %% busy then. Rows are kept for %d days", peakFactor, busy*100,
		retention)
	if !strings.Contains(string(text), assumed) {
		t.Errorf("operations.md does not assume %q", assumed)
	}
	assumed = fmt.Sprintf("a replica has %d processors and %d connections to Postgres; a mail takes %.1f s", perReplica,
		postgres.ConnsPerReplica, mailTime)
	if !strings.Contains(string(page), assumed) {
		t.Errorf("PERFORMANCE.md does not assume %q", assumed)
	}
	before, rest, ok := strings.Cut(string(text), "### Growth\n")
	beginning, rest, opened := strings.Cut(rest, "```\n")
	_, after, closed := strings.Cut(rest, "```\n")
	if !ok || !opened || !closed {
		t.Fatal("operations.md has no table of growth")
	}
	var u units
	u.read(t, string(page))
	golden.File(t, file, before+"### Growth\n"+beginning+growth(u, 1e6, 10e6, 100e6)+after)
}

const performance = "../../docs/PERFORMANCE.md"

// table is plain text in a fence: words to the left, numbers to the right,
// two spaces between columns.
func table(rows [][]string) string {
	out := strings.Builder{}
	out.WriteString("```\n")
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			widest, words := 0, i == 0 || len(rows) > 1 && rows[1][i] != "" && strings.ContainsAny(rows[1][i][:1], letters)
			for _, r := range rows {
				widest = max(widest, utf8.RuneCountInString(r[i]))
			}
			fill := strings.Repeat(" ", widest-utf8.RuneCountInString(cell))
			if words {
				line += cell + fill + "  "
			} else {
				line += fill + cell + "  "
			}
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String() + "```\n"
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// number has three digits that count, or all of them before the point; "–" if it is unknown.
func number(f float64) string {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return "–"
	case f == 0:
		return "0"
	case abs >= 1000:
		digits := fmt.Sprintf("%.0f", f)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	}
	return strconv.FormatFloat(f, 'f', max(0, 2-int(math.Floor(math.Log10(max(abs, 1))))), 64)
}

// whole is a number without a fraction of zeros.
func whole(n float64) string { return strings.TrimSuffix(strings.TrimSuffix(number(n), ".00"), ".0") }

// size is bytes for people.
func size(bytes float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if bytes < 1000 {
			return number(bytes) + " " + unit
		}
		bytes /= 1000
	}
	return number(bytes) + " TB"
}
