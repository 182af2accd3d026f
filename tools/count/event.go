package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json` (go doc test2json, go help buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output and build-fail
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string // ImportPath of the build that a package failed for
}

// read takes every event up to the end of the stream. A line that is no event
// comes from something else that writes there, and is passed on.
func (t *tally) read(stream io.Reader) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			t.take(e)
		} else if text := strings.TrimRight(line, "\n"); text != "" {
			fmt.Fprintln(t.out, text)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
