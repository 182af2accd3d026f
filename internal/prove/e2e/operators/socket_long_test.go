//go:build nightly

// Only `make nightly` runs this test: it takes a minute.
package operators

import "testing"

func TestManyRestartsWithPassedSocket(t *testing.T) {
	t.Parallel()
	restartUnderLoad(t, true, 20, 100)
}
