package code

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxTypedLength = 2000 // bytes, the length of a long text message

// These patterns match words that may be a code or part of one, for each alphabet. Find skips words
// with letters that aren't in the alphabet, such as BOX.
var (
	digitWordPattern = regexp.MustCompile(`\p{Nd}+`)
	latinWordPattern = regexp.MustCompile(`[0-9A-Za-z０-９Ａ-Ｚａ-ｚ]+`)
)

// Find returns a typed code, or the code in a pasted message. It looks for words of the code's
// length. If there are none, it joins words with only one space or punctuation mark between them,
// such as "293 848". A code that occurs twice counts once, because text messages repeat it in a
// line for browsers.
//
// A text of only spaces, dashes and characters of the alphabet isn't treated as a message. For such
// a text, and if there is no code or more than one, Find returns normalize(typed). codeIn in
// web/static/code.js does the same; the tests of both read testdata/typed.json.
func (f Format) Find(typed string) (string, error) {
	if len(typed) > maxTypedLength {
		return "", f.lengthError("too_long")
	}
	read, err := f.normalize(typed)
	if _, inAlphabet := f.Alphabet.read(typed); err == nil || inAlphabet && !strings.ContainsFunc(typed, isPunctuation) {
		return read, err
	}
	pattern := digitWordPattern
	if f.Alphabet == Unambiguous {
		pattern = latinWordPattern
	}
	text, end := strings.Map(dropInvisible, typed), 0 // end: where the previous word ends
	var words, joined []string
	for _, at := range pattern.FindAllStringIndex(text, -1) {
		word, inAlphabet := f.Alphabet.read(text[at[0]:at[1]])
		if !inAlphabet {
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

func dropInvisible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

func isPunctuation(r rune) bool {
	return isMark(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Dash, unicode.Cf)
}

func isOneMark(between string) bool {
	r, size := utf8.DecodeRuneInString(between)
	return size > 0 && size == len(between) && isMark(r)
}
