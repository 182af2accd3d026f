package main

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/servertest/locate"
)

// TestMain lets the test's own program be the service, as the bench's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		exit(commands[os.Args[1]](os.Args[2:]))
	}
	os.Exit(m.Run())
}

// skipWithout skips where a server is not installed, or there is no disk.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	var missing *locate.Missing
	if (errors.As(err, &missing) || errors.Is(err, errNoDisk)) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A short run of everything but the limiter, which is a benchmark of its own. It says nothing about speed. The document that it writes has
// all sections and figures, and keeps what was not measured.
func TestBench(t *testing.T) {
	p := plan{rounds: 1, length: 200 * time.Millisecond, callers: []int{2}, attackers: 2, level: time.Second}
	b, err := openRig(t.Context(), io.Discard)
	skipWithout(t, err)
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	texts, err := b.run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	preface, err := b.preface(t.Context(), p, "2026-11-22 at commit 0123456789")
	if err != nil {
		t.Fatal(err)
	}
	const kept = "## The limiter alone\n\nkept\n\n## With millions of rows\n\nMeasured before.\n\nkept\n"
	whole := document("# Performance\n\n"+kept, preface, "now", texts)
	parse(t, whole)
	for _, want := range []string{
		"with fsync on", kept, "0 honest requests were refused", "2 callers for 1 s.", ours, fairFloor, plainFloor, bareHTTP,
	} {
		if !strings.Contains(whole, want) {
			t.Errorf("%q is missing in:\n%s", want, whole)
		}
	}
	with := document(whole, "another", "now", map[string]string{titleRows: "rows\n"})
	if with != strings.Replace(whole, "Measured before.\n\nkept", "Measured now.\n\nrows", 1) {
		t.Errorf("a run of one part changes another:\n%s", with)
	}
	saysAsMuch(t, b)
}

// saysAsMuch fails the test if a floor answers or sends other bytes than the service: none of them wins by saying less.
func saysAsMuch(t *testing.T, b *rig) {
	t.Helper()
	var answer, mail int
	for _, c := range b.contenders {
		head, body, text, to, err := b.sendOne(c)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.name == ours {
			answer, mail = len(head)+len(body), len(text)
		}
		if len(head)+len(body) != answer {
			t.Errorf("%s answers with other than the service's %d bytes:\n%s%s", c.name, answer, head, body)
		}
		if c.name == bareHTTP {
			continue
		}
		if code, err := codeIn(text); err != nil || len(code) != 6 || len(text) != mail {
			t.Errorf("%s sends a mail of other than the service's %d bytes, or %v:\n%s", c.name, mail, err, text)
		}
		if c.name == fairFloor { // at most once in a minute
			again := caller{base: c.base}
			defer again.close()
			if err := again.must(http.StatusTooManyRequests, sendPath, sendBody(to)); err != nil {
				t.Errorf("a second send: %v", err)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// parse holds a document to its form: all sections, and tables whose rows have as many cells as their heads.
func parse(t *testing.T, text string) {
	t.Helper()
	_, found := sections(text)
	for _, title := range titles {
		if _, ok := found[title]; !ok && !slices.Contains(optional, title) {
			t.Errorf("the section %q is missing", title)
		}
	}
	if !regexp.MustCompile(`(?m)^Measured \d{4}-\d\d-\d\d at commit [0-9a-z ]+ on \d+ processors \(.+\) with \d+ GB of memory\.$`).MatchString(text) {
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
	if len(tables) < 8 || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
		t.Errorf("%d tables, or a figure is none:\n%s", len(tables), text)
	}
}

// What make bench has written last.
func TestPerformanceDocument(t *testing.T) { parse(t, read(t, "../../docs/PERFORMANCE.md")) }

func TestNeeds(t *testing.T) {
	lines := map[string]bool{}
	for line := range strings.Lines(needs(units{program: 500, postgres: 250, redis: 50, wal: 1500, row: 1000, key: 200})) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"sends a second, peak 463 4,630", "processors for the program 0.46 4.63", "replicas 2 2", "processors for Postgres 0.23 2.31",
		"WAL a day 15.0 GB 150 GB", "whole pages in the WAL a day, at most 164 GB 1.64 TB", "disk for the log 900 GB 9.00 TB",
		"connections to Postgres 26 26", "connections to mail servers, peak 139 1,389", "memory of Redis 2.00 GB 20.0 GB",
	} {
		if !lines[want] {
			t.Errorf("%q is not in %v", want, lines)
		}
	}
}

func TestRivals(t *testing.T) {
	const said = `BenchmarkRivals/admitted/64-2         	       1
--- BENCH: BenchmarkRivals/admitted/64-2
    bench_test.go:129: 
        a script that returns 1                     46285/s    8.9 µs of Redis,  1.00 of the bare script (1.00 to 1.00)
        the policy, coalesced                       40000/s   12.7 µs of Redis,  0.82 of the bare script (0.69 to 3.20)
PASS
`
	want := map[string]rival{"a script that returns 1": {46285, 8.9, 1}, "the policy, coalesced": {40000, 12.7, .82}}
	if got := rivals(said); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What the fair floor does, beside HTTP and the bytes that it copies, stays a program that one reads in ten minutes.
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
