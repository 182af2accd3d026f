package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"sendcode/tools/bench/report"
)

// describe says what is measured, when, and on what.
func (b *rig) describe(ctx context.Context, p plan) (r report.Results, err error) {
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	memory, _ := os.ReadFile("/proc/meminfo")
	r = report.Results{
		Machine: report.Machine{Processors: runtime.NumCPU(), Model: cpuModel(string(cpus)),
			Memory: int(math.Round(statusField(string(memory), "MemTotal") / (1 << 30)))},
		Date: time.Now(), Commit: commit(ctx), Rounds: p.rounds, Length: p.length,
	}
	r.Disk, _ = fileSystem(b.dir)
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
func realDisk() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{os.TempDir(), "/var/tmp", here} {
		if _, memory := fileSystem(dir); !memory {
			return dir, nil
		}
	}
	return "", errNoDisk
}

// fileSystemOf names what statfs(2) says.
func fileSystemOf(magic int64) (name string, memory bool) {
	switch magic {
	case 0x01021994:
		return "tmpfs", true
	case 0x858458f6:
		return "ramfs", true
	case 0xef53:
		return "ext4", false
	case 0x58465342:
		return "xfs", false
	case 0x9123683e:
		return "btrfs", false
	case 0x794c7630:
		return "overlay", false
	default:
		return fmt.Sprintf("a file system of type %#x", magic), false
	}
}
