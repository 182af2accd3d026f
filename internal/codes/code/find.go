package code

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTypedLength bounds a typed or pasted text, in bytes: a long text message.
const maxTypedLength = 2000

// The patterns match words that may be a code or a part of a code, one pattern for each alphabet.
// Find skips a word with letters that are not in the alphabet, such as BOX.
var (
	digitWordPattern = regexp.MustCompile(`\p{Nd}+`)
	latinWordPattern = regexp.MustCompile(`[0-9A-Za-z０-９Ａ-Ｚａ-ｚ]+`)
)

// Find returns a typed code, or the code in a pasted message such as "293848 is your code for
// Shop". In a message, Find first searches for words with the length of the code. If there are
// none, Find joins words that have only one space or punctuation mark between them, such as "293
// 848", and searches for joined words of this length. A code that is in the message twice counts
// once, because text messages repeat the code in a line for browsers.
//
// Find returns normalize(typed) if it finds no code or several codes. It does not search if typed
// has only spaces, dashes and characters that a code may have; it then also returns
// normalize(typed). The function codeIn in web/static/code.js does the same as Find. The tests of
// both functions read testdata/typed.json.
func (f Format) Find(typed string) (string, error) {
	if len(typed) > maxTypedLength {
		return "", f.lengthError("too_long")
	}
	read, err := f.normalize(typed)
	if _, own := f.Alphabet.read(typed); err == nil || own && !strings.ContainsFunc(typed, isPunctuation) {
		return read, err
	}
	pattern := digitWordPattern
	if f.Alphabet == Unambiguous {
		pattern = latinWordPattern
	}
	text, end := strings.Map(dropInvisible, typed), 0 // end: where the word before ends
	var words, joined []string
	for _, at := range pattern.FindAllStringIndex(text, -1) {
		word, own := f.Alphabet.read(text[at[0]:at[1]])
		if !own {
			continue
		}
		words = append(words, word)
		if last := len(joined) - 1; last >= 0 && isOneMark(text[end:at[0]]) {
			joined[last] += word
		} else {
			joined = append(joined, word)
		}
		end = at[1]
	}
	for _, all := range [][]string{words, joined} {
		fit := slices.DeleteFunc(all, func(word string) bool { return len(word) != f.Length })
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

// dropInvisible returns -1 for an invisible character, so that strings.Map drops it. It returns any
// other character unchanged.
func dropInvisible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

// isPunctuation reports whether r is a mark other than a space, a dash or an invisible character.
func isPunctuation(r rune) bool {
	return isMark(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Dash, unicode.Cf)
}

// isOneMark reports whether the text between two words is one mark.
func isOneMark(between string) bool {
	r, size := utf8.DecodeRuneInString(between)
	return size > 0 && size == len(between) && isMark(r)
}
