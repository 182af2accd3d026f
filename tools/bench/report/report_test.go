package report

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func run(sends int, took time.Duration, cpu time.Duration) Run {
	return Run{Sends: sends, Took: took, Answers: []time.Duration{time.Millisecond}, Mails: []time.Duration{2 * time.Millisecond},
		CPU: map[string]time.Duration{Service: cpu, Postgres: cpu / 2}, WAL: WAL{Bytes: 1000 * float64(sends)}}
}

func TestNeed(t *testing.T) {
	u := Units{Service: 500 * time.Microsecond, Postgres: 250 * time.Microsecond, Redis: 50 * time.Microsecond, WAL: 1500, Row: 1000, Key: 200}
	for _, c := range []struct {
		sends float64
		want  Needs
	}{
		{864_000, Needs{Peak: 40, Service: .04, Postgres: .02, Redis: .004, Replicas: 2, Connections: 26, Mail: 12,
			WALDay: 1.296e9, Pages: 864_000 * 2 * 8192, Disk: 864e6 * 90, Memory: 172.8e6}},
		{864e6, Needs{Peak: 40_000, Service: 40, Postgres: 20, Redis: 4, Replicas: 10, Connections: 130, Mail: 12_000,
			WALDay: 1.296e12, Pages: 864e6 * 2 * 8192, Disk: 864e9 * 90, Memory: 172.8e9}},
	} {
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

func TestGoals(t *testing.T) {
	r := sampleResults()
	goals := map[string]Goal{}
	for _, g := range r.Goals() {
		goals[g.Name] = g
	}
	for name, want := range map[string]string{
		"sends/s ÷ fair floor, 64 callers":                 "missed",
		"sends/s ÷ fair floor, 256 callers":                "not measured",
		"WAL for a send, 64 callers":                       "met",
		"202 to end of mail at half the highest rate, p50": "met",
		"limiter ÷ redis_rate ×3, 64 callers admitted":     "met",
		"honest requests refused beside an attack":         "met",
		"honest p99 beside an attack ÷ quiet":              "missed",
		"last 4 s ÷ first 4 s of a minute, sends/s":        "met",
	} {
		if g, ok := goals[name]; !ok || g.verdict() != want {
			t.Errorf("%s: %+v is %s, want %s", name, g, g.verdict(), want)
		}
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
	tables := regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(text, -1)
	for _, table := range tables {
		cells := 0
		for line := range strings.Lines(table[1]) {
			n := len(regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1))
			if cells == 0 {
				cells = n
			} else if n != cells {
				t.Errorf("%d cells, want %d: %s", n, cells, line)
			}
		}
	}
	if len(tables) < 8 {
		t.Errorf("%d tables", len(tables))
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
