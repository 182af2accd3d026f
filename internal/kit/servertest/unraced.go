//go:build !race

package servertest

const raced = false
