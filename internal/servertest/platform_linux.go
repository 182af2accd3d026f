package servertest

import (
	"os"
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
