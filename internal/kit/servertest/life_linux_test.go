//go:build nightly

// Only `make nightly` runs these tests, because they test a kit and not the product.

package servertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Servers die with the process that started them, and the next process that claims a place removes
// their directories. The killed process is another run of this test.
func TestKilledParentLeavesNoChild(t *testing.T) {
	const killed = "SENDCODE_PARTS_TEST_PARENT"
	servers := []*server{&Redis(t).server, &Postgres(t).server} // both calls skip the test if their program is missing
	if os.Getenv(killed) != "" {
		for _, s := range servers {
			fmt.Println(s.PID(), s.place.dir)
		}
		select {} // until this process is killed
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestKilledParentLeavesNoChild$")
	parent.Env = append(os.Environ(), killed+"=1")
	out, err := parent.StdoutPipe()
	mustOrSkip(t, err)
	process, err := Run(parent)
	mustOrSkip(t, err)
	t.Cleanup(process.Kill)
	var pids [2]int
	var names [2]string
	_, err = fmt.Fscan(out, &pids[0], &names[0], &pids[1], &names[1])
	mustOrSkip(t, err)
	var dirs [2]os.FileInfo
	for i, name := range names {
		dirs[i], err = os.Stat(name)
		mustOrSkip(t, err)
	}
	process.Kill()
	for _, pid := range pids {
		Await(t, fmt.Sprint("the end of process ", pid), func() bool {
			// Z in proc(5) is a dead process whose parent has not waited for it
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || stat[bytes.LastIndexByte(stat, ')')+2] == 'Z'
		})
	}
	Redis(t) // a new place removes the old ones, unless another process is doing so
	for i, name := range names {
		// Another server may have taken the place, with a new directory.
		Await(t, "the end of the directory "+name, func() bool {
			now, err := os.Stat(name)
			return os.IsNotExist(err) || err == nil && !os.SameFile(dirs[i], now)
		})
	}
}
