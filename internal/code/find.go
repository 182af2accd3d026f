package code

import (
	"strings"
	"unicode"
)

// maxText bounds the text that Find searches, in bytes: a long text message.
const maxText = 2000

// Find reads a typed code, or finds it in a pasted message such as "293848 is your code for Shop". The message must have only one run of
// the code's length. Otherwise Find returns what Read returns.
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

// word is a run of the alphabet's characters. near: only one space or dash is between it and the word before.
type word struct {
	text string
	near bool
}

// words splits a text into words of the alphabet. A word with other letters or digits is skipped as a whole, such as "BOX".
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

// latin reports whether r is a Latin letter or digit, also full-width, so that adjacent letters of a code belong to another word.
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

// joined returns the words' texts, with near words joined to one, such as "293 848".
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
