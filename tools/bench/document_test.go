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
	titleNeeds   = "What 10 million sends a day need"
	titleOther   = "Where 100 million need other figures"
	titleHour    = "An hour"
	titleRows    = "With millions of rows"

	titleRetention = "Beside the retention"
)

// pages are the documents, by their files, with the titles of their sections: what operators plan by, and what contributors compare.
var pages = []struct {
	file   string
	titles []string
}{
	{"docs/PERFORMANCE.md", []string{
		titleSummary, titleNeeds, titleOther, "The limiter alone", titleHour, titleRows, "One recipient attacked",
	}},
	{"tools/bench/RESULTS.md", []string{
		"Goals", "Where the time of a send goes", "Other requests beside a send", "A minute on a fresh database", "Sends beside floors",
		"At half the highest rate", titleRetention,
	}},
}

// optional sections may come of runs of their own, and say when.
var optional = []string{titleHour, titleRows, titleRetention}

// document is a page. Sections that were not measured this time are kept as they stand in old, and so is its preface if
// sends were not measured.
func document(old, preface, when string, texts map[string]string, titles []string) string {
	kept, had := sections(old)
	if kept == "" || texts[titleSummary] != "" {
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

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// goals are bounds that are asked for, and what came out.
type goals struct {
	*grid
	missed []string
}

func newGoals() *goals { return &goals{grid: newGrid("what", "goal", "measured", "result")} }

func (g *goals) least(name string, bound, value float64) {
	g.judge(name, "≥ ", bound, value, "", value >= bound)
}

func (g *goals) most(name string, bound, value float64, unit string) {
	g.judge(name, "≤ ", bound, value, unit, value <= bound)
}

func (g *goals) judge(name, sign string, bound, value float64, unit string, met bool) {
	if !met {
		g.missed = append(g.missed, name)
	}
	g.add(name, sign+number(bound)+unit, number(value)+unit, verdict(met))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// reasons say why goals are missed, by how their names begin.
var reasons = map[string]string{
	"until nothing is due": "it is looked at once a minute, and the look before found rows that were due.",
	"sends/s":              "the floor seals, hashes and renders nothing, has no leases and one gate, and writes 3 index entries where a send has 9.",
	"202 of one caller":    "two round trips to Postgres, where the floor makes one: Go decides between them.",
	"202 at half":          "two round trips, and processors that are busier than the floor's.",
	"Postgres for":         "the look-ups of the second gate, and the rows of verification, send and outbox with their index entries.",
	"the right code ÷ the fair": "a third of the program's time signs the proof; the rest authenticates, derives the code, judges " +
		"the recipient's other checks and writes the check down.",
	"takes of a limit": "each take is a script in Redis; bare HTTP asks no other process.",
	"WAL":              "the index entries.",
	"limiter ÷":        "the bare script touches no key; a decision reads and writes a sorted set for each bucket.",
	"the first look":   "it reads the history from the database and writes it to Redis, where a later look makes one call.",
	"a resend":         "it reads the verification before, and updates its row.",
}

// String is the table, and the reasons of what was missed.
func (g *goals) String() string {
	text := g.grid.String()
	for _, name := range g.missed {
		reason := "not explained yet."
		for begin, why := range reasons {
			if strings.HasPrefix(name, begin) {
				reason = why
			}
		}
		text += "\n- " + name + ": " + reason
	}
	return text + "\n"
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
