package report

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func run(sends int, took time.Duration, cpu time.Duration) Run {
	return Run{Sends: sends, Took: took, Answers: []time.Duration{time.Millisecond}, Mails: []time.Duration{2 * time.Millisecond},
		CPU: map[string]time.Duration{Service: cpu, Postgres: cpu / 2}, WAL: WAL{Bytes: 1000 * float64(sends), Records: float64(sends)}}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want Spread
		text string
	}{
		{nil, Spread{}, "0"},
		{[]float64{3}, Spread{3, 3, 3}, "3.00"},
		{[]float64{9, 1, 2}, Spread{2, 1, 9}, "2.00 (1.00–9.00)"},
		{[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4}, "2.50 (1.00–4.00)"},
	} {
		if got := SpreadOf(c.list); got != c.want || got.String() != c.text {
			t.Errorf("%v: %v", c.list, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	waits := []time.Duration{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0: 1, .5: 3, .99: 5, 1: 5} {
		if got := Quantile(q, waits[:2], waits[2:]); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if Quantile(.5) != 0 || waits[0] != 5 {
		t.Error("of none, or the list was sorted")
	}
}

// A ratio is of two runs of one round, not of two medians.
func TestRatioIsByRounds(t *testing.T) {
	b := Board{}
	for i, rates := range [][2]int{{50, 100}, {150, 100}, {160, 200}} {
		b.Add(Ours, 64, run(rates[0], time.Second, time.Duration(i)*time.Millisecond))
		b.Add(Fair, 64, run(rates[1], time.Second, time.Millisecond))
	}
	if got, want := b.Ratio(Ours, Fair, 64, Run.Rate), (Spread{.8, .5, 1.5}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := b.Over(Ours, 64, Run.Rate).Median; got != 150 {
		t.Error(got)
	}
	b.Add(Ours, 256, run(500, time.Second, 0))
	if got := b.Highest(Ours); got != 500 {
		t.Error(got)
	}
	if got := b.Callers(); !slices.Equal(got, []int{64, 256}) {
		t.Error(got)
	}
}

func TestCPUEach(t *testing.T) {
	r := run(10, time.Second, 100*time.Millisecond)
	if r.CPUEach() != 15*time.Millisecond || r.CPUEach(Postgres) != 5*time.Millisecond || (Run{}).Rate() != 0 {
		t.Error(r.CPUEach(), r.CPUEach(Postgres))
	}
}

func TestLevelRatio(t *testing.T) {
	for _, c := range []struct {
		sends []int
		want  float64
	}{
		{nil, 0}, {[]int{5}, 0}, {[]int{10, 9}, .9}, {[]int{10, 10, 10, 10, 99, 99, 8, 8, 8, 12}, .9},
	} {
		if got := (Level{Sends: c.sends}).Ratio(); got != c.want {
			t.Errorf("%v: %v, want %v", c.sends, got, c.want)
		}
	}
}

func TestLevelCost(t *testing.T) {
	l := Level{Sends: []int{10, 10, 5, 5}, CPU: []time.Duration{100, 100, 60, 60}}
	if got := l.cost(0, 2); got != 10 {
		t.Error(got)
	}
	if got := l.CostRatio(); got != 1.2 {
		t.Error(got)
	}
	if (Level{}).CostRatio() != 0 || (Level{Sends: []int{1, 2}}).CostRatio() != 0 {
		t.Error("of nothing")
	}
}

func TestGrid(t *testing.T) {
	g := newGrid("a", "word", "n")
	g.add("1", "x", "2")
	const want = "| a | word | n |\n|---|------|--:|\n| 1 | x    | 2 |\n"
	if got := g.String(); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
}

func TestRowsRatio(t *testing.T) {
	rows := Rows{{10e6, []Run{run(1, time.Second, 110)}}, {1e6, []Run{run(1, time.Second, 100)}}}
	if got := rows.Ratio(); got != 1.1 {
		t.Error(got)
	}
	if (Rows{}).Ratio() != 0 {
		t.Error("of none")
	}
}

func TestNeed(t *testing.T) {
	u := Units{Service: 500 * time.Microsecond, Postgres: 250 * time.Microsecond, Redis: 50 * time.Microsecond, WAL: 1500, Row: 1000, Key: 200}
	for _, c := range []struct {
		sends float64
		want  Needs
	}{
		{864_000, Needs{Mean: 10, Peak: 40, Service: .04, Postgres: .02, Redis: .004, Replicas: 2, Connections: 26, Mail: 12,
			WALDay: 1.296e9, WALPeak: 60_000, Pages: 864_000 * 2 * 8192, Disk: 864e6 * 90, Memory: 172.8e6}},
		{864e6, Needs{Mean: 10_000, Peak: 40_000, Service: 40, Postgres: 20, Redis: 4, Replicas: 10, Connections: 130, Mail: 12_000,
			WALDay: 1.296e12, WALPeak: 60e6, Pages: 864e6 * 2 * 8192, Disk: 864e9 * 90, Memory: 172.8e9}},
	} {
		c.want.Sends = c.sends
		if got := Need(u, c.sends); got != c.want {
			t.Errorf("%v sends a day:\n%+v, want\n%+v", c.sends, got, c.want)
		}
	}
}

const rivals = `BenchmarkRivals/admitted/64-2         	       1
--- BENCH: BenchmarkRivals/admitted/64-2
    bench_test.go:129: 
        a script that returns 1                     46285/s    8.9 µs of Redis,  1.00 of the bare script (1.00 to 1.00)
        the policy, coalesced                       40000/s   12.7 µs of Redis,  0.82 of the bare script (0.69 to 3.20)
        three calls of redis_rate                   10000/s   41.3 µs of Redis,  0.21 of the bare script (0.13 to 0.84)
BenchmarkRivals/refused/1             	       1
    bench_test.go:129: 
        the policy, coalesced                       20000/s   17.8 µs of Redis,  0.53 of the bare script (0.26 to 2.53)
BenchmarkTakeByLimit-2        	       1
        a limit of 10                               20960/s   22.9 µs of Redis,  0.49 of the bare script (0.11 to 0.65)
PASS
`

func TestParseRivals(t *testing.T) {
	l := ParseRivals(rivals)
	if len(l) != 5 || l[4] != (Rival{"limit", 1, "a limit of 10", 20960, 22.9, .49}) ||
		l[1] != (Rival{"admitted", 64, ourLimiter, 40000, 12.7, .82}) || l[3].Outcome != "refused" || l[3].Callers != 1 {
		t.Errorf("%+v", l)
	}
	if got := l.ratios("admitted", 64); math.Abs(got.rival-.82/.21) > 1e-9 || got.bare != .82 {
		t.Errorf("%+v", got)
	}
	if got := l.ratios("refused", 1); got.rival != 0 || got.bare != .53 {
		t.Errorf("%+v", got)
	}
}

func TestFormats(t *testing.T) {
	for f, want := range map[float64]string{0: "0", .123: "0.12", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567",
		999: "999"} {
		if got := number(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
	for b, want := range map[float64]string{12: "12.0 B", 1700: "1.70 kB", 2.5e6: "2.50 MB", 3e9: "3.00 GB", 4e12: "4.00 TB",
		5e15: "5,000 TB"} {
		if got := size(b); got != want {
			t.Errorf("%v: %s, want %s", b, got, want)
		}
	}
}

func TestGoals(t *testing.T) {
	r := sampleResults()
	goals := map[string]Goal{}
	for _, g := range r.Goals() {
		goals[g.Name] = g
	}
	for name, want := range map[string]string{
		"sends/s ÷ fair floor, 64 callers":                                     "missed",
		"sends/s ÷ fair floor, 256 callers":                                    "not measured",
		"WAL for a send, 64 callers":                                           "met",
		"202 to final dot at half the highest rate, p50":                       "met",
		"limiter ÷ redis_rate ×3, 64 callers admitted":                         "met",
		"honest requests refused beside an attack":                             "met",
		"honest p99 beside an attack ÷ quiet":                                  "missed",
		"last 4 s ÷ first 4 s of a minute on a fresh database, autovacuum off": "met",
	} {
		if g, ok := goals[name]; !ok || g.verdict() != want {
			t.Errorf("%s: %+v is %s, want %s", name, g, g.verdict(), want)
		}
	}
}

func TestRowsGoal(t *testing.T) {
	for last, want := range map[time.Duration]string{115: "met", 116: "missed"} {
		r := Results{Rows: Rows{{1e6, []Run{run(1, time.Second, 1000)}}, {10e6, []Run{run(1, time.Second, 10*last)}}}}
		if got := r.rowsGoal().verdict(); got != want {
			t.Errorf("%d: %s, want %s", last, got, want)
		}
	}
	if got := (Results{}).rowsGoal().verdict(); got != "not measured" {
		t.Error(got)
	}
}

func sampleResults() Results {
	r := Results{Machine: Machine{2, "Some CPU", 24}, Date: time.Unix(1.8e9, 0), Commit: "abc", Postgres: "15", Fsync: "on", Disk: "ext4",
		Rounds: 2, Length: time.Second, Board: Board{}}
	for _, name := range Contenders {
		rate := 100
		if name == Ours {
			rate = 80
		}
		r.Board.Add(name, 1, run(rate, time.Second, time.Millisecond))
		r.Board.Add(name, 64, run(rate, time.Second, time.Millisecond))
	}
	r.Half = map[string]Paced{Ours: {40, []Run{run(40, time.Second, 1)}}}
	r.Others = []Other{{"a look", 64, []Run{run(10, time.Second, 10)}}}
	r.Started = []time.Duration{time.Second}
	r.Level = Level{Callers: 64, Sends: []int{10, 10, 10, 10, 10, 10, 10, 10}, CPU: []time.Duration{1, 1, 1, 1, 1, 1, 1, 1}}
	r.Attack = Attack{256, 100, 1000, []time.Duration{1}, []time.Duration{3}, 0}
	r.Limiter = ParseRivals(rivals)
	r.Profile = Profile{{"HTTP", "50%", 0}, {"log", "1%", 1}}
	r.Units = Units{Service: time.Millisecond, Postgres: time.Millisecond, Redis: time.Microsecond, WAL: 1, Row: 1, Key: 1}
	return r
}

// parse holds a document to its form: all sections, and tables whose rows have as many cells as their heads.
func parse(t *testing.T, text string) {
	t.Helper()
	if missing := Missing(text); len(missing) > 0 {
		t.Errorf("sections are missing: %q", missing)
	}
	if !regexp.MustCompile(`(?m)^Measured \d{4}-\d\d-\d\d at commit [0-9a-z ]+ on \d+ processors \(.+\) with \d+ GB of memory\.$`).MatchString(text) {
		t.Error("it does not say when, at which commit and on what machine")
	}
	cells, tables := 0, 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		if n := strings.Count(line, "|") - 1; cells == 0 {
			cells, tables = n, tables+1
		} else if n != cells {
			t.Errorf("%d cells, want %d: %s", n, cells, line)
		}
	}
	if tables < 10 {
		t.Errorf("%d tables", tables)
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
		t.Error("a figure is none")
	}
}

func TestDocument(t *testing.T) {
	parse(t, sampleResults().Document(""))
}

// What make bench has written last.
func TestPerformanceDocument(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/PERFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	parse(t, string(raw))
}

// A run of one part changes this part alone; a run of all keeps what it did not measure.
func TestDocumentKeepsWhatWasNotMeasured(t *testing.T) {
	whole := sampleResults().Document("")
	rows := Results{Date: time.Unix(1.9e9, 0), Commit: "def", Rows: Rows{{1000, []Run{run(1, time.Second, 1)}}}}
	with := rows.Document(whole)
	if !strings.Contains(with, "## With millions of rows\n\nMeasured 2030-03-17 at commit def.\n\nSends of 64 callers") {
		t.Errorf("the rows are missing in:\n%s", with)
	}
	if !strings.Contains(with, "Measured 2027-01-15 at commit abc on 2 processors") {
		t.Error("the rest has another date")
	}
	again := sampleResults().Document(with)
	if again != with {
		t.Errorf("a second run of all is\n%s, want\n%s", again, with)
	}
}
