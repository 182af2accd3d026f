//go:build unix

package metrics

import "syscall"

// diskSpace returns the free space for unprivileged users on the disk that holds a directory, and
// the disk's size, in bytes. ok is false if the system does not report them.
func diskSpace(dir string) (free, size float64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, false
	}
	return float64(s.Bavail) * float64(s.Bsize), float64(s.Blocks) * float64(s.Bsize), true
}
