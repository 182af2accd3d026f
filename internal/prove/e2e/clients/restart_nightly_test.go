//go:build nightly

// Only make nightly runs this test: it takes half a minute.

package clients

import "testing"

// Nor do forty ends one after another lose an event.
func TestManyRestartsForgetNothing(t *testing.T) { endAndStart(t, 40) }
