//go:build nightly

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

// prefaces say what is measured, when, and on what: of each page.
func (b *rig) prefaces(when string) [2]string {
	model, memory := runtime.GOARCH, 0.
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
			model = cpus[0].ModelName
		}
		if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
			memory = float64(*m.MemTotalBytes) / (1 << 30)
		}
	}
	var version, fsync string
	const settings = "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync')"
	b.must(b.admin.QueryRow(b.Context(), settings).Scan(&version, &fsync))
	machine := fmt.Sprintf(`
<!-- Written by make bench. Do not edit. -->

Measured %s on %d processors (%s) with %.0f GB of memory.
Postgres %s on %s with fsync %s, Redis with an append-only file, a mail server that accepts everything, and the callers share the machine.
Values are medians of %d rounds of %v; rates also have (lowest–highest). Compare ratios only: other runs and machines give other figures.
%s`, when, runtime.NumCPU(), model, memory, version, fileSystem(b.dir), fsync, b.rounds, b.length, b.foreign())
	return [2]string{"# Performance\n" + machine + "[Floors and goals](../tools/bench/RESULTS.md) are for contributors.\n", `# Floors and goals

- **ours**: the service with its default settings. **embedded**: the same with SQLite and limits in process.
- **fair floor**: 300 lines that write the same rows without our promises: one Redis script, one transaction, the answer, the mail, one UPDATE;
  in batches, as the service does. A check there is one transaction that reads, counts and approves.
- **plain floor**: a script, an INSERT and a mail in turn, then the answer. **bare HTTP**: reads the request and answers.

A goal is what was measured when it was set, times 1.3 where more is worse and divided by 1.3 where less is. A miss fails ` + "`make bench`" + `. Its
reason is written by hand as "- COMMIT, GOAL: why" under "` + titleReasons + `", and goes with the next run.
` + machine}
}

// foreign says how much the machine was disturbed.
func (b *rig) foreign() string {
	var all []float64
	for _, e := range b.sent {
		for _, r := range e.runs {
			all = append(all, 100*r.foreign)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("Other programs used %s %% of the processors: if that is much, trust processor times only.\n",
		spreadOf(all))
}

// commit is the commit that is checked out, and whether there are changes that are in none. The
// document itself does not count.
func commit() string {
	id, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(id))
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/",
		":(top,exclude)docs/PERFORMANCE.md", ":(top,exclude)tools/bench/RESULTS.md").Output()
	if err != nil || len(changes) > 0 {
		name += " with changes"
	}
	return name
}

// realDisk is a directory on a disk, not in memory: where fsync waits for nothing, nothing that was
// measured would be true.
func realDisk(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	for _, dir := range []string{os.TempDir(), "/var/tmp", here} {
		if kind := fileSystem(dir); kind != "" && kind != "tmpfs" && kind != "ramfs" {
			return dir
		}
	}
	t.Skip("the directory for temporary files is in memory: set TMPDIR to one on a disk", err)
	return ""
}

// fileSystem names that of a directory; "" where df does not say.
func fileSystem(dir string) string {
	said, _ := exec.Command("df", "--output=fstype", dir).Output()
	_, name, _ := strings.Cut(string(said), "\n") // below the column's title
	return strings.TrimSpace(name)
}
