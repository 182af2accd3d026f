// Command nightly runs targets of the Makefile, one after another, and goes on where one fails. It
// ends with a page: what ran, how long, what failed, what was skipped and why. The page is also
// bin/night/page.md, beside each part's output. `make nightly` runs it; an argument is a part and
// how long it may take: fuzz:30m. It exits with 1 if a part failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// resumed are the parts that do as much as fits into their time, and the rest the next time.
var resumed = []string{"simulate", "mutants"}

// grace is how long a part that was interrupted may take to end its servers.
const grace = time.Minute

// part is one part's run.
type part struct {
	name            string
	bound, took     time.Duration
	result          string
	failed, skipped []string // lines of its output
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := nightly(ctx, os.Args[1:], "make", filepath.Join("bin", "night"), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// nightly runs the parts by program, a make, and writes the page. Once ctx ends, it starts no more, and
// fails.
func nightly(ctx context.Context, args []string, program, dir string, out io.Writer) (failed bool, err error) {
	var parts []part
	for _, arg := range args {
		name, bound, _ := strings.Cut(arg, ":")
		p := part{name: name}
		if p.bound, err = time.ParseDuration(bound); err != nil {
			return false, fmt.Errorf("%q is no part with its time, such as fuzz:30m", arg)
		}
		parts = append(parts, p)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	for i := range parts {
		fmt.Fprintf(out, "%s: at most %v\n", parts[i].name, parts[i].bound)
		if err := parts[i].run(ctx, program, dir); err != nil {
			return false, err
		}
		failed = failed || parts[i].result == "failed" || parts[i].result == "not run"
	}
	text := page(parts)
	fmt.Fprint(out, "\n", text)
	return failed, os.WriteFile(filepath.Join(dir, "page.md"), []byte(text), 0o644)
}

// run runs the part and judges it by its exit and its output.
func (p *part) run(ctx context.Context, program, dir string) error {
	log, err := os.Create(filepath.Join(dir, p.name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	bounded, end := context.WithTimeout(ctx, p.bound)
	defer end()
	cmd := exec.CommandContext(bounded, program, p.name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it starts is interrupted, too
	group := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error {
		time.AfterFunc(grace, func() { _ = group(syscall.SIGKILL) })
		return group(syscall.SIGINT)
	}
	began := time.Now()
	failure := cmd.Start()
	if failure == nil {
		failure = cmd.Wait()
		_ = group(syscall.SIGTERM) // a shell's background jobs ignore an interrupt
	}
	p.took = time.Since(began)
	text, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	p.read(strings.Split(string(text), "\n"))
	switch {
	case cmd.Process == nil && ctx.Err() != nil:
		p.result = "not run"
	case failure == nil:
		p.result = "passed"
	case errors.Is(bounded.Err(), context.DeadlineExceeded) && slices.Contains(resumed, p.name) && len(p.failed) == 0:
		p.result = "stopped; the next run goes on"
	default:
		p.result = "failed"
		if len(p.failed) == 0 {
			p.failed = []string{failure.Error()}
		}
	}
	return nil
}

var (
	failure = regexp.MustCompile(`^\s*(?:=== |--- )FAIL: |^alive |^panic: `)
	skipped = regexp.MustCompile(`^\s*(=== |--- )SKIP: (.*)|^([\w-]+: skipped: .*)`)
)

// read finds the tests that failed or were skipped. The reason of a skip is the line after it where
// gotestsum tells it, and the line before it where go test does.
func (p *part) read(lines []string) {
	for i, line := range lines {
		if failure.MatchString(line) {
			p.failed = append(p.failed, strings.TrimSpace(line))
		}
		switch m := skipped.FindStringSubmatch(line); {
		case m == nil:
		case m[1] == "=== " && i+1 < len(lines):
			p.skipped = append(p.skipped, m[2]+": "+strings.TrimSpace(lines[i+1]))
		case m[1] != "" && i > 0:
			p.skipped = append(p.skipped, m[2]+": "+strings.TrimSpace(lines[i-1]))
		default:
			p.skipped = append(p.skipped, m[3])
		}
	}
}

// page tells of the parts in markdown.
func page(parts []part) string {
	var b, details strings.Builder
	commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output() // none without git
	fmt.Fprintf(&b, "# make nightly, %s\n\n| part | result | took | at most |\n|---|---|---|---|\n", strings.TrimSpace(string(commit)))
	for _, p := range parts {
		fmt.Fprintf(&b, "| %s | %s | %v | %v |\n", p.name, p.result, p.took.Round(time.Second), p.bound)
		tell(&details, p.name+": failed", p.failed)
		tell(&details, p.name+": skipped", p.skipped)
	}
	return b.String() + details.String()
}

// tell writes a list with its title; nothing if it is empty.
func tell(b *strings.Builder, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n## %s\n\n- %s\n", title, strings.Join(lines, "\n- "))
	}
}
