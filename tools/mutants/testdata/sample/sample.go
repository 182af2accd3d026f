// Package sample is what the tests of mutants change.
package sample

import (
	_ "embed"
	"strings"
)

//go:embed words.txt
var words string

const most = 3

func few(n int) bool {
	return n < most
}

type pair[T any] struct{ a, b T }

func (p pair[T]) swapped() pair[T] { return pair[T]{p.b, p.a} }

func sum(_ string, more ...int) (n int) {
	for _, x := range more {
		n += x
	}
	return n
}

func (p *pair[T]) forget() { *p = pair[T]{} }

type list []int

func (l list) longest(others ...list) int {
	n := len(l)
	for _, o := range others {
		n = max(n, len(o))
	}
	return n
}

func (l list) clear() {
	for i := range l {
		l[i] = 0
	}
}

func positive(n int) int {
	if n < 0 {
		return 0
	}
	return n
}

func count() int { return len(strings.Fields(words)) }
