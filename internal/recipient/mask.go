package recipient

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const bullets = "•••"

// firstCharacter returns the first letter with its combining marks.
func firstCharacter(local string) string {
	s := norm.NFC.String(local)
	_, end := utf8.DecodeRuneInString(s)
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsMark(r) {
			break
		}
		end += n
	}
	return s[:end]
}

// maskNumber masks a phone number: it shows at most three digits at each end, and hides at least four.
func maskNumber(countryCode, national string) string {
	shown := max(0, min(6, len(national)-4))
	tail := (shown + 1) / 2
	return "+" + countryCode + " " + national[:shown-tail] + bullets + national[len(national)-tail:]
}

// displayDomain returns the Unicode form of a domain if no label can be mistaken for another one, else the ASCII form "xn--…". Each label
// must have one script (UTS 39 section 5), and none that is written from right to left, which would reorder the mask.
func displayDomain(ascii, readable string) string {
	for label := range strings.SplitSeq(readable, ".") {
		if !safeLabel(label) {
			return ascii
		}
	}
	return readable
}

func safeLabel(label string) bool {
	plain := func(r rune) bool { return '0' <= r && r <= '9' || r == '-' }
	for _, allowed := range []func(rune) bool{isPlainLatin, isHan, isJapanese, isKorean} {
		if !strings.ContainsFunc(label, func(r rune) bool { return !plain(r) && !allowed(r) }) {
			return true
		}
	}
	return isClearCyrillic(label, plain)
}

// isPlainLatin: ASCII, Latin-1 and Latin Extended-A, without the letters that are easily taken for others.
func isPlainLatin(r rune) bool {
	switch r {
	case 'ı', 'ĸ', 'ŉ', 'ſ', 'ŀ', 'þ':
		return false
	}
	return 'a' <= r && r <= 'z' || 0xdf <= r && r <= 0x17f && unicode.IsLower(r)
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

func isJapanese(r rune) bool {
	if r == 'ノ' { // looks like a slash
		return false
	}
	return isHan(r) || unicode.In(r, unicode.Hiragana, unicode.Katakana) || r == 'ー'
}

func isKorean(r rune) bool { return unicode.Is(unicode.Hangul, r) }

// isClearCyrillic reports whether a Cyrillic label has a letter that looks like no Latin one: "почта" has, "аррӏе" has not.
func isClearCyrillic(label string, plain func(rune) bool) bool {
	clear := false
	for _, r := range label {
		switch {
		case plain(r):
		case r < 0x430 || r > 0x45f:
			return false
		case !strings.ContainsRune("асеһіјорѕхуъьпгкмнтви", r):
			clear = true
		}
	}
	return clear
}
