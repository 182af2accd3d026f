// Package sample is the code that TestRun of tools/mutants changes.
package sample

import (
	_ "embed"
	"errors"
	"strings"
)

//go:embed script.lua
var script string

const most = 3

var errNegative = errors.New("negative")

func few(n int) bool { return n < most }

func positive(n int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	return n, nil
}

func abs(n int) int {
	if n < 0 {
		n = -n
	}
	return n
}

func accepts() bool { return strings.Contains(script, "n <= 2") }
