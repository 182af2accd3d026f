package recipient

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// idnaProfile maps a typed domain as browsers do (UTS 46, non-transitional).
var idnaProfile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.CheckHyphens(false),
	idna.VerifyDNSLength(true))

// parseDomain normalizes a typed domain as browsers do. It lowers the case, and it replaces
// full-width characters and ideographic dots, such as in "例子。中国" and "ＥＸＡＭＰＬＥ.com". The result
// ascii is the domain in lower-case A-labels. The result display is the Unicode form if that form
// is safe to show, and otherwise the same as ascii. An error is an *InvalidError.
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

// hasMisplacedDot reports whether a dot is at the start or the end, or next to another dot. A
// trailing dot is valid in DNS, but not in a mail domain (RFC 5321 section 2.3.5).
func hasMisplacedDot(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, "..")
}

// misplacedDomainDot returns an error like errMisplacedDot that also says where in the domain the
// dot is. The error has a text of its own because quotes can allow such a dot in a local part, but
// not in a domain.
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
		Detail: "The part after the @ has a dot where none may stand: " + place + ".",
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

// isForbiddenInDomain reports whether IDNA 2008 forbids r in a domain (RFC 5892 section 2). For
// example, IDNA 2008 forbids symbols and emoji, which UTS 46 allows. The allowed punctuation is the
// CONTEXTO list of IDNA 2008.
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

// displayDomain returns the Unicode form of a domain if each label of the domain is safe to show.
// Otherwise displayDomain returns the ASCII form "xn--…". All letters of a safe label are Latin,
// Chinese, Japanese, Korean or Cyrillic, without a mix of these (UTS 39 section 5). A Cyrillic
// label needs at least one letter that looks like no Latin letter. Labels in right-to-left scripts
// are not safe, because they would reorder the masked address.
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
// Extended-A that does not look like another letter.
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

// isUnmistakableCyrillic reports whether a label is Cyrillic and has a letter that looks like no
// Latin letter. "почта" has such a letter, "аррӏе" has none.
func isUnmistakableCyrillic(label string, plain func(rune) bool) bool {
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
