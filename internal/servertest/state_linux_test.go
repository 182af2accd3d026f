package servertest

import (
	"bytes"
	"fmt"
	"os"
)

// state is the letter of proc(5): T stopped, Z dead but not waited for; empty
// where there is no such process.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(stat[bytes.LastIndexByte(stat, ')')+2])
}
