package servertest

import (
	"regexp"
	"testing"
)

// Blocks returns the fenced blocks of a language in a document. It ends the test if there is none.
func Blocks(tb testing.TB, text, language string) (all []string) {
	tb.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	if all == nil {
		tb.Fatalf("no block of %s is in: %.80s", language, text)
	}
	return all
}
