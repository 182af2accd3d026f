package code

import (
	"strings"
	"unicode"
)

// maxText bounds a text that a code is looked for in, in bytes: a whole text message.
const maxText = 2000

// Find gives the code that a person typed, or the one in a message that was pasted as a whole: "293848 is your code for Shop". A text
// around it may hold anything else, but no second run of the code's length. Otherwise it fails as Read does.
func (s Shape) Find(typed string) (string, error) {
	read, err := s.Alphabet.Read(typed)
	if err == nil || s.Length == 0 || len(typed) > maxText {
		return read, err
	}
	words := s.Alphabet.words(typed)
	for _, runs := range [][]string{texts(words), joined(words)} {
		if fit := s.ofLength(runs); len(fit) > 0 {
			if len(fit) == 1 {
				return fit[0], nil
			}
			break
		}
	}
	return read, err
}

func (s Shape) ofLength(runs []string) (fit []string) {
	for _, r := range runs {
		if len(r) == s.Length {
			fit = append(fit, r)
		}
	}
	return fit
}

// word is a run of characters of a code. near: one space or dash, and nothing else, stands between it and the word before.
type word struct {
	text string
	near bool
}

// words are the runs that are of the alphabet as a whole; "BOX" is no run of "BX".
func (a Alphabet) words(typed string) (all []word) {
	var run strings.Builder
	foreign, between := false, 2 // characters since the last run; 2: too many
	end := func() {
		if run.Len() > 0 && !foreign {
			all = append(all, word{run.String(), between == 1})
			between = 0
		} else if run.Len() > 0 || foreign {
			between = 2
		}
		foreign = false
		run.Reset()
	}
	for _, r := range typed {
		if unicode.Is(unicode.Cf, r) {
			continue
		}
		if c, ok := a.character(r); ok {
			run.WriteByte(c)
			continue
		}
		if a == Unambiguous && latin(r) {
			foreign = true
			continue
		}
		end()
		if between++; !unicode.IsSpace(r) && !unicode.Is(unicode.Dash, r) {
			between = 2
		}
	}
	end()
	return all
}

// latin says whether a character beside letters of a code makes them part of another word.
func latin(r rune) bool {
	if r >= '！' && r <= '～' {
		r -= '！' - '!'
	}
	return r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func texts(words []word) (runs []string) {
	for _, w := range words {
		runs = append(runs, w.text)
	}
	return runs
}

// joined are the runs with those that stand near each other in one: "293 848".
func joined(words []word) (runs []string) {
	for _, w := range words {
		if w.near && len(runs) > 0 {
			runs[len(runs)-1] += w.text
			continue
		}
		runs = append(runs, w.text)
	}
	return runs
}
