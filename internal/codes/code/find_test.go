package code

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
)

// Find accepts codes as people type and paste them, and whole messages as a phone's "copy message"
// gives them. It corrects no typing errors, and doesn't guess if a text may contain two codes.
// theTableOfCards tries the page's scripts with the same table.
func TestFind(t *testing.T) {
	file, err := os.ReadFile("testdata/typed.json")
	servertest.OK(t, err)
	type row struct {
		In, Code, Reason string
		Length           int
		Letters          bool
	}
	var rows []row
	servertest.OK(t, json.Unmarshal(file, &rows))
	rows = append(rows, row{In: strings.Repeat("x", 3000) + "293848", Length: 6, Reason: "too_long"})
	for _, c := range rows {
		format, bad := Format{Digits, c.Length}, &fault.InvalidError{}
		if c.Letters {
			format.Alphabet = Unambiguous
		}
		if got, err := format.Find(c.In); got != c.Code || (c.Reason == "") != (err == nil) ||
			errors.As(err, &bad) && bad.Reason != c.Reason {
			t.Errorf("Find(%q) = %q, %v, want %q %s", c.In, got, err, c.Code, c.Reason)
		}
	}
}
