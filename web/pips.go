package web

import "sendcode/quota"

// A rule with a limit above maxPips is drawn as one bar.
const maxPips = 12

// Pips shows one rule of a quota as a row of marks, in the shared templates. The template "pips"
// draws each row with words. The template "pips-marks" draws only the marks, for lists. Both
// templates get a slice of Pips.
type Pips struct {
	Name    string // "this minute"
	Note    string // beside the marks: "3 left", "free in 0:42"
	Spoken  string // the marks in words, for screen readers: "2 of 5 used"
	Limit   int
	Used    int // at most Limit, also after a limit was lowered
	Blocked bool
	Left    ConsoleCountdown // counts down the wait in Note, in the console
}

// ConsoleCountdown is a text with a wait that the console's script counts down.
type ConsoleCountdown struct {
	MS      int64  // milliseconds left when the answer was written; 0: nothing to count
	Pattern string // pattern with {wait}
	Over    string // text when the time has come
}

// PipsOf returns one rule's state without its texts, which the caller adds.
func PipsOf(s quota.State) Pips {
	return Pips{Limit: s.Limit, Used: min(s.Used, s.Limit), Blocked: s.RetryAfter > 0}
}

// IsBar reports whether the rule is drawn as one bar.
func (p Pips) IsBar() bool { return p.Limit > maxPips }
