package recipient

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// Limits of RFC 5321 section 4.5.3.1, in octets. A path of 256 includes its two angle brackets.
const (
	maxAddress = 254
	maxLocal   = 64
	maxRaw     = 1024 // before normalising: an IDN in Unicode may be longer than its A-labels
)

func parseEmail(raw string) (parts, error) {
	s := strings.Trim(raw, " ")
	if err := checkText(s); err != nil {
		return parts{}, err
	}
	if reason := foreignSyntax(s); reason != "" {
		return parts{}, invalid(reason)
	}
	local, typed, err := splitAddress(s)
	if err != nil {
		return parts{}, err
	}
	if err := checkLocal(local); err != nil {
		return parts{}, err
	}
	d, err := parseDomain(typed)
	if err != nil {
		return parts{}, err
	}
	address := local + "@" + d.ascii
	if len(address) > maxAddress {
		return parts{}, invalid(reasonTooLong)
	}
	return parts{
		channel: Email,
		address: address,
		folded:  foldLocal(local) + "@" + d.ascii,
		masked:  firstCharacter(local) + bullets + "@" + d.display,
	}, nil
}

// checkText rejects characters that are invalid on both channels.
func checkText(s string) error {
	switch {
	case s == "":
		return invalid(reasonEmpty)
	case len(s) > maxRaw:
		return invalid(reasonTooLong)
	case !utf8.ValidString(s):
		return invalid(reasonEncoding)
	case strings.ContainsFunc(s, isControl):
		return invalid(reasonControlCharacter)
	case strings.ContainsFunc(s, isInvisible):
		return invalid(reasonInvisibleCharacter)
	}
	return nil
}

// isControl: C0 (CR, LF and NUL among them), DEL, C1 and the Unicode line breaks.
func isControl(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// isInvisible: bidi marks, zero-width characters, soft hyphen, byte order mark, tags, variation selectors, fillers.
// ZWJ and ZWNJ are among them: a domain that needs one can be written as an A-label.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// foreignSyntax returns the reason if the text has syntax that RFC 5322 allows in a header, but that one bare address does not have; else
// "".
func foreignSyntax(s string) string {
	switch {
	case strings.ContainsAny(s, "<>"):
		return reasonDisplayName
	case strings.ContainsAny(s, `"`):
		return reasonQuoted
	case strings.ContainsAny(s, "()"):
		return reasonComment
	case strings.ContainsAny(s, "[]"):
		return reasonIPLiteral
	case strings.ContainsAny(s, ",;:"), strings.Count(s, "@") > 1:
		return reasonSeveral
	}
	return ""
}

func splitAddress(s string) (local, domain string, err error) {
	local, domain, found := strings.Cut(s, "@")
	switch {
	case !found && strings.ContainsRune(s, '＠'):
		return "", "", invalid(reasonFullWidth)
	case !found:
		return "", "", invalid(reasonNoAt)
	case local == "":
		return "", "", invalid(reasonNoLocalPart)
	case domain == "":
		return "", "", invalid(reasonNoDomain)
	case strings.ContainsFunc(s, unicode.IsSpace):
		return "", "", invalid(reasonSpace)
	}
	return local, domain, nil
}

func checkLocal(local string) error {
	if len(local) > maxLocal {
		return invalid(reasonLocalTooLong)
	}
	if strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return invalid(reasonMisplacedDot)
	}
	for i, r := range local {
		switch {
		case isAtom(r), r == '.':
		case isFullWidth(r):
			return invalid(reasonFullWidth)
		case !isWord(r), i == 0 && unicode.IsMark(r): // a leading mark would sit on whatever is printed before it
			return invalid(reasonInvalidCharacter)
		}
	}
	return nil
}

// isAtom is atext of RFC 5322 section 3.2.3.
func isAtom(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return r < utf8.RuneSelf && strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
}

// isFullWidth reports whether r is a full-width form, as East Asian input methods produce. RFC 6531 allows these in a local part, but
// they would name another mailbox than the person meant.
func isFullWidth(r rune) bool {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianFullwidth, width.EastAsianHalfwidth:
		return r >= utf8.RuneSelf
	}
	return false
}

// isWord reports whether r is a letter, mark or decimal digit of any script. RFC 6531 allows all characters beyond ASCII; symbols and
// emoji are excluded as in PRECIS (RFC 8264 section 4.2), by which mail systems choose names.
func isWord(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

// foldLocal returns one form of spellings that mail systems treat as one mailbox: it ignores case and the composition of accents. Like
// RFC 8265 section 3.3 it lowers instead of folding case fully, since full folding equates "ß" with "ss" and "ſ" with "s", which may be
// different people. It decomposes first, which keeps "İ" and "i" different, and treats the final sigma as a sigma.
func foldLocal(local string) string {
	lower := func(r rune) rune {
		if r == 'ς' {
			return 'σ'
		}
		return unicode.ToLower(r)
	}
	return norm.NFC.String(strings.Map(lower, norm.NFD.String(local)))
}
