package servertest

import "testing"

// Same fails the test, and says what differs, unless the values are equal.
func Same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
