//go:build unix && !linux

package parts

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func fastTempDir() string { return os.TempDir() }

// dieWithParent does nothing here: there is no such signal, so the child stays
// in the terminal's process group and a Ctrl-C reaches it as well.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func children(pid int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var found []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, err
		}
		found = append(found, child)
	}
	return found, nil
}
