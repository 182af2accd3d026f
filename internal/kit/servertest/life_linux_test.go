//go:build nightly

// Only make nightly runs these tests: they are of a kit, and of nothing that is served.

package servertest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// parentVariable makes the test binary play the parent that is to be killed.
const parentVariable = "SENDCODE_PARTS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		os.Exit(m.Run())
	}
	redis, errRedis := StartRedis(context.Background())
	postgres, errPostgres := StartPostgres(context.Background())
	if err := errors.Join(errRedis, errPostgres); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, s := range []*server{&redis.server, &postgres.server} {
		fmt.Println(s.PID(), s.place.dir)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // for ever
}

// Servers die with the process that started them, and the next place that is claimed removes their
// directories.
func TestKilledParentLeavesNoChild(t *testing.T) {
	Redis(t) // these skip where there is none
	Postgres(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	parent.Stderr = os.Stderr
	_, err := parent.StdinPipe()
	need(t, err)
	out, err := parent.StdoutPipe()
	need(t, err)
	process, err := Run(parent)
	need(t, err)
	t.Cleanup(process.Kill)
	pids, dirs := []int{}, map[string]os.FileInfo{}
	for lines := bufio.NewReader(out); len(pids) < 2; {
		var pid int
		var name string
		_, err := fmt.Fscanln(lines, &pid, &name)
		need(t, err)
		pids = append(pids, pid)
		dirs[name], err = os.Stat(name)
		need(t, err)
	}
	process.Kill()
	for _, pid := range pids {
		Await(t, fmt.Sprint("the end of process ", pid), func() bool { return gone(pid) })
	}
	Redis(t) // a new place sweeps the old ones, unless another process is at it
	for name, dir := range dirs {
		// or the place has become another's, with a new directory
		Await(t, "the end of the directory "+name, func() bool {
			now, err := os.Stat(name)
			return os.IsNotExist(err) || err == nil && !os.SameFile(dir, now)
		})
	}
}

// gone says whether a process has ended: by the letter of proc(5), a dead one that was not waited
// for is Z.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || stat[bytes.LastIndexByte(stat, ')')+2] == 'Z'
}
