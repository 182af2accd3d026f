package code

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPastedLength bounds the text that Find searches, in bytes: a long text message.
const maxPastedLength = 2000

// Patterns of words that may be a code or a part of one, by alphabet. Find skips a word with
// letters that no code has, such as BOX.
var (
	digitWordPattern = regexp.MustCompile(`\p{Nd}+`)
	latinWordPattern = regexp.MustCompile(`[0-9A-Za-z０-９Ａ-Ｚａ-ｚ]+`)
)

// Find returns a typed code, or the code in a pasted message such as "293848 is your code for
// Shop". In a message it looks for words of the code's length; if there are none, for words that
// are joined by one space or dash and together have that length, such as "293 848". A code that
// stands in the message more than once, as in the line for browsers of our text messages, is one.
// If it does not find exactly one, or if typed is a code alone, it returns what normalize returns
// for typed.
func (s Shape) Find(typed string) (string, error) {
	read, err := s.normalize(typed)
	if _, other := s.Alphabet.normalize(typed); err == nil || other == nil && len(typed) <= maxTypedLength ||
		len(typed) > maxPastedLength {
		return read, err // a code alone, or too much to search
	}
	pattern := digitWordPattern
	if s.Alphabet == Unambiguous {
		pattern = latinWordPattern
	}
	text, end := strings.Map(dropInvisible, typed), 0 // the end of the word before
	var words, joined []string
	for _, at := range pattern.FindAllStringIndex(text, -1) {
		word, foreign := s.Alphabet.normalize(text[at[0]:at[1]])
		if foreign != nil {
			continue
		}
		words = append(words, word)
		if last := len(joined) - 1; last >= 0 && isSeparator(text[end:at[0]]) {
			joined[last] += word
		} else {
			joined = append(joined, word)
		}
		end = at[1]
	}
	for _, all := range [][]string{words, joined} {
		fit := slices.DeleteFunc(all, func(word string) bool { return len(word) != s.Length })
		slices.Sort(fit)
		fit = slices.Compact(fit)
		if len(fit) == 1 {
			return fit[0], nil
		}
		if len(fit) > 1 {
			break
		}
	}
	return read, err
}

// dropInvisible returns -1 for an invisible character, so that strings.Map drops it, and any other
// character as it is.
func dropInvisible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

// isSeparator reports whether the text between two words is one space or dash.
func isSeparator(between string) bool {
	r, size := utf8.DecodeRuneInString(between)
	return size == len(between) && (unicode.IsSpace(r) || unicode.Is(unicode.Dash, r))
}
