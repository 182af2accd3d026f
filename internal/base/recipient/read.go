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

// These match escapes of URLs, HTML, JSON and mails, and an at sign that is written as a word.
var (
	escapePattern = regexp.MustCompile(`(?i)(?:%[0-9a-f]{2})+|&#?\w+;|\\u00[0-9a-f]{2}|=40`)
	wordAtPattern = regexp.MustCompile(`(?i)\s*\(\s*(?:at|arroba)\s*\)\s*|(\S)\s+at\s+(\S+\s+dot\s)`)
)

// maxEscapes is how many layers of escapes AsRead decodes.
const maxEscapes = 3

// AsRead returns a text as a person reads it, so that code recognizes an address or a number in
// spite of escapes, full-width characters, typographic signs or invisible characters. It is for
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

// unescape returns an invalid escape unchanged.
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
