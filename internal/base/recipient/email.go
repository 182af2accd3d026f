package recipient

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// Limits of RFC 5321 section 4.5.3.1, in octets. The RFC allows 256 octets for a path, which
// includes two angle brackets, so an address may have 254.
const (
	maxAddressLength   = 254
	maxLocalPartLength = 64
	maxInputLength     = 1024 // before the domain is normalized; its A-labels may be shorter than its Unicode form
)

func parseEmail(raw string) (recipientData, error) {
	s := strings.TrimFunc(raw, isBlank)
	if err := checkText(s); err != nil {
		return recipientData{}, err
	}
	s, quoted := cutQuotes(TrimPasted(unwrapAddress(TrimPasted(s))))
	if err := checkBareAddress(s); err != nil {
		return recipientData{}, err
	}
	local, typed, err := splitAddress(s)
	if err != nil {
		return recipientData{}, err
	}
	if err := checkLocal(local, quoted); err != nil {
		return recipientData{}, err
	}
	domain, display, err := parseDomain(typed)
	if err != nil {
		return recipientData{}, err
	}
	address := local + "@" + domain
	if hasMisplacedDot(local) {
		address = `"` + local + `"@` + domain
	}
	if len(address) > maxAddressLength {
		return recipientData{}, errTooLong
	}
	return recipientData{
		channel: Email,
		address: address,
		folded:  foldLocal(local) + "@" + domain,
		masked:  firstCharacter(local) + maskBullets + "@" + display,
	}, nil
}

// Characters of sentences, lists, tables and code that are often copied together with an address or
// a number. TrimPasted removes copiedAfter at the end and copiedBefore at the beginning. An address
// may begin with a character of copiedAround, so TrimPasted removes these characters only in pairs.
// It removes listMarks only before a blank.
const (
	copiedAfter  = ",;:.!?)]}\"'`*_|~-–—”’“»›」』》】〉）］，；：。！？、،؛؟"
	copiedBefore = ",;:)(][|“”„‘‚«»‹›「『《【〈（［，；：、،؛"
	copiedAround = "\"\"''``**__~~{}"
	listMarks    = "-–—•*"
)

// TrimPasted removes characters that were copied together with an address or a number. A text that
// has only such characters stays unchanged. Several dots at the end also stay, because they show
// that the text was cut off there.
func TrimPasted(text string) string {
	for s := text; s != ""; {
		first, width := utf8.DecodeRuneInString(s)
		last, end := utf8.DecodeLastRuneInString(s)
		before, behind := s[:len(s)-end], s[width:]
		switch {
		case strings.ContainsRune(".。", last) && strings.TrimRight(before, ".。") != before:
			return s
		case isBlank(first) || strings.ContainsRune(copiedBefore, first) || first == '<' && !strings.ContainsRune(s, '>'),
			strings.ContainsRune(listMarks, first) && strings.TrimLeftFunc(behind, isBlank) != behind:
			s = behind // before the end goes: a pair may stand behind it
		case isBlank(last) || strings.ContainsRune(copiedAfter, last) || last == '>' && !strings.ContainsRune(s, '<'):
			s = before
			if at := strings.Index(copiedAround, string(first)+string(last)); at >= 0 && at%2 == 0 && before != "" {
				s = s[width:]
			}
		default:
			return s
		}
	}
	return text
}

// unwrapAddress returns the address in a text of the form "mailto:address" or "Name <address>".
// Address books write addresses in these forms. If the name contains an at sign, unwrapAddress
// returns s unchanged, because the name may be another address.
func unwrapAddress(s string) string {
	if scheme := "mailto:"; len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
		address, _, _ := strings.Cut(s[len(scheme):], "?") // RFC 6068
		if plain, err := url.PathUnescape(address); err == nil && checkText(plain) == nil {
			return plain
		}
		return address
	}
	name, inner, _ := strings.Cut(s, "<")
	if bare, ok := strings.CutSuffix(inner, ">"); ok && !strings.Contains(name, "@") {
		return strings.TrimFunc(bare, isBlank)
	}
	return s
}

// cutQuotes returns an address without the quotes around its local part, and reports whether there
// were quotes. Some mailboxes have dots at the end of the local part, or two dots in a row. Only a
// quoted local part may have such dots (RFC 5321 section 4.1.2). A later check rejects all other
// characters that quotes allow.
func cutQuotes(s string) (bare string, quoted bool) {
	inner, opened := strings.CutPrefix(s, `"`)
	if local, domain, closed := strings.Cut(inner, `"@`); opened && closed {
		return local + "@" + domain, true
	}
	return s, false
}

// checkText returns an error for a text that cannot be a recipient on any channel: the text is
// empty, too long, or not UTF-8, or has characters that are never valid.
func checkText(s string) error {
	switch {
	case s == "":
		return errEmpty
	case len(s) > maxInputLength:
		return errTooLong
	case !utf8.ValidString(s):
		return errEncoding
	}
	for _, r := range s {
		switch {
		case isControl(r):
			return withCharacter(errControlCharacter, r)
		case isInvisible(r):
			return withCharacter(errInvisibleCharacter, r)
		}
	}
	return nil
}

// isBlank reports whether r is a blank of any kind or invisible. Such characters are often copied
// along with an address or a number, but do not belong to the recipient.
func isBlank(r rune) bool { return unicode.IsSpace(r) || isInvisible(r) }

// isControl reports whether r is a control character: C0 (with CR, LF and NUL), DEL, C1, or a
// Unicode line break.
func isControl(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// isInvisible reports whether r is a bidi mark, zero-width character, soft hyphen, byte order mark,
// tag, variation selector or filler. The joiners ZWJ and ZWNJ are also invisible. If a domain needs
// a joiner, a person can write the domain with A-labels.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// checkBareAddress returns an error for a form that RFC 5322 allows and this service rejects: a
// display name, a quoted part, a comment, an IP literal, or several addresses.
func checkBareAddress(s string) error {
	switch {
	case strings.ContainsAny(s, "<>"):
		return errDisplayName
	case strings.ContainsAny(s, `"`):
		return errQuotedLocalPart
	case strings.ContainsAny(s, "()"):
		return errComment
	case strings.Contains(s, "@["):
		return errIPLiteral
	case strings.ContainsAny(s, ",;:"), strings.Count(s, "@") > 1:
		return errSeveralAddresses
	}
	return nil
}

func splitAddress(s string) (local, domain string, err error) {
	local, domain, found := strings.Cut(s, "@")
	switch {
	case !found && strings.ContainsRune(s, '＠'):
		return "", "", errFullWidth
	case !found:
		return "", "", errNoAtSign
	case local == "":
		return "", "", errNoLocalPart
	case domain == "":
		return "", "", errNoDomain
	case strings.ContainsFunc(s, unicode.IsSpace):
		return "", "", withCharacter(errSpace, []rune(s[strings.IndexFunc(s, unicode.IsSpace):])[0])
	}
	return local, domain, nil
}

// checkLocal returns an error for a local part that is not a dot-atom. If the local part was
// quoted, dots may be at any place.
func checkLocal(local string, quoted bool) error {
	if len(local) > maxLocalPartLength || quoted && hasMisplacedDot(local) && len(`""`+local) > maxLocalPartLength {
		return errLocalTooLong
	}
	if hasMisplacedDot(local) && !quoted {
		return errMisplacedDot
	}
	for i, r := range local {
		switch {
		case isAtext(r), r == '.':
		case isFullWidth(r):
			return withCharacter(errFullWidth, r)
		case !isNonASCIILetterOrDigit(r), i == 0 && unicode.IsMark(r): // a mark combines with the character before it
			return withCharacter(errInvalidCharacter, r)
		}
	}
	return nil
}

// isAtext reports whether r is atext of RFC 5322 section 3.2.3.
func isAtext(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return r < utf8.RuneSelf && strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
}

// isFullWidth reports whether r is a full-width or half-width form of a character. East Asian input
// methods produce such forms. RFC 6531 allows the forms in a local part, but the mail would go to
// another mailbox than the person meant.
func isFullWidth(r rune) bool {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianFullwidth, width.EastAsianHalfwidth:
		return r >= utf8.RuneSelf
	}
	return false
}

// isNonASCIILetterOrDigit reports whether r is a letter, mark or decimal digit beyond ASCII. RFC
// 6531 allows all characters beyond ASCII. This function excludes symbols and emoji, as PRECIS does
// (RFC 8264 section 4.2). Mail systems follow PRECIS for the names of mailboxes.
func isNonASCIILetterOrDigit(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

// foldLocal returns the same text for all spellings of a local part that mail systems treat as one
// mailbox. It ignores case and the composition of accents.
//
// Like RFC 8265 section 3.3, foldLocal changes letters to lower case and does not use full case
// folding. Full folding would equate "ß" with "ss" and "ſ" with "s", but these spellings may be
// mailboxes of different people. foldLocal decomposes characters first, so that "İ" and "i" stay
// different. It replaces the final sigma by the normal sigma.
func foldLocal(local string) string {
	lower := func(r rune) rune {
		if r == 'ς' {
			return 'σ'
		}
		return unicode.ToLower(r)
	}
	return norm.NFC.String(strings.Map(lower, norm.NFD.String(local)))
}

// maskBullets replace the hidden part of a masked address or number, whatever its length.
const maskBullets = "•••"

// firstCharacter returns the first character of the local part, in NFC, with its combining marks.
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
