package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"sendcode/tools/bench/report"
)

// describe says what is measured, when, and on what.
func (b *rig) describe(ctx context.Context, p plan) (r report.Results, err error) {
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	memory := 0.
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
			memory = float64(*m.MemTotalBytes) / (1 << 30)
		}
	}
	r = report.Results{
		Machine: report.Machine{Processors: runtime.NumCPU(), Model: cpuModel(string(cpus)), Memory: int(math.Round(memory))},
		Date:    time.Now(), Commit: commit(ctx), Rounds: p.rounds, Length: p.length,
	}
	r.Disk = fileSystem(ctx, b.dir)
	err = b.admin.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('fsync')").Scan(&r.Postgres, &r.Fsync)
	r.Postgres, _, _ = strings.Cut(r.Postgres, " ")
	return r, err
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// commit is the commit that is checked out, and whether there are changes that are in none. The document itself does not count.
func commit(ctx context.Context) string {
	id, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(id))
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ".",
		":!docs/PERFORMANCE.md").Output()
	if err != nil || len(changes) > 0 {
		name += " with changes"
	}
	return name
}

// errNoDisk: where fsync waits for nothing, nothing that was measured would be true.
var errNoDisk = errors.New("the directory for temporary files is in memory: set TMPDIR to one on a disk")

// realDisk is a directory on a disk, not in memory.
func realDisk(ctx context.Context) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{os.TempDir(), "/var/tmp", here} {
		if kind := fileSystem(ctx, dir); kind != "" && kind != "tmpfs" && kind != "ramfs" {
			return dir, nil
		}
	}
	return "", errNoDisk
}

// fileSystem names that of a directory; "" where df does not say.
func fileSystem(ctx context.Context, dir string) string {
	said, _ := exec.CommandContext(ctx, "df", "--output=fstype", dir).Output()
	_, name, _ := strings.Cut(string(said), "\n") // below the column's title
	return strings.TrimSpace(name)
}
