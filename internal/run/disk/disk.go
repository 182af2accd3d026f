//go:build unix

// Package disk asks the operating system about disks and files.
package disk

import (
	"os"
	"slices"
	"syscall"
)

// Space returns the free space for unprivileged users on the disk with the directory dir, and the
// disk's size, in bytes. If the system does not report them, ok is false.
func Space(dir string) (free, size float64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, false
	}
	return float64(s.Bavail) * float64(s.Bsize), float64(s.Blocks) * float64(s.Bsize), true
}

// OfOwnGroup reports whether a file belongs to a group of this process.
func OfOwnGroup(a os.FileInfo) bool {
	x, known := a.Sys().(*syscall.Stat_t)
	groups, _ := os.Getgroups()
	return known && slices.Contains(append(groups, os.Getegid()), int(x.Gid))
}

// SameOwner reports whether two files belong to the same user. If files have no owner, it returns
// true.
func SameOwner(a, b os.FileInfo) bool {
	x, known := a.Sys().(*syscall.Stat_t)
	y, also := b.Sys().(*syscall.Stat_t)
	return !known || !also || x.Uid == y.Uid
}
