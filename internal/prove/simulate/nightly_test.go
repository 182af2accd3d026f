//go:build nightly && !race

package simulate_test

func init() { twice = 50 }
