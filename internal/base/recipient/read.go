package recipient

import (
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Escaped characters in URLs, HTML, JSON and mails, and the at sign in words.
var (
	escapePattern = regexp.MustCompile(`(?i)(?:%[0-9a-f]{2})+|&#?\w+;|\\u00[0-9a-f]{2}|=40`)
	wordAtPattern = regexp.MustCompile(`(?i)\s*\(\s*(?:at|arroba)\s*\)\s*|(\S)\s+at\s+(\S+\s+dot\s)`)
)

// A character may be escaped several times, one escape within another. maxEscapes is how many of
// these escapes are read.
const maxEscapes = 3

// AsRead returns a text as a person reads it. So an address or a number is recognized in any form:
// escaped, full-width, with typographic signs, or with invisible characters. The result is for
// decisions and searches, not for display.
func AsRead(text string) string {
	for range maxEscapes {
		text = escapePattern.ReplaceAllStringFunc(text, unescape)
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case isInvisible(r):
			return -1
		case unicode.Is(unicode.Pd, r), r == '−':
			return '-'
		case r == '‘', r == '’':
			return '\''
		case unicode.In(r, unicode.Pi, unicode.Pf):
			return '"'
		case unicode.Is(unicode.Ps, r):
			return '('
		case unicode.Is(unicode.Pe, r):
			return ')'
		}
		return r
	}, norm.NFKC.String(text))
	return wordAtPattern.ReplaceAllString(text, "$1@$2")
}

// unescape returns the characters that one escape stands for; if it stands for none, the escape
// itself.
func unescape(escape string) string {
	plain := html.UnescapeString(escape)
	switch escape[0] {
	case '%':
		plain, _ = url.PathUnescape(escape)
	case '\\':
		plain, _ = strconv.Unquote(`"` + strings.ToLower(escape) + `"`)
	case '=':
		plain = "@"
	}
	if !utf8.ValidString(plain) {
		return escape
	}
	return plain
}
