package servertest

import (
	"fmt"
	"os"
	"syscall"
)

// fastTempDir returns a directory in memory if there is room. A cluster has a thousand small files,
// which take a second to make on a disk, and a twentieth of a second in memory. (Containers often
// have 64 MB there, too little.)
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
	attr.Pdeathsig = sig // prctl(2), PR_SET_PDEATHSIG; Go sets it after the change of user, which would clear the signal
}

// mount mounts a tmpfs of this size. Every user may write in it.
func mount(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0777", size))
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// mayMount makes a process start in its own user and mount namespaces. Each user keeps their ID
// there, because Postgres refuses to run as root.
func mayMount() *syscall.SysProcAttr {
	const capSysAdmin, all = 21, 1 << 16 // 21: see capabilities(7); 1<<16: the user IDs of most systems
	users, groups := []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		[]syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	if root := os.Getuid() == 0; root {
		users[0].Size, groups[0] = all, syscall.SysProcIDMap{Size: all}
	}
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: users, GidMappings: groups,
		GidMappingsEnableSetgroups: os.Getuid() == 0, AmbientCaps: []uintptr{capSysAdmin}, Pdeathsig: syscall.SIGKILL,
	}
}
