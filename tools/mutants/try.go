package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// try runs the tests of a mutant until one notices it.
func (w *runner) try(ctx context.Context, m mutant) (result, error) {
	r := result{Area: m.area, Name: m.name(), State: stateAlive}
	if why := w.together.invalid[m.name()]; why != "" {
		return r, fmt.Errorf("%s: %w: %s", m.name(), errBuild, why)
	}
	if number, ok := w.together.numbers[m.name()]; ok {
		b := w.together.build
		b.chosen = number
		return w.tryOn(ctx, b, m, r)
	}
	dir, err := os.MkdirTemp("", "sendcode-mutant-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	overlay, err := w.overlay(dir, m)
	if err != nil {
		return r, err
	}
	return w.tryOn(ctx, build{options: w.options, dir: dir, overlay: overlay}, m, r)
}

// tryOn runs the tests in a build that has the mutant.
func (w *runner) tryOn(ctx context.Context, b build, m mutant, r result) (result, error) {
	var err error
	began := time.Now()
	for _, t := range w.runs(m) {
		r.By, err = b.failing(ctx, t)
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.name(), err)
		} else if r.By != "" {
			if err := w.passes(ctx, t, r.By); err != nil {
				return r, err
			}
			r.State, r.By = stateCaught, t.Package+" "+r.By
			break
		}
	}
	r.Took = time.Since(began).Round(100 * time.Millisecond).String()
	return r, nil
}

// passes is an error unless the tests that a mutant made fail pass without one: else they would seem to notice every mutant.
func (w *runner) passes(ctx context.Context, t tests, name string) error {
	flags := t.Flags
	if name != timedOut && name != paniced {
		flags = alone(name)
	}
	run := fmt.Sprint(t.Package, flags)
	if w.sound[run] {
		return nil
	}
	program, err := w.together.program(ctx, t.Package)
	if err != nil {
		return err
	}
	failed, err := w.together.run(ctx, program, t, flags...)
	if err == nil && failed != "" {
		err = fmt.Errorf("%s %s fails without a mutant", t.Package, failed)
	}
	w.sound[run] = err == nil
	return err
}

// alone are the flags that run the test, with its subtests, and no other.
func alone(name string) []string { return []string{"-run=^" + strings.Split(name, "/")[0] + "$"} }

// simulation is the package that runs the whole service by seeds.
const simulation = "internal/simulate"

// runs are the tests of a mutant and, if seeds are asked for, the simulation.
func (o options) runs(m mutant) []tests {
	if _, err := os.Stat(filepath.Join(o.root, simulation)); o.seeds == 0 || err != nil {
		return m.tests
	}
	return append(m.tests[:len(m.tests):len(m.tests)], tests{"./" + simulation, []string{fmt.Sprintf("-simulate.seeds=%d", o.seeds)}})
}

// overlay writes the changed file and the JSON that puts it in the place of the real one.
func (o options) overlay(dir string, m mutant) (string, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): changed}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, errors.Join(os.WriteFile(changed, m.text, 0o600), os.WriteFile(file, replace, 0o600))
}

// build is the test programs of one mutant or of several.
type build struct {
	options
	dir     string // of the programs
	overlay string
	chosen  int // the mutant, where the programs have several; 0: none
}

// errBuild says that a mutant is no Go.
var errBuild = errors.New("it does not build")

// failing is the test of a run that fails; "": none. It has to fail again alone: a test may also fail since the machine is busy.
func (b build) failing(ctx context.Context, t tests) (name string, err error) {
	program, err := b.program(ctx, t.Package)
	if err != nil {
		return "", err
	}
	for range 3 {
		name, err = b.run(ctx, program, t, t.Flags...)
		if name == "" || name == timedOut || name == paniced || err != nil {
			break
		}
		again, err := b.run(ctx, program, t, alone(name)...)
		if again != "" || err != nil {
			break
		}
	}
	return name, err
}

// program is the test program of a package, which is built once.
func (b build) program(ctx context.Context, pkg string) (string, error) {
	name := filepath.Join(b.dir, strings.NewReplacer("/", "_", ".", "_").Replace(pkg)+".test")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+b.overlay, "-o="+name, pkg)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); ctx.Err() != nil {
		return "", ctx.Err()
	} else if err != nil {
		return "", fmt.Errorf("%w: %s", errBuild, out)
	}
	return name, nil
}

const (
	timedOut = "(time is up)"
	paniced  = "(panic)"
)

// run says which test of a program fails first; "": none.
func (b build) run(ctx context.Context, program string, t tests, flags ...string) (string, error) {
	args := []string{"-test.short", "-test.failfast", "-test.timeout=" + b.timeout.String()}
	for _, f := range flags {
		if strings.HasPrefix(f, "-run=") || strings.HasPrefix(f, "-skip=") {
			f = "-test." + f[1:]
		}
		args = append(args, f)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(b.root, t.Package)
	cmd.Env = append(os.Environ(), fmt.Sprint(chooses, "=", b.chosen))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch text := out.String(); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case strings.Contains(text, "no tests to run"):
		return "", fmt.Errorf("%s %v: no tests to run", t.Package, flags)
	case err == nil:
		return "", nil
	default:
		return failedIn(text), nil
	}
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failedIn is the innermost test that failed first.
func failedIn(text string) (name string) {
	if strings.Contains(text, "panic: test timed out") {
		return timedOut
	}
	for _, m := range failLine.FindAllStringSubmatch(text, -1) {
		if name == "" || strings.HasPrefix(m[1], name+"/") {
			name = m[1]
		}
	}
	if name == "" {
		return paniced
	}
	return name
}
