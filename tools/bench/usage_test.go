//go:build nightly

package bench

import (
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// usage is the processor time that each thread has had, by its ID. Empty where there is no /proc.
type usage map[int]time.Duration

// usageOf reads it for all threads of the processes: that of a process itself is of its first
// thread alone.
func usageOf(pids ...int) usage {
	u := usage{}
	for _, pid := range pids {
		threads, _ := procfs.AllThreads(pid)
		for _, t := range threads {
			if s, err := t.Schedstat(); err == nil { // else it ended since
				u[t.PID] = time.Duration(s.RunningNanoseconds)
			}
		}
	}
	return u
}

// usages are those of all processes that a send costs time of.
func (b *rig) usages(c contender) map[string]usage {
	return map[string]usage{
		inProgram:  usageOf(c.process.PID()),
		inPostgres: usageOf(append(children(b.postgres.PID()), b.postgres.PID())...),
		inRedis:    usageOf(b.redis.PID()),
		inCallers:  usageOf(os.Getpid()),
	}
}

// used is what each process had between two looks. What a thread that has ended meanwhile had is
// lost.
func used(earlier, later map[string]usage) map[string]time.Duration {
	sums := map[string]time.Duration{}
	for process, threads := range later {
		for thread, spent := range threads {
			sums[process] += spent - earlier[process][thread]
		}
	}
	return sums
}

// children are the processes whose parent is pid.
func children(pid int) (list []int) {
	all, _ := procfs.AllProcs()
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == pid {
			list = append(list, p.PID)
		}
	}
	return list
}

// machineTime is for how long the machine's processors were busy so far, and for how long they were
// there.
func machineTime() (busy, all time.Duration) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	stat, _ := fs.Stat()
	c := stat.CPUTotal
	seconds := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return time.Duration(seconds * float64(time.Second)),
		time.Duration((seconds + c.Idle + c.Iowait) * float64(time.Second))
}

// memoryOf is the resident memory of a process, now and at most so far, in bytes.
func memoryOf(pid int) (now, most float64) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0
	}
	status, _ := p.NewStatus()
	return float64(status.VmRSS), float64(status.VmHWM)
}
