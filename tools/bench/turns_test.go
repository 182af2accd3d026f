//go:build nightly

package bench

import (
	"slices"
)

// entry is a row of a table: a contender, or another thing that is measured once in each round.
type entry struct {
	name    string
	callers int
	cells   []string // before its figures
	measure func() run
	runs    []run // one of each round
}

// inTurns measures all entries in each round, one group after the other. A group begins with
// another entry in each round, so that none always follows upon the same one. The round before the
// first warms them up and does not count.
func (b *rig) inTurns(groups ...[]*entry) {
	b.Helper()
	for round := range b.rounds + 1 {
		for _, group := range groups {
			for i := range group {
				e := group[(i+round)%len(group)]
				if r := e.measure(); round > 0 {
					e.runs = append(e.runs, r)
				}
			}
		}
	}
}

// runsOf returns the runs of the entry with this name and number of callers; nil if there is none.
func runsOf(all []*entry, name string, callers int) []run {
	for _, e := range all {
		if e.name == name && e.callers == callers {
			return e.runs
		}
	}
	return nil
}

// column is a figure of a table, of the runs of an entry.
type column struct {
	head string
	of   func([]run) string
}

// rates are events a second, with the lowest and the highest of the rounds.
func rates(head string) column {
	return column{head, func(runs []run) string { return over(runs, rate).String() }}
}

// medians is the median of a figure over the rounds.
func medians(head string, value figure) column {
	return column{head, func(runs []run) string { return number(median(runs, value)) }}
}

// answers and mails are the two quantiles that are shown of the waits of a run.
func answers(name string) []column {
	return []column{medians(name+"p50, ms", answered(.5)), medians(name+"p99, ms", answered(.99))}
}

func mails() (all []column) {
	for _, c := range []column{medians("mail p50, ms", mailed(.5)), medians("mail p99, ms", mailed(.99))} {
		all = append(all, column{c.head, func(runs []run) string {
			if runs[0].mails == nil {
				return "–"
			}
			return c.of(runs)
		}})
	}
	return all
}

// table has a row for each entry: its cells under heads, then its figures.
func table(heads []string, all []*entry, columns ...column) *grid {
	g := newGrid(heads...)
	for _, c := range columns {
		g.rows[0] = append(g.rows[0], c.head)
	}
	for _, e := range all {
		cells := slices.Clone(e.cells)
		for _, c := range columns {
			cells = append(cells, c.of(e.runs))
		}
		g.add(cells...)
	}
	return g
}
