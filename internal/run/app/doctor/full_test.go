package doctor

import (
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// A full disk still has room for a file's name, but the doctor reports that nothing can be written.
func TestTryToWriteOnAFullDisk(t *testing.T) {
	servertest.OnSmallDisk(t, 3<<20, func(disk *servertest.Disk) {
		servertest.OK(t, tryToWrite(disk.Dir))
		servertest.OK(t, disk.Fill())
		if err := tryToWrite(disk.Dir); err == nil || !strings.Contains(err.Error(), "free room") {
			t.Errorf("on a full disk: %v", err)
		}
		servertest.OK(t, disk.MakeRoom())
		servertest.OK(t, tryToWrite(disk.Dir))
	})
}
