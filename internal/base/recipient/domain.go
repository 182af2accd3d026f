package recipient

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// idnaProfile maps a domain as browsers do (UTS 46, non-transitional).
var idnaProfile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.CheckHyphens(false),
	idna.VerifyDNSLength(true))

// parseDomain normalizes a domain as browsers do, such as "例子。中国" and "ＥＸＡＭＰＬＥ.com". ascii is in
// lower-case A-labels, display in Unicode if that is safe to show. Errors are *InvalidErrors.
func parseDomain(typed string) (ascii, display string, err error) {
	ascii, err = idnaProfile.ToASCII(typed)
	switch {
	case hasMisplacedDot(ascii):
		return "", "", misplacedDomainDot(ascii)
	case len(ascii) > maxAddressLength:
		return "", "", errTooLong
	case err != nil:
		return "", "", errInvalidDomain
	}
	readable, err := idnaProfile.ToUnicode(ascii)
	if err != nil {
		return "", "", errInvalidDomain
	}
	return ascii, displayDomain(ascii, readable), checkLabels(strings.Split(ascii, "."), readable)
}

// hasMisplacedDot also reports a trailing dot, which is allowed in DNS, but not in a mail domain
// (RFC 5321 section 2.3.5).
func hasMisplacedDot(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, "..")
}

// misplacedDomainDot doesn't return errMisplacedDot, which suggests quotes: they help only in a
// local part.
func misplacedDomainDot(domain string) error {
	place := "twice in a row"
	switch {
	case strings.HasPrefix(domain, "."):
		place = "at its beginning"
	case strings.HasSuffix(domain, "."):
		place = "at its end"
	}
	return &InvalidError{
		Reason: errMisplacedDot.(*InvalidError).Reason,
		Detail: "The part after the @ has a dot in a wrong place: " + place + ".",
	}
}

func checkLabels(labels []string, readable string) error {
	top := labels[len(labels)-1]
	switch {
	case strings.Trim(top, "0123456789") == "" && len(labels) == 4:
		return errIPLiteral
	case len(labels) < 2:
		return errIncompleteDomain
	case strings.Trim(top, "0123456789") == "": // no top-level domain is numeric (RFC 3696 section 2)
		return errInvalidDomain
	}
	for _, l := range labels {
		if strings.HasPrefix(l, "-") || strings.HasSuffix(l, "-") {
			return errInvalidDomain
		}
	}
	if strings.ContainsFunc(readable, isForbiddenInDomain) {
		return errInvalidDomain
	}
	return nil
}

// isForbiddenInDomain follows IDNA 2008 (RFC 5892 section 2), with the punctuation of its CONTEXTO
// list. UTS 46 would allow symbols and emoji.
func isForbiddenInDomain(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '.':
		return false
	case r == '\u200c', r == '\u200d': // joiners, whose context idna has checked
		return false
	case strings.ContainsRune("·͵׳״・", r):
		return false
	}
	return r < utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

// displayDomain returns the Unicode form if each label is safe to show: Latin, Chinese, Japanese,
// Korean or Cyrillic, without a mix of these (UTS 39 section 5). A Cyrillic label needs a letter
// that looks like no Latin letter. Right-to-left scripts aren't safe, because they would reorder
// the masked address.
func displayDomain(ascii, readable string) string {
	for label := range strings.SplitSeq(readable, ".") {
		if !isSafeLabel(label) {
			return ascii
		}
	}
	return readable
}

func isSafeLabel(label string) bool {
	plain := func(r rune) bool { return '0' <= r && r <= '9' || r == '-' }
	for _, allowed := range []func(rune) bool{isUnmistakableLatin, isHan, isJapanese, isKorean} {
		if !strings.ContainsFunc(label, func(r rune) bool { return !plain(r) && !allowed(r) }) {
			return true
		}
	}
	return isUnmistakableCyrillic(label, plain)
}

// isUnmistakableLatin reports whether r is a lower-case letter of ASCII, Latin-1 or Latin
// Extended-A that looks like no other letter.
func isUnmistakableLatin(r rune) bool {
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

// isUnmistakableCyrillic reports whether a Cyrillic label has a letter that looks like no Latin
// letter: "почта" has one, "аррӏе" doesn't.
func isUnmistakableCyrillic(label string, plain func(rune) bool) bool {
	distinct := false
	for _, r := range label {
		switch {
		case plain(r):
		case r < 0x430 || r > 0x45f:
			return false
		case !strings.ContainsRune("асеһіјорѕхуъьпгкмнтви", r):
			distinct = true
		}
	}
	return distinct
}
