package web

import "sendcode/quota"

// maxPips is how many marks one row has at most; a rule with a higher limit is drawn as one bar.
const maxPips = 12

// Pips is one rule of a quota as the shared templates "pips" (rows with words) and "pips-marks"
// (marks alone, for lists) draw it. Both take a slice of them.
type Pips struct {
	Name    string // "this minute"
	Note    string // beside the marks: "3 left", "free in 0:42"
	Spoken  string // the marks in words, for screen readers: "2 of 5 used"
	Limit   int
	Used    int // at most Limit, also after a limit was lowered
	Blocked bool
	Wait    Wait // with Blocked: moves Note on the page; the zero Wait leaves Note as it is
	Left    Left // the same in the console
}

// Left lets the console's script count a text down.
type Left struct {
	MS   int64  // milliseconds left when the answer was written; 0: nothing to count
	Said string // pattern with {wait}
	Over string // text when the time has come
}

// Wait lets a script count a text down. The patterns have {t} (0:42), {c} (14:32) and {d} (28 min).
type Wait struct {
	MS    int64  // milliseconds left when the answer was written; 0: nothing to count
	Short string // pattern below ten minutes
	Long  string // pattern from there on
	Done  string // text when the time has come
}

// PipsOf draws one rule's state; the caller adds the words.
func PipsOf(s quota.State) Pips {
	return Pips{Limit: s.Limit, Used: min(s.Used, s.Limit), Blocked: s.RetryAfter > 0}
}

// Bar reports whether the rule is drawn as one bar.
func (p Pips) Bar() bool { return p.Limit > maxPips }
