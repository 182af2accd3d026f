package delivery

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// These are lengths in octets (RFC 5321 section 4.5.3.1). Erratum 1690 to RFC 3696 derives the
// length of an address.
const (
	maxAddress   = 254
	maxLocalPart = 64
)

// These are lengths of a line in octets, without CRLF: of any line (RFC 5321 section 4.5.3.1.6),
// and of a line with an encoded word (RFC 2047 section 2).
const (
	maxLine       = 998
	maxFoldedLine = 76
)

// checkRecipientFields returns the recipient and the Message-ID with their domains as A-labels.
// problem describes a wrong field without its value. Like checkSharedFields, it prevents header
// injection by rejecting every character that could end a line or a bracket.
func (m Mail) checkRecipientFields() (to, id string, problem SafeError) {
	ok := false
	if to, ok = normalizeAddress(m.To); !ok {
		return "", "", "the recipient is not a bare address"
	}
	if id, ok = normalizeAddress(m.MessageID); !ok || !isASCII(id) {
		return "", "", "the Message-ID is malformed"
	}
	for name, value := range m.IDHeaders {
		if !isIDHeader(name, value) {
			return "", "", "a header is not one of X-… with an ID"
		}
	}
	if m.Date.IsZero() {
		return "", "", "the date is missing"
	}
	return to, id, ""
}

func (m Mail) checkSharedFields() (from *mail.Address, problem SafeError) {
	from, ok := ParseSender(m.From)
	switch {
	case !ok:
		return nil, "the sender is malformed"
	case unfitForHeader(m.Subject):
		return nil, "the subject holds control characters"
	case strings.Contains(m.Subject, "=?"):
		return nil, "the subject holds an encoded word" // a mail program would decode it
	case strings.ContainsFunc(m.Language, notLetterDigitHyphen):
		return nil, "the language is not a language tag"
	case m.Text == "":
		return nil, "the text is missing"
	}
	return from, ""
}

// ParseSender parses the field From and writes its domain as A-labels. It returns false if the
// field is not valid.
func ParseSender(text string) (from *mail.Address, ok bool) {
	from, err := mail.ParseAddress(text)
	// The decoded name is checked, too, because an encoded word can hide control characters.
	if err != nil || unfitForHeader(text) || unfitForHeader(from.Name) {
		return nil, false
	}
	from.Address, ok = normalizeAddress(from.Address)
	return from, ok
}

// unfitForHeader reports whether a text contains control characters or line breaks, or is not
// UTF-8.
func unfitForHeader(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, isControlOrLineBreak)
}

// normalizeAddress returns an address with its domain as A-labels, or false if the text is not
// dot-atom@domain (RFC 5322 section 3.4.1, RFC 6531). The local part may be in quotes, and may then
// have dots anywhere. Other quoted texts, comments and address literals are rejected.
func normalizeAddress(text string) (string, bool) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || at > maxLocalPart || !utf8.ValidString(text) {
		return "", false
	}
	local, domain := text[:at], text[at+1:]
	inner := strings.TrimSuffix(strings.TrimPrefix(local, `"`), `"`)
	quoted := inner != "" && local == `"`+inner+`"` && isDotAtom(strings.ReplaceAll(inner, ".", "-"))
	if !quoted && !isDotAtom(local) {
		return "", false
	}
	if isASCII(domain) { // idna refuses some domains that exist
		return text, isHostName(domain) && len(text) <= maxAddress
	}
	labels, err := idna.Lookup.ToASCII(domain)
	return local + "@" + labels, err == nil && isHostName(labels) && at+1+len(labels) <= maxAddress
}

func isDotAtom(local string) bool { return isDotted(local, isForbiddenInAtom) }

func isHostName(domain string) bool { return isDotted(domain, notLetterDigitHyphen) }

// isDotted reports whether each part between dots is not empty and has no forbidden character.
func isDotted(text string, forbidden func(rune) bool) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.ContainsFunc(part, forbidden) {
			return false
		}
	}
	return true
}

// isIDHeader reports whether a header may be in Mail.IDHeaders. A name that begins with X- sets no
// standard field. The value must need no encoding.
func isIDHeader(name, value string) bool {
	plain := func(s string) bool { return s != "" && len(s) <= 80 && isLettersDigitsHyphens(s) }
	return strings.HasPrefix(name, "X-") && plain(name) && plain(value)
}

// isLettersDigitsHyphens reports whether s stays the same in each encoding of a mail: in encoded
// words, quoted-printable, HTML and URLs.
func isLettersDigitsHyphens(s string) bool {
	return !strings.ContainsFunc(s, notLetterDigitHyphen)
}

// isControlOrLineBreak is also true for the C1 control characters and the line breaks of Unicode.
func isControlOrLineBreak(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// isForbiddenInAtom is true for the specials of RFC 5322, white space of any kind, and control
// characters.
func isForbiddenInAtom(r rune) bool {
	return isControlOrLineBreak(r) || unicode.IsSpace(r) || strings.ContainsRune(`()<>[]:;@\,."`, r)
}

// notLetterDigitHyphen is true for characters that host names and language tags (RFC 5646) can't
// contain.
func notLetterDigitHyphen(r rune) bool {
	return r != '-' && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
}
