//go:build nightly

package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// plan is what is asked for. A length or number of 0 leaves its part out.
type plan struct {
	rounds    int
	length    time.Duration
	callers   []int
	attackers int
	list      int           // verifications of each list that other requests use, in each round
	crowd     int           // callers at once, of which the memory is measured
	hour      time.Duration // a run of its own
	sizes     []int         // a run of its own
	old       int           // rows of the partition to drop; a run of its own
}

var (
	rounds = flag.Int("perf.rounds", 0,
		"how often each program is measured at each number of callers; 0: a short run of everything")
	length = flag.Duration("perf.for", 2*time.Second, "for how long callers ask in each of them")
	hour   = flag.Duration("perf.hour", 0, "measure nothing but a database with autovacuum for so long")
	sizes  = flag.String("perf.rows", "", "measure nothing but sends on databases with so many rows, by commas")
	old    = flag.Int("perf.retention", 0,
		"measure nothing but sends while a partition of so many is dropped, and a tenth of the next is deleted")
	write = flag.String("perf.write", "", "the root of the repository, whose documents are written")
)

// TestMain runs the tests, or the attackers as a child of its own.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != attackCommand {
		os.Exit(m.Run())
	}
	if err := attack(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Measures, then prints and writes the documents, and fails if a goal was missed; the files also
// keep what was not measured this time. A short run only checks that the documents have all
// sections and figures, that the floors' answers and mails are as long as the service's, and that
// the limiter alone is asked what the service asks it.
func TestBench(t *testing.T) {
	p := plan{rounds: max(*rounds, 1), length: *length, callers: []int{1, 64, 256}, attackers: 256,
		list: int(2500 * length.Seconds()), crowd: 1000,
		hour: *hour, old: *old}
	if err := json.Unmarshal([]byte("["+*sizes+"]"), &p.sizes); err != nil {
		t.Fatal(err)
	}
	alone := len(p.sizes) > 0 || p.hour > 0 || p.old > 0
	short := *rounds == 0 && !alone
	t.Cleanup(func() {
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); t.Skipped() && (ci || !short) {
			t.Error("nothing was measured")
		}
	})
	if short {
		p.length, p.callers, p.attackers, p.list, p.crowd = 200*time.Millisecond, []int{2}, 2, 50, 4
	}
	b := openRig(t, p)
	texts := b.run(!alone)
	when := time.Now().UTC().Format(time.DateOnly) + " at commit " + commit()
	prefaces := b.prefaces(when)
	if short {
		b.isWhole(prefaces[0]+prefaces[1], texts)
		b.saysAsMuch()
		b.asksAsMuch()
		return
	}
	for i, page := range pages {
		fmt.Print(document("", prefaces[i], when, texts, page.titles))
		if *write == "" {
			continue
		}
		file := filepath.Join(*write, page.file)
		old, err := os.ReadFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			b.must(err)
		}
		b.must(os.WriteFile(file, []byte(document(string(old), prefaces[i], when, texts, page.titles)), 0o644))
	}
	for _, name := range b.missed() {
		b.Errorf("missed: %s", name)
	}
}

// run measures what the plan asks for, and returns sections of the document by title.
func (b *rig) run(whole bool) map[string]string {
	texts := map[string]string{}
	for _, s := range []struct {
		title   string // empty: shown by others
		wanted  bool
		measure func() (text string)
	}{
		{titleRows, len(b.sizes) > 0, b.measureRows},
		{titleHour, b.hour > 0, b.measureHour},
		{titleRetention, b.old > 0, b.measureRetention},
		{"Sends beside floors", whole, b.measureSends},
		{"Where the time of a send goes", whole, b.measureCosts},
		{"Under rising load", whole, b.measureCapacity},
		{"At half load", whole, b.measureHalf},
		{"Other requests beside a send", whole, b.measureOthers},
		{"", whole, b.measureTakes},
		{"One recipient attacked", whole, b.measureAttack},
		{"", whole, b.measureMemory},
		{titleSummary, whole, b.summary},
		{titleNeeds, whole, b.measureNeeds},
		{"The limiter alone", whole, b.measureLimiter},
	} {
		if s.wanted {
			began := time.Now()
			texts[s.title] = s.measure()
			b.Logf("%s: %.0f s", s.title, time.Since(began).Seconds())
		}
	}
	if whole {
		texts[titleGoals] = b.goals.String()
	}
	return texts
}

// isWhole fails the test unless a document has all that was measured, and keeps what was not.
func (b *rig) isWhole(preface string, texts map[string]string) {
	b.Helper()
	const kept, rows = "## An hour\n\nkept\n", "## With millions of rows\n\nMeasured before.\n\nkept\n"
	titles := slices.Concat(pages[0].titles, pages[1].titles)
	whole := document("# Performance\n\n"+kept+"\n"+rows, preface, "now at commit c", texts, titles)
	parse(b.T, whole, titles)
	for _, want := range []string{
		"with fsync on", kept, rows, "0 honest requests were refused", ours, embedded, fairFloor, plainFloor, bareHTTP,
	} {
		if !strings.Contains(whole, want) {
			b.Errorf("%q is missing in:\n%s", want, whole)
		}
	}
	with := document(whole, "another", "now at commit c", map[string]string{titleRows: "rows\n"}, titles)
	if with != strings.Replace(whole, "Measured before.\n\nkept", "Measured now at commit c.\n\nrows", 1) {
		b.Errorf("a run of one part changes another:\n%s", with)
	}
}

// saysAsMuch fails the test if a floor answers or sends other bytes than the service: none of them
// wins by saying less.
func (b *rig) saysAsMuch() {
	b.Helper()
	var answer, mail int
	for _, c := range b.contenders {
		head, body, text, to := b.sendOne(c)
		if c.name == ours {
			answer, mail = len(head)+len(body), len(text)
		}
		if len(head)+len(body) != answer {
			b.Errorf("%s answers with other than the service's %d bytes:\n%s%s", c.name, answer, head, body)
		}
		if c.name == bareHTTP {
			continue
		}
		if len(b.codeIn(text)) != 6 || len(text) != mail {
			b.Errorf("%s sends a mail of other than the service's %d bytes:\n%s", c.name, mail, text)
		}
		if c.name == fairFloor { // at most once in a minute
			again := caller{base: c.base}
			defer again.close()
			if err := again.must(http.StatusTooManyRequests, sendPath, sendBody(to)); err != nil {
				b.Errorf("a second send: %v", err)
			}
		}
	}
}

// parse holds a document to its form: all sections, and tables whose rows have as many cells as
// their heads.
func parse(t *testing.T, text string, titles []string) {
	t.Helper()
	_, found := sections(text)
	for _, title := range titles {
		if _, ok := found[title]; !ok && !slices.Contains(ofTheirOwn, title) && title != titleReasons {
			t.Errorf("the section %q is missing", title)
		}
	}
	if !regexp.MustCompile(
		`(?m)^Measured \d{4}-\d\d-\d\d at commit [0-9a-z ]+ on \d+ processors \(.+\) with \d+ GB of memory\.$`).MatchString(text) {
		t.Error("it does not say when, at which commit and on what machine")
	}
	tables := regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(text, -1)
	for _, table := range tables {
		cells := 0
		for line := range strings.Lines(table[1]) {
			n := len(regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1))
			if cells = max(cells, n); n != cells {
				t.Errorf("%d cells, want %d: %s", n, cells, line)
			}
		}
	}
	if len(tables) < 4 || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") ||
		strings.Contains(text, "%!") {
		t.Errorf("%d tables, or a figure is none:\n%s", len(tables), text)
	}
}

// What make bench has written last.
func TestPerformanceDocuments(t *testing.T) {
	for _, page := range pages {
		text, err := os.ReadFile("../../" + page.file)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, string(text), page.titles)
		for _, line := range wrongReasons(string(text)) {
			t.Errorf("%s: not a reason of a goal that this run missed: %s", page.file, line)
		}
	}
}

func TestNeeds(t *testing.T) {
	u := units{program: 500, postgres: 250, redis: 50, wal: 1500, row: 1000, key: 200}
	lines := map[string]bool{}
	for line := range strings.Lines(needs(u)) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"need 10M a day 100M a day", "sends a second, peak 463 4,630", "processors for the program 0.46 4.63",
		"replicas 2 2",
		"processors for Postgres 0.23 2.31", "WAL a day 15.0 GB 150 GB",
		"whole pages in the WAL a day, at most 164 GB 1.64 TB",
		"disk for the database 970 GB 9.70 TB", "connections to Postgres 34 34",
		"connections to mail servers, peak 139 1,389",
		"memory of Redis 2.00 GB 20.0 GB",
	} {
		if !lines[want] {
			t.Errorf("%q is not in %v", want, lines)
		}
	}
}

// What the fair floor does, beside HTTP and the bytes that it copies, stays a program that one
// reads in ten minutes.
func TestFairFloorIsSmall(t *testing.T) {
	lines := 0
	for _, file := range []string{"fair.go", "sharing.go", "mailer.go"} {
		raw, err := os.ReadFile("../floor/" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(raw), "\n")
	}
	if lines > 300 {
		t.Errorf("%d lines, want at most 300", lines)
	}
}
