package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// together is a build of many mutants and the numbers of those that are in it.
type together struct {
	build
	numbers map[string]int    // by name; not those that are built alone
	invalid map[string]string // by name: what the compiler says
}

// prepare builds the packages of the mutants that nothing is known of. Those that are no Go are left out, and the rest built again.
func (w *runner) prepare(ctx context.Context, pending []mutant) (err error) {
	w.together = together{build: build{options: w.options}, numbers: map[string]int{}, invalid: map[string]string{}}
	if w.together.dir, err = os.MkdirTemp("", "sendcode-mutants-"); err != nil {
		return err
	}
	root, err := filepath.Abs(w.root)
	if err != nil {
		return err
	}
	for {
		b := newBatch()
		var packages []string
		clear(w.together.numbers)
		for i, m := range pending {
			if w.together.invalid[m.name()] == "" && b.add(root, m, i+1) {
				w.together.numbers[m.name()] = i + 1
				packages = append(packages, "./"+filepath.Dir(m.file))
			}
		}
		overlay, blame, err := b.write(root, w.together.dir)
		if err != nil {
			return err
		}
		w.together.overlay = overlay
		if len(packages) == 0 {
			return nil
		}
		slices.Sort(packages)
		blamed, err := w.compile(ctx, slices.Compact(packages), blame)
		if err != nil {
			return err
		}
		if len(blamed) == 0 {
			return nil
		}
		for number, why := range blamed {
			w.together.invalid[pending[number-1].name()] = why
		}
	}
}

var compilerLine = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: (.*)$`)

// compile says which mutants the compiler does not take.
func (w *runner) compile(ctx context.Context, packages []string, blame func(string, int) (int, bool)) (map[int]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-gcflags=-e", "-overlay=" + w.together.overlay}, packages...)...)
	cmd.Dir = w.root
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	blamed := map[int]string{}
	for _, m := range compilerLine.FindAllSubmatch(out, -1) {
		line, _ := strconv.Atoi(string(m[2]))
		file := string(m[1])
		if !filepath.IsAbs(file) {
			file = filepath.Join(w.root, file)
		}
		if number, ok := blame(file, line); ok {
			blamed[number] = string(m[3])
		}
	}
	if len(blamed) == 0 {
		return nil, fmt.Errorf("the mutants do not build together: %s", out)
	}
	return blamed, nil
}

// close removes the programs.
func (t together) close() error { return os.RemoveAll(t.dir) }
