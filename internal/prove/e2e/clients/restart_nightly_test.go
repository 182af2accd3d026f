//go:build nightly

// Only `make nightly` runs this test: it takes half a minute.

package clients

import "testing"

// Forty restarts lose only the last events before each kill.
func TestManyRestartsForgetNothing(t *testing.T) { endAndStart(t, 40) }
