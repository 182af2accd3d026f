// Package codetest gives tests wrong codes. Each differs from the right one at one position, and
// each call takes the next position, so a comparison that ignores a position approves one of them.
package codetest

import (
	"hash/fnv"
	"strings"
	"sync/atomic"

	"sendcode/internal/codes/code"
)

// Wrong returns the right code with another character at position n, counted from 0. After the last
// position, it begins again at the first one, with a different character. It panics if the right
// code is empty.
func Wrong(right string, n int) string {
	characters := code.FormatOf(right).Alphabet.Characters()
	at, step := n%len(right), 1+n/len(right)%(len(characters)-1)
	other := characters[(strings.IndexByte(characters, right[at])+step)%len(characters)]
	return right[:at] + string(other) + right[at+1:]
}

// WrongCodes returns a function that returns the next wrong code at each call, from a position that
// depends on the test's name. Safe for concurrent use.
func WrongCodes(test string) func(right string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	var calls atomic.Int64
	calls.Store(int64(h.Sum32() >> 1)) // so that the number fits in an int of 32 bits
	return func(right string) string { return Wrong(right, int(calls.Add(1))) }
}
