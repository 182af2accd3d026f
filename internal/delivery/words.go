package delivery

import (
	"fmt"
	"net/mail"
	"strings"
)

// Lengths of encoded words (RFC 2047 section 2): 75 characters at most, and fewer for the first of
// a header, or it would not fit behind the header's name and the first line would be empty.
const (
	maxEncodedWord      = 75
	maxFirstEncodedWord = 60
	encodedWordStart    = "=?UTF-8?Q?"
	encodedWordEnd      = "?="
)

// encodeHeader returns a header's text as it goes over the wire: printable ASCII as it is, other
// text in encoded words (RFC 2047).
func encodeHeader(text string) string {
	if isPrintableASCII(text) && firstWordFits(text) {
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

// formatFrom returns the value of the header From. A name in ASCII is quoted if necessary, any
// other is encoded.
func formatFrom(from *mail.Address) string {
	if text := from.String(); isPrintableASCII(from.Name) && firstWordFits(text) {
		return text
	}
	return encodeHeader(from.Name) + " <" + from.Address + ">"
}

// encodeRune returns a character in the encoding Q. It leaves only characters that names and
// subjects allow alike (RFC 2047 section 5), and placeholders.
func encodeRune(r rune) string {
	switch {
	case r == ' ':
		return "_"
	case !notLetterDigitHyphen(r), strings.ContainsRune(placeholders, r):
		return string(r)
	}
	var b strings.Builder
	for _, octet := range []byte(string(r)) {
		fmt.Fprintf(&b, "=%02X", octet)
	}
	return b.String()
}

// firstWordFits reports whether the first line of a header has room for the first word of its text.
// It is also true for a word that no line has room for, which is not encoded, so that the message
// is rejected.
func firstWordFits(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return len(first) <= maxFirstEncodedWord || len(first) > maxLine
}

// isPrintableASCII reports whether a text is printable ASCII and placeholders.
func isPrintableASCII(s string) bool {
	return !strings.ContainsFunc(s,
		func(r rune) bool { return (r < ' ' || r > '~') && !strings.ContainsRune(placeholders, r) })
}
