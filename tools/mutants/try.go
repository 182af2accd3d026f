package main

import (
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

// tester runs tests on changed code.
type tester struct {
	options
	sound    map[string]bool   // the runs of tests that pass without a mutant
	packages map[string][]byte // see fingerprint
}

// result returns what is known of a mutant, by fingerprint or from mutants.yaml, or else runs its
// tests.
func (t tester) result(ctx context.Context, s *source, m mutant, known map[string]result) (result, error) {
	original, err := fileText(s, m)
	if err != nil {
		return result{}, err
	}
	text := m.mutated(original)
	r := result{Name: m.name(), State: alive}
	if r.Fingerprint, err = fingerprint(t.root, m, text, t.packages); err != nil {
		return r, err
	}
	if why := m.equalReason(); why != "" {
		r.State, r.By = equal, why
		return r, nil
	}
	if before, found := known[r.Fingerprint]; found {
		return before, nil
	}
	dir, err := os.MkdirTemp("", "sendcode-mutant-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	overlay, err := t.overlay(dir, m, text)
	if err != nil {
		return r, err
	}
	for _, x := range m.pkg.Tests {
		failedTest, err := t.failingTest(ctx, overlay, x)
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.name(), err)
		}
		if failedTest != "" {
			r.State, r.By = caught, "by "+x.Package+" "+failedTest
			return r, nil
		}
	}
	return r, nil
}

// overlay writes the changed file, and the JSON that makes go test use it instead of the real file.
func (t tester) overlay(dir string, m mutant, text []byte) (string, error) {
	real, err := filepath.Abs(filepath.Join(t.root, m.File))
	if err != nil {
		return "", err
	}
	changed, file := filepath.Join(dir, filepath.Base(m.File)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {real: changed}})
	return file, errors.Join(err, os.WriteFile(changed, text, 0o600), os.WriteFile(file, replace, 0o600))
}

// failingTest returns a test that notices the overlay, or "". Unless the test panics or runs out of
// time, it must fail twice with the overlay, because one failure can be due to a busy machine. It
// must pass without the overlay, because otherwise it would seem to notice every mutant.
func (t tester) failingTest(ctx context.Context, overlay string, x tests) (string, error) {
	name, err := t.run(ctx, overlay, x)
	if name == "" || err != nil {
		return "", err
	}
	if name != timedOut && name != panicked {
		x.Flags = []string{"-run=^" + strings.Split(name, "/")[0] + "$"}
		if again, err := t.run(ctx, overlay, x); again == "" || err != nil {
			return "", err
		}
	}
	if key := fmt.Sprint(x); !t.sound[key] {
		if failedTest, err := t.run(ctx, "", x); err != nil {
			return "", err
		} else if failedTest != "" {
			return "", fmt.Errorf("%w: %s %s fails without a mutant", errUnsound, x.Package, failedTest)
		}
		t.sound[key] = true
	}
	return name, nil
}

// After these errors, run goes on with the next mutant.
var (
	errBuild   = errors.New("it does not build")
	errUnsound = errors.New("nothing is known")
)

const (
	timedOut = "(time is up)"
	panicked = "(panic)"
)

// run returns the name of the test that failed first, with its subtest, if there is one. It returns
// timedOut after the timeout, panicked if the output names no test, and "" if all tests passed.
func (t tester) run(ctx context.Context, overlay string, x tests) (name string, err error) {
	args := []string{
		"test", "-tags=nightly", "-vet=off", "-count=1", "-short", "-failfast", "-timeout=" + t.timeout.String(),
		"-overlay=" + overlay, x.Package,
	}
	cmd := exec.CommandContext(ctx, "go", append(args, x.Flags...)...)
	cmd.Dir = t.root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	output := string(out)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case strings.Contains(output, "[no tests to run]"):
		return "", fmt.Errorf("%s %v: no tests to run", x.Package, x.Flags)
	case err == nil:
		return "", nil
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return "", fmt.Errorf("%w: %s", errBuild, output)
	case strings.Contains(output, "panic: test timed out"):
		return timedOut, nil
	}
	for _, m := range regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindAllStringSubmatch(output, -1) {
		if name == "" || strings.HasPrefix(m[1], name+"/") {
			name = m[1]
		}
	}
	if name == "" {
		return panicked, nil
	}
	return name, nil
}
