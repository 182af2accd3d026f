//go:build !race

package servertest

// Raced is whether the race detector is on.
const Raced = false
