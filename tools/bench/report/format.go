package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// grid is a table of plain text in a fence: words to the left, numbers to the right, at least two spaces between columns.
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

// words says whether a column has words, by its first cell.
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
		return thousands(f)
	case abs >= 100:
		return fmt.Sprintf("%.0f", f)
	case abs >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

func thousands(f float64) string {
	digits := fmt.Sprintf("%.0f", f)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// spread is a median and, in brackets, the lowest and the highest.
func (s Spread) String() string {
	if s.Low == s.High {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Low), number(s.High))
}

func micros(d time.Duration) string { return number(float64(d) / float64(time.Microsecond)) }

func millis(d time.Duration) string { return fmt.Sprintf("%.2f", ms(d)) }

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
