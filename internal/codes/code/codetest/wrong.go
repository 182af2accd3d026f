// Package codetest gives wrong codes to tests. Each wrong code differs from the right code at one
// position, and each call takes the next position. So a comparison that ignores a position approves
// one of the wrong codes.
package codetest

import (
	"hash/fnv"
	"strings"
	"sync/atomic"

	"sendcode/internal/codes/code"
)

// Wrong returns the nth wrong code: the right code with another character at position n, counted
// from 0. After the last position it begins again at the first, with a further character. It panics
// if the right code is empty.
func Wrong(right string, n int) string {
	characters := code.FormatOf(right).Alphabet.Characters()
	at, step := n%len(right), 1+n/len(right)%(len(characters)-1)
	other := characters[(strings.IndexByte(characters, right[at])+step)%len(characters)]
	return right[:at] + string(other) + right[at+1:]
}

// WrongCodes returns a function that returns the next wrong code at each call. The test's name
// determines the position of the first one. The function is safe for concurrent use.
func WrongCodes(test string) func(right string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test)) // tests begin at different positions
	var calls atomic.Int64
	calls.Store(int64(h.Sum32() >> 1)) // so that the number fits in an int of 32 bits
	return func(right string) string { return Wrong(right, int(calls.Add(1))) }
}
