//go:build nightly

// Only make nightly runs this test: TestProve, which make test runs, has the same faults and more.

package parts

import "testing"

// One process on one file keeps the promises that TestProve counts, killed, stopped and frozen.
func TestProveOneFile(t *testing.T) { proveOneFile(t, "one process on one file") }
