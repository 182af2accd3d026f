package parts

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// fastTempDir is in memory where there is room: a cluster is a thousand small
// files, which take a second to make on a disk and a twentieth of one here.
// (Containers often have 64 MB there, too little.)
func fastTempDir() string {
	const memory, enough = "/dev/shm", 2 << 30
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memory, &stat); err == nil && stat.Bavail*uint64(stat.Bsize) >= enough {
		return memory
	}
	return os.TempDir()
}

func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) {
	attr.Setpgid = true
	attr.Pdeathsig = sig // prctl(2), PR_SET_PDEATHSIG; Go sets it after the change of user, which would clear it
}

// children lists the direct children of pid, from proc(5): in a stat line the
// parent is the second field after the parenthesised name.
func children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended since
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		found = append(found, child)
	}
	return found, nil
}
