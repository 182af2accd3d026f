// Package sample is what the tests of mutants change.
package sample

import (
	_ "embed"
	"strings"
)

//go:embed words.txt
var words string

const most = 3

func few(n int) bool { return n < most }

func positive(n int) int {
	if n < 0 {
		return 0
	}
	return n
}

func count() int { return len(strings.Fields(words)) }
