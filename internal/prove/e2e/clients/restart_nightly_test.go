//go:build nightly

// Only make nightly runs this test: it takes half a minute.

package clients

import "testing"

// Forty restarts one after another lose no event.
func TestManyRestartsForgetNothing(t *testing.T) { endAndStart(t, 40) }
