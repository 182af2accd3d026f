//go:build nightly

package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	titleSummary = "What one machine does"
	titleNeeds   = "What many sends a day need"
	titleHour    = "An hour"
	titleRows    = "With millions of rows"
	titleGoals   = "Goals"
	titleReasons = "Reasons for misses"

	titleRetention = "Beside the retention"
)

// pages are the documents, by their files, with the titles of their sections: what operators plan
// by, and what contributors compare.
var pages = []struct {
	file   string
	titles []string
}{
	{"docs/PERFORMANCE.md", []string{
		titleSummary, "Under rising load", titleNeeds, "The limiter alone", titleHour, titleRows,
		"One recipient attacked",
	}},
	{"tools/bench/RESULTS.md", []string{
		titleGoals, titleReasons, "Where the time of a send goes", "Other requests beside a send",
		"Sends beside floors", "At half load",
		titleRetention,
	}},
}

// ofTheirOwn are sections that may come of runs of their own, and say when.
var ofTheirOwn = []string{titleHour, titleRows, titleRetention}

// document is a page. Sections that were not measured this time are kept as they stand in old, and
// so is its preface if sends were not measured. Reasons are kept if they were written for the run
// that stands there.
func document(old, preface, when string, texts map[string]string, titles []string) string {
	kept, had := sections(old)
	if kept == "" || texts[titleSummary] != "" {
		kept = preface
	}
	var out strings.Builder
	out.WriteString(strings.TrimRight(kept, "\n") + "\n")
	for _, title := range titles {
		text := texts[title]
		switch {
		case title == titleReasons && texts[titleSummary] != "":
			text = reasonsOf(had[title], measuredAt.FindStringSubmatch(when)[1])
		case text == "":
			text = had[title]
		case slices.Contains(ofTheirOwn, title):
			text = "Measured " + when + ".\n\n" + text
		}
		if text != "" {
			out.WriteString("\n## " + title + "\n\n" + strings.TrimSpace(text) + "\n")
		}
	}
	return out.String()
}

// sections returns what stands in a document before its sections, and these by title.
func sections(text string) (preface string, found map[string]string) {
	found = map[string]string{}
	for i, part := range strings.Split(text, "\n## ") {
		if title, rest, ok := strings.Cut(part, "\n"); i == 0 {
			preface = part
		} else if ok {
			found[title] = rest
		}
	}
	return preface, found
}

// grid is a table of plain text in a fence: words to the left, numbers to the right, at least two
// spaces between columns.
type grid struct{ rows [][]string }

func newGrid(head ...string) *grid { return &grid{rows: [][]string{head}} }

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) String() string {
	widths := make([]int, len(g.rows[0]))
	for _, row := range g.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range g.rows {
		padded := slices.Clone(row)
		for i, cell := range row {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if g.words(i) {
				padded[i] = cell + fill
			} else {
				padded[i] = fill + cell
			}
		}
		out.WriteString(strings.TrimRight(strings.Join(padded, "  "), " ") + "\n")
	}
	return "```\n" + out.String() + "```\n"
}

// words reports whether a column has words, by its first cell.
func (g *grid) words(column int) bool {
	if column == 0 || len(g.rows) < 2 {
		return true
	}
	first, _ := utf8.DecodeRuneInString(g.rows[1][column])
	return unicode.IsLetter(first)
}

// number has three digits that count, or all of them before the point.
func number(f float64) string {
	switch abs := math.Abs(f); {
	case f == 0:
		return "0"
	case abs >= 1000:
		digits := fmt.Sprintf("%.0f", f)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case abs >= 100:
		return fmt.Sprintf("%.0f", f)
	case abs >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// size is bytes for people.
func size(bytes float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if bytes < 1000 {
			return number(bytes) + " " + unit
		}
		bytes /= 1000
	}
	return number(bytes) + " TB"
}
