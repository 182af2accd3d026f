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
	titleHour  = "An hour"
	titleTakes = "Limits"
	titleRows  = "With millions of rows"
)

var (
	// titles are the sections of the document, in its order.
	titles = []string{
		"Goals", "Sends", "What a send costs", "At half the highest rate", "Other requests", titleTakes, "Memory and start",
		"A minute on a fresh database", titleHour, "One recipient attacked", "The limiter alone", titleRows,
		"What 10 and 100 million sends a day need",
	}
	// optional sections may come of runs of their own, and say when.
	optional = []string{titleHour, titleTakes, titleRows}
)

// document is docs/PERFORMANCE.md. Sections that were not measured this time are kept as they stand in old, and so is its preface if
// sends were not measured.
func document(old, preface, when string, texts map[string]string) string {
	kept, had := sections(old)
	if kept == "" || texts["Sends"] != "" {
		kept = preface
	}
	var out strings.Builder
	out.WriteString(strings.TrimRight(kept, "\n") + "\n")
	for _, title := range titles {
		text := texts[title]
		if text == "" {
			text = had[title]
		} else if slices.Contains(optional, title) {
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

// grid is a table of plain text in a fence: words to the left, numbers to the right, at least two spaces between columns.
type grid struct{ rows [][]string }

func newGrid(head ...string) *grid { return &grid{rows: [][]string{head}} }

func newGoals() *grid { return newGrid("what", "goal", "measured", "result") }

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// least and most add a bound that is asked for, and what came out.
func (g *grid) least(name string, bound, value float64) {
	g.add(name, "≥ "+number(bound), number(value), verdict(value >= bound))
}

func (g *grid) most(name string, bound, value float64, unit string) {
	g.add(name, "≤ "+number(bound)+unit, number(value)+unit, verdict(value <= bound))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

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
