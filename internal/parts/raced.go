//go:build race

package parts

const raced = true
