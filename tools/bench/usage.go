package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sendcode/tools/bench/report"
)

// usage is the processor time that each thread has had, by its ID. Empty where there is no /proc.
type usage map[string]time.Duration

// usageOf reads it for all threads of the processes: /proc/PID/schedstat itself is of the first thread alone (proc_pid_schedstat(5)).
func usageOf(pids []int) usage {
	u := usage{}
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				continue // it ended since
			}
			if spent, err := readSchedstat(string(raw)); err == nil {
				u[file] = spent
			}
		}
	}
	return u
}

// readSchedstat reads the first of three numbers: ns on a processor.
func readSchedstat(line string) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return 0, fmt.Errorf("schedstat: %q", line)
	}
	ns, err := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(ns), err
}

// since is what was spent after an earlier look. A thread that has ended since is lost.
func (u usage) since(earlier usage) (sum time.Duration) {
	for thread, spent := range u {
		sum += spent - earlier[thread]
	}
	return sum
}

// usages are those of all processes that a send costs time of.
func (b *rig) usages(c contender) map[string]usage {
	return map[string]usage{
		report.Service:  usageOf([]int{c.process.pid()}),
		report.Postgres: usageOf(append(children(b.postgres.PID()), b.postgres.PID())),
		report.Redis:    usageOf([]int{b.redis.PID()}),
		report.Receiver: usageOf([]int{b.mails.process.pid()}),
		report.Callers:  usageOf([]int{os.Getpid()}),
	}
}

// children are the processes whose parent is pid.
func children(pid int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if child, parent, err := readStat(string(raw)); err == nil && parent == pid {
			list = append(list, child)
		}
	}
	return list
}

// readStat reads what stands around the name, which is in brackets and may hold anything.
func readStat(line string) (pid, parent int, err error) {
	head, rest, ok := strings.Cut(line, " (")
	end := strings.LastIndex(rest, ") ")
	if !ok || end < 0 {
		return 0, 0, fmt.Errorf("stat: %q", line)
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("stat: %q", line)
	}
	if pid, err = strconv.Atoi(head); err == nil {
		parent, err = strconv.Atoi(fields[1])
	}
	return pid, parent, err
}

// machineTime is for how long the machine's processors were busy so far, and for how long they were there.
func machineTime() (busy, all time.Duration) {
	raw, _ := os.ReadFile("/proc/stat")
	return readMachineTime(string(raw))
}

// readMachineTime reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, in USER_HZ, which is 100 on
// every Linux of today (proc_stat(5)).
func readMachineTime(stat string) (busy, all time.Duration) {
	const tick = 10 * time.Millisecond
	line, _, _ := strings.Cut(stat, "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.Atoi(field)
		if err != nil || i > 8 { // the name; guests, which are counted as users too
			continue
		}
		if all += time.Duration(n) * tick; i != 4 && i != 5 {
			busy += time.Duration(n) * tick
		}
	}
	return busy, all
}

// memoryOf is the resident memory of a process, now and at most so far, in bytes.
func memoryOf(pid int) (now, most float64) {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return statusField(string(raw), "VmRSS"), statusField(string(raw), "VmHWM")
}

// statusField reads a field of /proc/PID/status that is in kB.
func statusField(status, name string) float64 {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return n * 1024
		}
	}
	return 0
}
