// Command count reads the output of `go test -json` on its standard input and
// prints it for people: a line for each package, the output of the tests that
// failed, why others were skipped, and as the very last line
//
//	N passed, N failed, N skipped
//
// It exits with 1 unless something passed and nothing failed. `make test` pipes
// every test through it.
package main

import (
	"fmt"
	"os"
)

func main() {
	t := newTally(os.Stdout)
	if err := t.read(os.Stdin); err != nil {
		fmt.Println("the output of go test:", err)
		t.failed++
	}
	if !t.finish() {
		os.Exit(1)
	}
}
