package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/parts/locate"
)

// TestMain lets the test's own program be the service, as the bench's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			exit(run(os.Args[2:]))
			return
		}
	}
	os.Exit(m.Run())
}

// A short run of everything: both programs send, and the tables are complete. It says nothing about speed.
func TestBench(t *testing.T) {
	var out strings.Builder
	err := bench(t.Context(), plan{rounds: 1, length: 200 * time.Millisecond, callers: []int{2}, attackers: 2, profile: true}, &out)
	var missing *locate.Missing
	if errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fsync=on", "ratio", "Processor time for each send", "2     floor", "2  sendcode", "Where the service's processor time goes", "0 honest requests refused"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

func TestTable(t *testing.T) {
	table := newTable([]int{64})
	for i, rates := range [][2]int{{100, 50}, {100, 150}, {200, 160}} {
		spent := usage{"Postgres": time.Duration(i) * time.Millisecond}
		table.add("floor", 64, result{sends: rates[0], took: time.Second, answers: []time.Duration{time.Millisecond}, each: spent})
		table.add("sendcode", 64, result{sends: rates[1], took: time.Second, answers: []time.Duration{time.Millisecond * time.Duration(i+1)}, each: spent})
	}
	var out strings.Builder
	table.print(&out)
	row := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[1]), " ")
	if row != "64 100 150 0.80 0.50 1.50 2.00 ms 3.00 ms 1.00 ms 1.00 ms" {
		t.Errorf("row %q", row)
	}
	if !strings.Contains(out.String(), "1.00 ms") {
		t.Errorf("usage in\n%s", &out)
	}
}

func TestReadStat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	line := "4711 (a ) (b) S 17 4711 4711 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 100 1 1\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	pid, parent, spent, err := readStat(path)
	if err != nil || pid != 4711 || parent != 17 || spent != 3*time.Second {
		t.Errorf("%d %d %v %v", pid, parent, spent, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", "x (y) " + strings.Repeat("1 ", 20)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := readStat(path); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
