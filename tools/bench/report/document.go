package report

import (
	"fmt"
	"strings"
	"time"
)

// section is one chapter of the document. A section without a text was not measured.
type section struct{ title, text string }

// Document is docs/PERFORMANCE.md. Sections that were not measured this time are kept as they stand in old.
func (r Results) Document(old string) string {
	preface, had := sections(old)
	var out strings.Builder
	if preface == "" || len(r.Board) > 0 {
		preface = "# Performance\n\n" + r.preface()
	}
	out.WriteString(strings.TrimRight(preface, "\n") + "\n")
	for _, s := range r.sections() {
		if s.text == "" {
			s.text = had[s.title]
		} else if s.optional() {
			s.text = "Measured " + r.when() + ".\n\n" + s.text
		}
		if s.text != "" {
			out.WriteString("\n## " + s.title + "\n\n" + strings.TrimSpace(s.text) + "\n")
		}
	}
	return out.String()
}

const (
	titleHour  = "An hour"
	titleTakes = "Limits"
	titleRows  = "With millions of rows"
	titleAdmin = "What an administrator waits for"
)

// optional sections may come of runs of their own, and say when.
func (s section) optional() bool {
	return s.title == titleRows || s.title == titleHour || s.title == titleTakes || s.title == titleAdmin
}

func (r Results) sections() []section {
	level, hour := r.level(), ""
	if r.Level.Vacuum {
		level, hour = "", level
	}
	return []section{
		{"Goals", r.goals()}, {"Sends", r.sends()}, {"What a send costs", r.costs()}, {"At half the highest rate", r.half()},
		{"Other requests", r.others()}, {titleTakes, r.takes()},
		{"Memory and start", r.memory()}, {"A minute on a fresh database", level}, {titleHour, hour}, {"One recipient attacked", r.attack()},
		{"The limiter alone", r.limiter()}, {titleRows, r.rows()}, {titleAdmin, r.admin()},
		{"What 10 and 100 million sends a day need", r.needs()},
		{"Where the program's processor time goes", r.profile()},
	}
}

func (r Results) when() string {
	return fmt.Sprintf("%s at commit %s", r.Date.UTC().Format(time.DateOnly), r.Commit)
}

func (r Results) preface() string {
	return fmt.Sprintf(`<!-- Written by make bench. Do not edit. -->

Measured %s on %d processors (%s) with %d GB of memory.
Postgres %s on %s with fsync %s, Redis with an append-only file, one mail server that accepts everything; all on the machine of the callers.
%d rounds of %v by turns; values are medians, of rates also (lowest–highest). Compare ratios only: figures of different runs or machines differ.
%s
- **ours**: the service with its default settings.
- **fair floor**: 300 lines that write the same rows without our promises: one Redis script, one transaction, the answer, the mail, one UPDATE;
  in batches, as the service does.
- **plain floor**: a script, an INSERT and a mail in turn, then the answer. **bare HTTP**: reads the request and answers.
`, r.when(), r.Machine.Processors, r.Machine.Model, r.Machine.Memory, r.Postgres, r.Disk, r.Fsync, r.Rounds, r.Length, foreign(r.Board))
}

// foreign says how much the machine was disturbed.
func foreign(b Board) string {
	var all []float64
	for _, runs := range b {
		for _, run := range runs {
			all = append(all, 100*run.Foreign)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("Other programs used %s %% of the processors; where that is much, trust processor times only.\n", SpreadOf(all))
}

// sections are what stands in a document before its sections, and these by title.
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

// Missing are the titles of the sections that a whole document has and text has not.
func Missing(text string) (titles []string) {
	_, found := sections(text)
	for _, s := range (Results{}).sections() {
		if _, ok := found[s.title]; !ok && !s.optional() {
			titles = append(titles, s.title)
		}
	}
	return titles
}
