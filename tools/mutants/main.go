// Command mutants changes one place of the code at a time and runs the tests that should notice it.
// It prints which test noticed each change, and which changes no test noticed. It finds the places
// by itself, in the packages that mutants.yaml names. It changes no file of the tree: go test gets
// the changed file by its flag -overlay. The comment of plant lists the operators.
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
	"slices"
	"syscall"
	"time"
)

//go:embed mutants.yaml
var listText []byte

type options struct {
	root     string
	results  string
	packages string
	only     string
	seed     int
	each     int
	budget   time.Duration
	list     bool
	least    int
	timeout  time.Duration
}

func main() {
	o := options{root: "."}
	flag.StringVar(&o.results, "results", filepath.Join(os.TempDir(), "sendcode-mutants.jsonl"),
		"file that keeps what is known, so that a run can be continued")
	flag.StringVar(&o.packages, "packages", "", "only these packages: a regular expression")
	flag.StringVar(&o.only, "only", "", "only mutants of these names: a regular expression, such as 'Gates.TakeSend (bound|error)'")
	flag.IntVar(&o.seed, "seed", int(time.Now().Unix()/86400), "decides which mutants are tried first; as a rule the day")
	flag.IntVar(&o.each, "each", 0, "how many mutants of each package at most; 0: all")
	flag.DurationVar(&o.budget, "budget", 0, "begin no mutant after this time; 0: no bound")
	flag.IntVar(&o.least, "least", 0, "fail if the tests notice less than this percentage of the mutants")
	flag.BoolVar(&o.list, "list", false, "print the mutants and run nothing")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "for each run of tests; one that takes longer has noticed the mutant")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, listText, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// state is what became of a mutant.
type state string

const (
	caught state = "caught"
	alive  state = "alive"
	equal  state = "equal" // no test can notice it; mutants.yaml says why
)

// result is a line of the file of results. It is valid while the changed file, the mutant's tests
// and their packages stay the same.
type result struct {
	Fingerprint string
	Name        string
	State       state
	By          string // the test that noticed the mutant, or why no test can
}

var errAlive = errors.New("too many mutants live")

func run(ctx context.Context, o options, text []byte, out io.Writer) error {
	began := time.Now()
	wanted, errWanted := regexp.Compile(o.packages)
	only, errOnly := regexp.Compile(o.only)
	areas, err := readAreas(text)
	if err := errors.Join(errWanted, errOnly, err); err != nil {
		return err
	}
	all, sources, err := plantAll(o, areas, wanted, only)
	if err != nil {
		return err
	}
	known, file, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer file.Close()
	t := tester{options: o, sound: map[string]bool{}, packages: map[string][]byte{}}
	counts, tried := map[state]int{}, map[*area]int{}
	var broken error
	for i, m := range all {
		s := sources[m.pkg]
		switch {
		case o.budget > 0 && time.Since(began) > o.budget:
			fmt.Fprintf(out, "mutants: skipped: %d of %d for another night\n", len(all)-i, len(all))
			return errors.Join(broken, report(out, o, counts))
		case o.each > 0 && tried[m.pkg] >= o.each || !s.compiles(m):
			continue
		}
		tried[m.pkg]++
		if o.list {
			fmt.Fprintf(out, "%s\n        %s\n", m.name(), m.change())
			continue
		}
		r, err := t.result(ctx, s, m, known)
		if errors.Is(err, errBuild) || errors.Is(err, errUnsound) {
			broken = errors.Join(broken, err)
			continue
		} else if err != nil {
			return errors.Join(broken, err)
		}
		if err := json.NewEncoder(file).Encode(r); err != nil {
			return err
		}
		counts[r.State]++
		fmt.Fprintf(out, "%-7s %s\n        %s\n", r.State, m.name(), m.change())
		if r.By != "" {
			fmt.Fprintf(out, "        %s\n", r.By)
		}
	}
	return errors.Join(broken, report(out, o, counts))
}

// plantAll returns the mutants of the wanted packages in the order of the seed.
func plantAll(o options, areas []*area, wanted, only *regexp.Regexp) (all []mutant, sources map[*area]*source, err error) {
	sources = map[*area]*source{}
	for _, a := range areas {
		if !wanted.MatchString(a.Package) {
			continue
		}
		if sources[a], err = loadPackage(o.root, a); err != nil {
			return nil, nil, err
		}
		planted, err := plant(sources[a])
		if err != nil {
			return nil, nil, err
		}
		for _, e := range a.Equal {
			if !slices.ContainsFunc(planted, func(m mutant) bool { return m.Func == e.Func && m.Operator == e.Operator }) {
				return nil, nil, fmt.Errorf("%s: no mutant of %s by %s: take it off the list", a.Package, e.Func, e.Operator)
			}
		}
		all = append(all, planted...)
	}
	shuffle(all, o.seed)
	all = slices.DeleteFunc(all, func(m mutant) bool { return !only.MatchString(m.name()) })
	return all, sources, nil
}

func report(out io.Writer, o options, counts map[state]int) error {
	fmt.Fprintf(out, "%d %s  %d %s  %d %s\n", counts[caught], caught, counts[alive], alive, counts[equal], equal)
	if tried := counts[caught] + counts[alive]; 100*counts[caught] < o.least*tried {
		return errAlive
	}
	return nil
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
		if json.Unmarshal(line, &r) == nil { // skips a line that an interrupted run did not finish
			known[r.Fingerprint] = r
		}
	}
	file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return known, file, err
}
