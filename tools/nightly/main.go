// Command nightly runs targets of the Makefile one after another, and goes on if one fails. At the
// end it writes a page that says what ran, when, how long, what failed, and what was skipped and
// why. The page is also in bin/night/page.md, beside the output of each part. `make nightly` runs
// this command. An argument is a part and its longest time: fuzz:30m. The exit code is 1 unless
// each part has passed, or was stopped at its longest time to be continued by the next run.
//
// The file bin/night/runs.jsonl has each run. A part that has passed at this commit is not run
// again, so a stopped night can be continued. If the tree differs from its commit, all parts run.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// resumableParts are the parts that do as much as they can in their time. The next run continues
// where they stopped.
var resumableParts = []string{"simulate", "mutants"}

// maxPassAge is how long a pass counts. After that, the part runs again even at the same commit, so
// that the simulation tries other worlds.
const maxPassAge = 16 * time.Hour

// grace is how long an interrupted part may take to end its servers.
const grace = time.Minute

// part is the run of one part, and a line in the file of runs.
type part struct {
	Commit, Name    string
	Bound, Took     time.Duration
	Began           time.Time
	Result          string
	Failed, Skipped []string // lines of its output
}

// Values of part.Result.
const (
	passed      = "passed"
	failed      = "failed"
	interrupted = "stopped"                       // interrupted by its user
	unfinished  = "stopped; the next run goes on" // at its bound
	notRun      = "not run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	head, _ := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output() // is empty without git
	if added, _ := exec.Command("git", "ls-files", "--others", "--exclude-standard").Output(); len(added) > 0 {
		head = nil // --dirty ignores files that git does not track
	}
	ok, err := nightly(ctx, os.Args[1:], "make", filepath.Join("bin", "night"), strings.TrimSpace(string(head)), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// nightly runs the parts that have not passed at a commit, with program (a make), and writes the
// page. When ctx has ended, it starts no further part. It returns true if all parts have run, and
// each part's last run passed or was stopped at its bound to be continued.
func nightly(ctx context.Context, args []string, program, dir, commit string, out io.Writer) (ok bool, err error) {
	var parts []part
	for _, arg := range args {
		name, bound, _ := strings.Cut(arg, ":")
		p := part{Commit: commit, Name: name}
		if p.Bound, err = time.ParseDuration(bound); err != nil {
			return false, fmt.Errorf("%q is no part with its time, such as fuzz:30m", arg)
		}
		parts = append(parts, p)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	runs, file, err := openRuns(filepath.Join(dir, "runs.jsonl"), commit)
	if err != nil {
		return false, err
	}
	defer file.Close()
	ok = true
	for _, p := range parts {
		if slices.ContainsFunc(runs, func(r part) bool {
			return r.Name == p.Name && r.Result == passed && time.Since(r.Began) < maxPassAge
		}) {
			fmt.Fprintf(out, "%s: has passed at %s\n", p.Name, commit)
			continue
		}
		fmt.Fprintf(out, "%s: at most %v\n", p.Name, p.Bound)
		if err := p.run(ctx, program, dir); err != nil {
			return false, err
		}
		ok = ok && (p.Result == passed || p.Result == unfinished)
		if runs = append(runs, p); p.Result != notRun {
			if err := json.NewEncoder(file).Encode(p); err != nil {
				return false, err
			}
		}
	}
	text := page(commit, runs)
	fmt.Fprint(out, "\n", text)
	return ok, os.WriteFile(filepath.Join(dir, "page.md"), []byte(text), 0o644)
}

// openRuns reads the runs at a commit and opens the file to append runs. If the tree differs from
// its commit, or has no commit, there are no earlier runs.
func openRuns(name, commit string) (runs []part, file *os.File, err error) {
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for line := range bytes.Lines(old) {
		var p part
		if json.Unmarshal(line, &p) == nil && p.Commit == commit && commit != "" && !strings.HasSuffix(commit, "-dirty") {
			runs = append(runs, p)
		}
	}
	file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return runs, file, err
}

// run runs the part and judges it by its exit status and its output.
func (p *part) run(ctx context.Context, program, dir string) error {
	log, err := os.Create(filepath.Join(dir, p.Name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	bounded, end := context.WithTimeout(ctx, p.Bound)
	defer end()
	cmd := exec.CommandContext(bounded, program, p.Name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that processes that make starts are interrupted, too
	group := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error {
		time.AfterFunc(grace, func() { _ = group(syscall.SIGKILL) })
		return group(syscall.SIGINT)
	}
	p.Began = time.Now()
	failure := cmd.Start()
	if failure == nil {
		failure = cmd.Wait()
		_ = group(syscall.SIGTERM) // a shell's background jobs ignore an interrupt
	}
	p.Took = time.Since(p.Began)
	text, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	p.read(strings.Split(string(text), "\n"))
	switch {
	case cmd.Process == nil && ctx.Err() != nil:
		p.Result = notRun
	case failure == nil:
		p.Result = passed
	case errors.Is(bounded.Err(), context.DeadlineExceeded) && slices.Contains(resumableParts, p.Name) && len(p.Failed) == 0:
		p.Result = unfinished
	case ctx.Err() != nil && len(p.Failed) == 0:
		p.Result = interrupted
	default:
		p.Result = failed
		if len(p.Failed) == 0 {
			p.Failed = []string{failure.Error()}
		}
	}
	return nil
}

var (
	failurePattern = regexp.MustCompile(`^\s*(?:=== |--- )FAIL: |^alive |^panic: `)
	skipPattern    = regexp.MustCompile(`^\s*(=== |--- )SKIP: (.*)|^([\w-]+: skipped: .*)`)
)

// read finds the tests that failed or were skipped. The reason of a skip is on the line after it in
// the output of gotestsum, and on the line before it in the output of go test.
func (p *part) read(lines []string) {
	for i, line := range lines {
		if failurePattern.MatchString(line) {
			p.Failed = append(p.Failed, strings.TrimSpace(line))
		}
		switch m := skipPattern.FindStringSubmatch(line); {
		case m == nil:
		case m[1] == "=== " && i+1 < len(lines):
			p.Skipped = append(p.Skipped, m[2]+": "+strings.TrimSpace(lines[i+1]))
		case m[1] != "" && i > 0:
			p.Skipped = append(p.Skipped, m[2]+": "+strings.TrimSpace(lines[i-1]))
		default:
			p.Skipped = append(p.Skipped, m[3])
		}
	}
}

// page describes the runs at a commit in markdown.
func page(commit string, runs []part) string {
	var b, details strings.Builder
	var took time.Duration
	fmt.Fprintf(&b, "# make nightly, %s\n\n| part | result | began (UTC) | took | at most |\n|---|---|---|---|---|\n", commit)
	for _, p := range runs {
		took += p.Took
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %v |\n", p.Name, p.Result, p.Began.UTC().Format(time.DateTime), p.Took.Round(time.Second),
			p.Bound)
		writeList(&details, p.Name+": failed", p.Failed)
		writeList(&details, p.Name+": skipped", p.Skipped)
	}
	fmt.Fprintf(&b, "\nAll runs took %v.\n", took.Round(time.Second))
	return b.String() + details.String()
}

// writeList writes a list with its title. If the list is empty, it writes nothing.
func writeList(b *strings.Builder, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n## %s\n\n- %s\n", title, strings.Join(lines, "\n- "))
	}
}
