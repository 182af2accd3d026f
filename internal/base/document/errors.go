package document

import (
	"fmt"
	"strings"

	"sendcode/internal/base/recipient"
)

// Mistake describes one problem of a configuration in plain words.
type Mistake struct {
	Where string // "SENDCODE_ADDR", or "sendcode.yaml:12: policies.default[0].window"
	Text  string
}

// Errors has all mistakes of a configuration.
type Errors struct {
	Mistakes []Mistake
}

// Error writes each mistake on a line of its own.
func (e *Errors) Error() string {
	var b strings.Builder
	if len(e.Mistakes) == 1 {
		b.WriteString("the configuration has a mistake:")
	} else {
		fmt.Fprintf(&b, "the configuration has %d mistakes:", len(e.Mistakes))
	}
	for _, m := range e.Mistakes {
		fmt.Fprintf(&b, "\n  - %s: %s", m.Where, m.Text)
	}
	return b.String()
}

func (e *Errors) Add(where, format string, args ...any) {
	e.Mistakes = append(e.Mistakes, Mistake{where, fmt.Sprintf(format, args...)})
}

// OrNil returns e as an error, or nil if there is no mistake.
func (e *Errors) OrNil() error {
	if len(e.Mistakes) == 0 {
		return nil
	}
	return e
}

// DidYouMean returns ", did you mean …?" with the most similar known word, or "" if none is
// similar.
func DidYouMean(typed string, known []string) string {
	if len(typed) > 64 {
		return ""
	}
	best, bestDistance := "", min(len(typed)/3+1, 3)
	for _, k := range known {
		if d := recipient.EditDistance(typed, k); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", best)
}
