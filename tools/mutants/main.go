// Command mutants changes one line of the code at a time and runs the tests that should notice it.
// It prints which test noticed each change, and which changes no test noticed. The changes are
// listed in mutants.yaml. It changes no file of the tree: go test gets the changed file by its flag
// -overlay.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

//go:embed mutants.yaml
var listText []byte

type options struct {
	root    string
	results string
	areas   string
	day     int
	timeout time.Duration
}

func main() {
	o := options{root: "."}
	flag.StringVar(&o.results, "results", filepath.Join(os.TempDir(), "sendcode-mutants.jsonl"),
		"file that keeps what is known, so that a run can be continued")
	flag.StringVar(&o.areas, "areas", "", "only these areas: a regular expression")
	flag.IntVar(&o.day, "day", 0, "1 to 7: only the packages of this day; 0: all")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "for each run of tests; one that takes longer has noticed the mutant")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, listText, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// state is what an earlier run found out about a mutant.
type state string

const (
	caught state = "caught"
	alive  state = "alive"
	equal  state = "equal" // in effect; the list says why
)

// result is a line of the file of results. It is valid while the changed file, the mutant's tests
// and their packages stay the same.
type result struct {
	Fingerprint string
	State       state
	By          string // the test that noticed the mutant, or why no test can
}

// errAlive is the end of a run that left mutants alive.
var errAlive = errors.New("some mutants live")

func run(ctx context.Context, o options, text []byte, out io.Writer) error {
	areas, errAreas := regexp.Compile(o.areas)
	all, err := load(o, text)
	days := daysOf(all)
	if err := errors.Join(errAreas, err); err != nil {
		return err
	}
	known, file, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer file.Close()
	t := tester{options: o, sound: map[string]bool{}}
	counts := map[state]int{}
	var broken error
	left := 0
	for _, m := range all {
		if !areas.MatchString(m.area) {
			continue
		}
		if o.day != 0 && days[filepath.Dir(m.File)] != o.day {
			left++
			continue
		}
		r, found := known[m.fingerprint]
		switch {
		case m.Equal != "":
			r = result{State: equal, By: m.Equal}
		case !found:
			if r, err = t.try(ctx, m); errors.Is(err, errBuild) { // the others can still be tried
				broken = errors.Join(broken, err)
				continue
			} else if err != nil {
				return err
			}
			if err := json.NewEncoder(file).Encode(r); err != nil {
				return err
			}
		}
		counts[r.State]++
		fmt.Fprintf(out, "%-7s %-8s %s\n", r.State, m.area, m.name())
		if r.By != "" {
			fmt.Fprintf(out, "                 %s\n", r.By)
		}
	}
	fmt.Fprintf(out, "%d %s  %d %s  %d %s\n", counts[caught], caught, counts[alive], alive, counts[equal], equal)
	if left > 0 {
		fmt.Fprintf(out, "mutants: skipped: day %d of %d; %d are of packages of other days\n", o.day, week, left)
	}
	if counts[alive] > 0 {
		broken = errors.Join(broken, errAlive)
	}
	return broken
}

// openResults reads the results of earlier runs, by fingerprint, and opens the file to append
// results.
func openResults(name string) (known map[string]result, file *os.File, err error) {
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	known = map[string]result{}
	for line := range bytes.Lines(old) {
		var r result
		if json.Unmarshal(line, &r) == nil { // a line that a stop cut short is of no use
			known[r.Fingerprint] = r
		}
	}
	file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return known, file, err
}
