package delivery

import (
	"fmt"
	"net/mail"
	"strings"
)

// These constants have the form of encoded words (RFC 2047 section 2), and the greatest lengths of
// encoded words in characters. The first word of a header is shorter, so that the word fits on a
// line behind the header's name.
const (
	maxEncodedWord      = 75
	maxFirstEncodedWord = 60
	encodedWordStart    = "=?UTF-8?Q?"
	encodedWordEnd      = "?="
)

// encodeHeader returns text unchanged if the text is printable ASCII and firstWordFits. It returns
// any other text in encoded words.
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

// formatFrom returns the value of the header From. If the name is ASCII and its first word fits,
// formatFrom quotes the name where necessary. Any other name is encoded.
func formatFrom(from *mail.Address) string {
	if text := from.String(); isPrintableASCIIOrPlaceholder(from.Name) && firstWordFits(text) {
		return text
	}
	return encodeHeader(from.Name) + " <" + from.Address + ">"
}

// encodeRune returns a character in the encoding Q (RFC 2047 section 5). It does not encode
// placeholders, nor the letters, digits and hyphens that may stand unencoded in names and in
// subjects.
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

// isPrintableASCIIOrPlaceholder reports whether a text has only printable ASCII and placeholders.
func isPrintableASCIIOrPlaceholder(s string) bool {
	return !strings.ContainsFunc(s,
		func(r rune) bool { return (r < ' ' || r > '~') && !strings.ContainsRune(placeholderCharacters, r) })
}
