package main

import "syscall"

func fileSystem(dir string) (name string, memory bool) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return "an unknown file system", true
	}
	return fileSystemOf(int64(stat.Type))
}
