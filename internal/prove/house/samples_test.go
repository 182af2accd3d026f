package house

import (
	"regexp"
	"strings"
	"testing"
)

// sample is a block of a document: its language, and its first line.
type sample struct{ page, language, begins string }

// fits reports whether a row of docs/samples.md, whose fields may be shorter or be for every
// document, is about the sample. A row of a document is for its Chinese version too.
func (s sample) fits(row sample) bool {
	page := strings.Replace(s.page, ".zh-CN.md", ".md", 1)
	return (row.page == page || row.page == "every one") && row.language == s.language && strings.HasPrefix(s.begins, row.begins)
}

// aCommand is how a block without a language begins that a reader is to run.
var aCommand = regexp.MustCompile(`\A(?:sendcode |\./sendcode|go |make |node |export |docker |curl |ACL |[A-Z_]+=)`)

// Each block of commands, settings or code in the documents is run by a test that docs/samples.md
// names, or stands in its list of those that are not run here; each of its rows is about a block.
func TestEachSampleIsRunOrListed(t *testing.T) {
	rows := map[sample]int{}
	table := regexp.MustCompile("(?m)^\\| ([\\w./-]+\\.md|every one) \\| (\\w+) \\| (?:`([^`]+)`)? ?\\| .+ \\|$")
	page := readFile(t, "docs/samples.md")
	run, _, _ := strings.Cut(page, "\n## Not run here\n")
	for i, part := range []string{run, strings.TrimPrefix(page, run)} {
		for _, m := range table.FindAllStringSubmatch(part, -1) {
			row := sample{m[1], m[2], m[3]}
			if _, twice := rows[row]; twice {
				t.Errorf("docs/samples.md has two rows for %v", row)
			}
			if i == 0 && !namedTest.MatchString(m[0]) {
				t.Errorf("docs/samples.md says that %v is run, and names no test", row)
			}
			rows[row] = 0
		}
	}
	if lines := strings.Count(page, "\n| ") - 2; lines != len(rows) {
		t.Errorf("docs/samples.md has %d rows, of which %d can be read", lines, len(rows))
	}
	for _, s := range samplesOf(t, append(documents(t), "tools/release/README.md")) {
		found := 0
		for row := range rows {
			if s.fits(row) {
				rows[row]++
				found++
			}
		}
		if found != 1 {
			t.Errorf(
				"docs/samples.md has %d rows for the block of %s in %s that begins with %q; want one, which says what test runs it, or why none does",
				found, s.language, s.page, s.begins)
		}
	}
	for row, blocks := range rows {
		if blocks == 0 {
			t.Errorf("docs/samples.md has a row for %v, and there is no such block", row)
		}
	}
}

// samplesOf returns the blocks of documents but for answers, figures and pictures.
func samplesOf(t *testing.T, pages []string) (all []sample) {
	t.Helper()
	for _, page := range pages {
		for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n([^\n]*)\n.*?^```$").FindAllStringSubmatch(readFile(t,
			page), -1) {
			s := sample{page, m[1], m[2]}
			if s.language == "" && aCommand.MatchString(s.begins) {
				s.language = "sh"
			}
			if s.language != "" {
				all = append(all, s)
			}
		}
	}
	if len(all) < 80 {
		t.Errorf("only %d blocks were found", len(all))
	}
	return all
}
