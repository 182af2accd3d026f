package house

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// These are the last columns, where a tab counts as four. .editorconfig has the same widths. Texts
// in quotes don't count, because a text is never split. Comments with code, a table or a URL don't
// count either.
const commentWidth, codeWidth = 100, 140

// inQuotes matches a text in quotes, or the beginning of a text that ends on another line.
var inQuotes = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*(?:`|$)|'(?:[^'\\\\]|\\\\.)+'")

// wideLines returns the numbers of the lines that go beyond the last column.
func wideLines(text string) (wide []int) {
	within := false // whether the line is within a text of several lines
	for n, line := range strings.Split(text, "\n") {
		began := within
		if strings.Count(line, "`")%2 == 1 {
			within = !within
		}
		if began {
			_, line, _ = strings.Cut(line, "`")
		}
		line = strings.ReplaceAll(line, "\t", "    ")
		comment, is := strings.CutPrefix(strings.TrimSpace(line), "//")
		width := utf8.RuneCountInString(line)
		if is {
			sample := strings.HasPrefix(comment, "    ") || strings.Contains(strings.TrimSpace(comment), "  ") || strings.Contains(comment, "://")
			if width > commentWidth && !sample && strings.HasPrefix(comment, " ") {
				wide = append(wide, n+1)
			}
			continue
		}
		if width > codeWidth && utf8.RuneCountInString(inQuotes.ReplaceAllString(line, "")) > codeWidth {
			wide = append(wide, n+1)
		}
	}
	return wide
}

func TestSourceLinesAreNotTooWide(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for text, want := range map[string]int{
		"// " + long:                             1,
		"//\t" + long:                            0,
		"\tx := `\n" + long + long + "\n`":       0,
		"\tf(" + strings.Repeat("a, ", 50) + ")": 1,
		"\tf(\"" + long + "\")":                  0,
	} {
		if got := len(wideLines(text)); got != want {
			t.Errorf("%d wide lines in %q, want %d", got, text, want)
		}
	}
	for _, s := range sources(t) {
		for _, n := range wideLines(s.text) {
			t.Errorf("%s:%d is wider than %d columns in a comment, or %d in code", s.name, n, commentWidth, codeWidth)
		}
	}
}
