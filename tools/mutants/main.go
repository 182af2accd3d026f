// Command mutants changes one line of the code at a time and runs the tests that have to notice it. It prints what noticed each
// change, and which changes live. The changes are those of mutants.yaml. No file of the tree is touched: go test gets the changed file by
// its flag -overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

type options struct {
	root    string
	results string
	areas   string
	match   string
	list    bool
	seeds   int
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "directory of the module")
	flag.StringVar(&o.results, "results", filepath.Join(os.TempDir(), "sendcode-mutants"),
		"directory that keeps what is known, so that a run can be continued")
	flag.StringVar(&o.areas, "areas", "", "only these areas: a regular expression")
	flag.StringVar(&o.match, "match", "", "only mutants whose name has this: a regular expression")
	flag.BoolVar(&o.list, "list", false, "run nothing; print the mutants and what is known of them")
	flag.IntVar(&o.seeds, "seeds", 0, "seeds of the simulation for each mutant that the tests do not notice; 0: none")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "for each run of tests; one that takes longer has noticed the mutant")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, listText, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// errAlive is the end of a run that left mutants alive.
var errAlive = errors.New("some mutants live")

func run(ctx context.Context, o options, text []byte, out io.Writer) error {
	list, err := load(o.root, text)
	if err != nil {
		return err
	}
	mutants, err := chosen(o, list)
	if err != nil {
		return err
	}
	known, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer known.Close()
	var broken error
	table := newTable()
	w := &runner{options: o, known: known, sound: map[string]bool{}}
	defer func() { _ = w.together.close() }()
	if err := w.prepare(ctx, w.pending(mutants)); err != nil {
		return err
	}
	for _, m := range mutants {
		r, err := w.judge(ctx, m)
		if errors.Is(err, errBuild) { // the others can still be tried
			broken = errors.Join(broken, err)
			continue
		}
		if err != nil {
			return err
		}
		table.add(r)
		r.print(out)
	}
	table.print(out)
	if broken != nil {
		return broken
	}
	if table.alive > 0 {
		return errAlive
	}
	return nil
}

// chosen are the mutants that the flags ask for.
func chosen(o options, list *list) ([]mutant, error) {
	areas, err := regexp.Compile(o.areas)
	if err != nil {
		return nil, err
	}
	names, err := regexp.Compile(o.match)
	if err != nil {
		return nil, err
	}
	all, err := list.mutants()
	if err != nil {
		return nil, err
	}
	var some []mutant
	for _, m := range all {
		if areas.MatchString(m.area) && names.MatchString(m.name()) {
			some = append(some, m)
		}
	}
	return some, nil
}

// runner runs the tests.
type runner struct {
	options
	known    *results
	sound    map[string]bool // tests that pass without a mutant
	together together
}

// pending are the mutants of which nothing is known, and that are to be run.
func (w *runner) pending(all []mutant) (some []mutant) {
	for _, m := range all {
		print, err := fingerprintOf(w.options, m)
		if _, known := w.known.of(m, print); err == nil && !known && m.equal == "" && !w.list {
			some = append(some, m)
		}
	}
	return some
}

// judge takes the result of a mutant from those that are known, or finds it out.
func (w *runner) judge(ctx context.Context, m mutant) (result, error) {
	r := result{Area: m.area, Name: m.name(), State: stateEqual, By: m.equal}
	if m.equal != "" {
		return r, nil
	}
	print, err := fingerprintOf(w.options, m)
	if err != nil {
		return r, err
	}
	if r, ok := w.known.of(m, print); ok {
		return r, nil
	}
	if w.list {
		r.State, r.By = stateUnknown, ""
		return r, nil
	}
	if r, err = w.try(ctx, m); err != nil {
		return r, err
	}
	r.Fingerprint = print
	return r, w.known.keep(r)
}
