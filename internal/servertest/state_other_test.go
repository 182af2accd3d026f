//go:build unix && !linux

package servertest

import (
	"os/exec"
	"strconv"
	"strings"
)

// state is the first letter of ps's state: T stopped, Z dead but not waited
// for; empty where there is no such process.
func state(pid int) string {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return text[:1]
	}
	return ""
}
