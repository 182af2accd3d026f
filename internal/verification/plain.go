package verification

import (
	"unicode"
	"unicode/utf8"
)

// plain reports whether s is valid UTF-8 of at most limit characters, without control or format characters: it may
// then stand in a row, a page or a header.
func plain(s string, limit int) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > limit {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp) {
			return false
		}
	}
	return true
}
