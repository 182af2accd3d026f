package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is the processor time that each program has spent so far. Empty where there is no /proc.
type usage map[string]time.Duration

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every Linux of today (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

func (b *rig) usage(c contender) usage {
	u := usage{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		name := ""
		pid, parent, spent, err := readStat(path)
		switch {
		case err != nil:
		case pid == os.Getpid():
			name = "callers and mail server"
		case pid == b.redis.PID():
			name = "Redis"
		case pid == b.postgres.PID() || parent == b.postgres.PID():
			name = "Postgres"
		case pid == c.process.cmd.Process.Pid:
			name = c.name
		}
		if name != "" {
			u[name] += spent
		}
	}
	return u
}

// readStat reads what stands behind the name, which is in brackets and may hold anything.
func readStat(path string) (pid, parent int, spent time.Duration, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, 0, err
	}
	text := string(raw)
	head, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndex(rest, ") ")
	if !ok || end < 0 {
		return 0, 0, 0, fmt.Errorf("%s: unexpected", path)
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 13 {
		return 0, 0, 0, fmt.Errorf("%s: too short", path)
	}
	numbers := make([]int, 0, 4)
	for _, f := range []string{head, fields[1], fields[11], fields[12]} { // pid, ppid, utime, stime
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, 0, 0, err
		}
		numbers = append(numbers, n)
	}
	return numbers[0], numbers[1], time.Duration(numbers[2]+numbers[3]) * tick, nil
}

// since is what was spent after an earlier look, for each send.
func (u usage) since(earlier usage, sends int) usage {
	each := usage{}
	for name, spent := range u {
		each[name] = (spent - earlier[name]) / time.Duration(max(1, sends))
	}
	return each
}
