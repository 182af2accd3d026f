package app

import (
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// containerMemory is the memory limit, in bytes, of the cgroup that the process is in and of those around it: the lowest of
// them, from cgroup v2's memory.max or v1's memory.limit_in_bytes. False: there is none, or this is no Linux. root is "/".
func containerMemory(root fs.FS) (int64, bool) {
	lowest := int64(math.MaxInt64)
	listed, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(listed)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // ID, controllers, path (cgroups(7))
		if len(parts) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case parts[1] == "": // v2
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) { // a container without a namespace of its own has only the last
			lowest = min(lowest, limitIn(root, path.Join(mount, dir, file)))
			if dir == "/" {
				break
			}
		}
	}
	return lowest, lowest < noLimit
}

// noLimit is beyond any memory: v1 writes a number of pages near the end of int64 where there is no limit.
const noLimit = 1 << 60

func limitIn(root fs.FS, file string) int64 {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 { // "max"
		return math.MaxInt64
	}
	return n
}

// heapShare is the part of the container's memory that Go's runtime may have; the rest is for what it does not count, such as the
// binary itself and the kernel's buffers. On the way there the collector runs more often than GOGC says, so the two go together.
const heapShare = 0.9
