package delivery

import (
	"fmt"
	"net/mail"
	"strings"
)

// These are the beginning and the end of an encoded word (RFC 2047 section 2), and its greatest
// lengths in characters. The first word of a header is shorter, so that it fits on a line after the
// header's name.
const (
	maxEncodedWord      = 75
	maxFirstEncodedWord = 60
	encodedWordStart    = "=?UTF-8?Q?"
	encodedWordEnd      = "?="
)

// encodeHeader leaves printable ASCII unchanged if firstWordFits. Any other text becomes encoded
// words.
func encodeHeader(text string) string {
	if isPrintableASCIIOrPlaceholder(text) && firstWordFits(text) {
		return text
	}
	var words []string
	word, room := encodedWordStart, maxFirstEncodedWord
	for _, r := range text {
		q := encodeRune(r)
		if len(word)+len(q)+len(encodedWordEnd) > room {
			words = append(words, word+encodedWordEnd)
			word, room = encodedWordStart, maxEncodedWord
		}
		word += q
	}
	return strings.Join(append(words, word+encodedWordEnd), " ")
}

// formatFrom puts an ASCII name in quotes if its first word fits. Any other name is encoded.
func formatFrom(from *mail.Address) string {
	if text := from.String(); isPrintableASCIIOrPlaceholder(from.Name) && firstWordFits(text) {
		return text
	}
	return encodeHeader(from.Name) + " <" + from.Address + ">"
}

// encodeRune returns the encoding Q (RFC 2047 section 5). Placeholders stay unchanged, and so do
// the letters, digits and hyphens that may be unencoded in names and in subjects.
func encodeRune(r rune) string {
	switch {
	case r == ' ':
		return "_"
	case !notLetterDigitHyphen(r), strings.ContainsRune(placeholderCharacters, r):
		return string(r)
	}
	var b strings.Builder
	for _, octet := range []byte(string(r)) {
		fmt.Fprintf(&b, "=%02X", octet)
	}
	return b.String()
}

// firstWordFits reports whether the first line of a header has room for the first word of its text.
// It is also true if the word is longer than any line: such a word is not broken, and the message
// is rejected.
func firstWordFits(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return len(first) <= maxFirstEncodedWord || len(first) > maxLine
}

func isPrintableASCIIOrPlaceholder(s string) bool {
	return !strings.ContainsFunc(s,
		func(r rune) bool { return (r < ' ' || r > '~') && !strings.ContainsRune(placeholderCharacters, r) })
}
