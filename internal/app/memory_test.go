package app

import (
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestContainerMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // 0: no limit
	}{
		"v2 in a container":     {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 536870912},
		"v2 without a limit":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"v2, the lowest around": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": "1000", "sys/fs/cgroup/memory.max": "2000"}, 1000},
		"v2, the lowest within": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "500", "sys/fs/cgroup/a/memory.max": "1000"}, 500},
		"v2, a path of outside": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/x\n", "sys/fs/cgroup/memory.max": "700"}, 700},
		"v1":                    {map[string]string{"proc/self/cgroup": "5:cpu:/c\n4:hugetlb,memory:/c\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "300\n"}, 300},
		"v1 without a limit":    {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"both":                  {map[string]string{"proc/self/cgroup": "4:memory:/\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "300\n", "sys/fs/cgroup/memory.max": "max"}, 300},
		"nonsense":              {map[string]string{"proc/self/cgroup": "nonsense\n0::/../../x\n", "sys/fs/cgroup/memory.max": "-5"}, 0},
		"no Linux":              {nil, 0},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, ok := containerMemory(root); ok != (c.want > 0) || ok && got != c.want {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
}

// The runtime is told of the limit, unless the environment says one.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	gc := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(before); debug.SetGCPercent(gc) })
	root := fstest.MapFS{
		"proc/self/cgroup": &fstest.MapFile{Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": &fstest.MapFile{Data: []byte("1000000000000\n")},
	}
	tuneRuntime(func(string) string { return "8TiB" }, root)
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT the limit is %d", got)
	}
	tuneRuntime(func(string) string { return "" }, root)
	if got := debug.SetMemoryLimit(-1); got != 900_000_000_000 {
		t.Errorf("the limit is %d", got)
	}
	if got := debug.SetGCPercent(100); got != collectAt {
		t.Errorf("GOGC is %d", got)
	}
}
