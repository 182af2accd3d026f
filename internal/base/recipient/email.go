package recipient

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// These are the limits of RFC 5321 section 4.5.3.1, in octets. Its limit of 256 for a path includes
// two angle brackets.
const (
	maxAddressLength   = 254
	maxLocalPartLength = 64
	maxInputLength     = 1024 // before the domain is normalized: its A-labels can be shorter than what was typed
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

// These characters are often copied together with an address or a number, from sentences, lists,
// tables and code. An address may begin with a character of copiedAround, so TrimPasted removes
// such a character at the beginning only together with its pair at the end. It removes listMarks
// only before a blank.
const (
	copiedAfter  = ",;:.!?)]}\"'`*_|~-–—”’“»›」』》】〉）］，；：。！？、،؛؟"
	copiedBefore = ",;:)(][|“”„‘‚«»‹›「『《【〈（［，；：、،؛"
	copiedAround = "\"\"''``**__~~{}"
	listMarks    = "-–—•*"
)

// TrimPasted removes characters that were copied along with an address or a number. It leaves a
// text unchanged that consists of nothing else. It also leaves several dots at the end, because
// they show that the text was cut off.
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
			s = behind // the end is cut later, because it may be half of a pair
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

// unwrapAddress unwraps "mailto:address" and "Name <address>", as address books write them. If the
// name has an at sign, it returns the text unchanged, because the name may be another address.
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

// cutQuotes cuts the quotes around a local part. Some mailboxes have dots at the end, or two in a
// row, which are allowed only in quotes (RFC 5321 section 4.1.2). Anything else that quotes allow
// is refused later.
func cutQuotes(s string) (bare string, quoted bool) {
	inner, opened := strings.CutPrefix(s, `"`)
	if local, domain, closed := strings.Cut(inner, `"@`); opened && closed {
		return local + "@" + domain, true
	}
	return s, false
}

// checkText refuses a text that can't be a recipient on any channel.
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

// isBlank counts invisible characters, too: people copy them along unseen.
func isBlank(r rune) bool { return unicode.IsSpace(r) || isInvisible(r) }

// isControl reports true for Unicode's line breaks, too.
func isControl(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// isInvisible reports true for bidi marks, zero-width characters, soft hyphens, byte order marks,
// tags, variation selectors and fillers, and the joiners ZWJ and ZWNJ. A domain that needs a joiner
// can be typed in A-labels.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// checkBareAddress refuses forms that RFC 5322 allows and we don't.
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

// checkLocal accepts a dot-atom. In quotes it accepts dots at any place, too.
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

// isFullWidth reports true for full-width and half-width forms, which East Asian input methods
// produce. RFC 6531 allows them in a local part, but the mail would go to another mailbox than the
// person meant.
func isFullWidth(r rune) bool {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianFullwidth, width.EastAsianHalfwidth:
		return r >= utf8.RuneSelf
	}
	return false
}

// isNonASCIILetterOrDigit excludes symbols and emoji, as PRECIS does (RFC 8264 section 4.2), which
// mail systems follow for mailbox names. RFC 6531 allows everything beyond ASCII.
func isNonASCIILetterOrDigit(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

// foldLocal makes two spellings equal if they differ only in case or in Unicode composition,
// because mail systems treat them as one mailbox.
//
// It changes letters to lower case, as RFC 8265 section 3.3 does, without full case folding, which
// would equate "ß" with "ss" and "ſ" with "s": these may be mailboxes of different people. It
// decomposes first, so that "İ" and "i" stay different. The final sigma becomes a normal one.
func foldLocal(local string) string {
	lower := func(r rune) rune {
		if r == 'ς' {
			return 'σ'
		}
		return unicode.ToLower(r)
	}
	return norm.NFC.String(strings.Map(lower, norm.NFD.String(local)))
}

const maskBullets = "•••" // the same for any number of hidden characters

// firstCharacter returns the first character with its combining marks, in NFC.
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
