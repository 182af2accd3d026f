package delivery

import (
	"fmt"
	"net/mail"
	"strings"
)

// Lengths of encoded words (RFC 2047 section 2): 75 characters at most, and fewer for the first of a header, or it
// would not fit behind the header's name and the first line would be empty.
const (
	maxWord   = 75
	firstWord = 60
	wordStart = "=?UTF-8?Q?"
	wordEnd   = "?="
)

// encodedWords is a header's text as it goes over the wire. Text in ASCII stays as it is.
func encodedWords(text string) string {
	if plain(text) && fits(text) {
		return text
	}
	var words []string
	word, room := wordStart, firstWord
	for _, r := range text {
		q := quoted(r)
		if len(word)+len(q)+len(wordEnd) > room {
			words = append(words, word+wordEnd)
			word, room = wordStart, maxWord
		}
		word += q
	}
	return strings.Join(append(words, word+wordEnd), " ")
}

// encodedFrom is the header From. A name in ASCII is quoted where it has to be, another one is encoded.
func encodedFrom(from *mail.Address) string {
	if text := from.String(); plain(from.Name) && fits(text) {
		return text
	}
	return encodedWords(from.Name) + " <" + from.Address + ">"
}

// quoted is a character in the encoding Q, with what is allowed in names and subjects alike (RFC 2047 section 5).
func quoted(r rune) string {
	switch {
	case r == ' ':
		return "_"
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
		return string(r)
	}
	var b strings.Builder
	for _, octet := range []byte(string(r)) {
		fmt.Fprintf(&b, "=%02X", octet)
	}
	return b.String()
}

// fits says whether the first line of a header has room for the first word of its text. A word that no line has room for is left as
// it is, for the message to be rejected.
func fits(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return len(first) <= firstWord || len(first) > maxLine
}

func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
