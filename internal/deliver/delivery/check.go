package delivery

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The greatest lengths of an address and of its local part, in octets (RFC 5321 section 4.5.3.1).
// Erratum 1690 to RFC 3696 derives the length of the address.
const (
	maxAddress   = 254
	maxLocalPart = 64
)

// The greatest lengths of a line in octets, without CRLF. maxLine is for any line (RFC 5321 section
// 4.5.3.1.6). maxFoldedLine is for a line with an encoded word (RFC 2047 section 2).
const (
	maxLine       = 998
	maxFoldedLine = 76
)

// checkRecipientFields checks the fields that differ between recipients. It returns the recipient
// and the Message-ID with their domains as A-labels. If a field is wrong, problem describes the
// field without its value. Otherwise problem is "". checkRecipientFields and checkSharedFields
// prevent header injection by rejecting every character that could end a line or a bracket.
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

// checkSharedFields checks the fields that all recipients share, and returns the sender.
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

// ParseSender parses the field From. In the returned address, the domain is in A-labels. If the
// field is not valid, ok is false.
func ParseSender(text string) (from *mail.Address, ok bool) {
	from, err := mail.ParseAddress(text)
	// the decoded name is checked, too, since an encoded word can hide control characters
	if err != nil || unfitForHeader(text) || unfitForHeader(from.Name) {
		return nil, false
	}
	from.Address, ok = normalizeAddress(from.Address)
	return from, ok
}

// unfitForHeader reports whether a text cannot be in any header, because it contains control
// characters or line breaks or is not UTF-8.
func unfitForHeader(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, isControlOrLineBreak)
}

// normalizeAddress returns an address with its domain as A-labels. It returns false if the text is
// not dot-atom@domain (RFC 5322 section 3.4.1, RFC 6531). Only a local part with misplaced dots may
// be in quotes. Other quoted texts, comments and address literals are rejected.
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

// isDotted reports whether each part of a text between its dots is not empty and has no forbidden
// character.
func isDotted(text string, forbidden func(rune) bool) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.ContainsFunc(part, forbidden) {
			return false
		}
	}
	return true
}

// isIDHeader reports whether a header may be in Mail.IDHeaders. The name of the header must begin
// with X-, so that mail servers ignore the header. The value must need no encoding.
func isIDHeader(name, value string) bool {
	plain := func(s string) bool { return s != "" && len(s) <= 80 && isLettersDigitsHyphens(s) }
	return strings.HasPrefix(name, "X-") && plain(name) && plain(value)
}

// isLettersDigitsHyphens reports whether s has only ASCII letters, digits and hyphens. No encoding
// changes such a text.
func isLettersDigitsHyphens(s string) bool {
	return !strings.ContainsFunc(s, notLetterDigitHyphen)
}

// isControlOrLineBreak reports whether r is a control character, also of C1, or a line break of
// Unicode.
func isControlOrLineBreak(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// isForbiddenInAtom reports whether r is one of the specials of RFC 5322, white space of any kind,
// or a control character.
func isForbiddenInAtom(r rune) bool {
	return isControlOrLineBreak(r) || unicode.IsSpace(r) || strings.ContainsRune(`()<>[]:;@\,."`, r)
}

// notLetterDigitHyphen reports whether r is outside of the alphabet of host names and language tags
// (RFC 5646).
func notLetterDigitHyphen(r rune) bool {
	return r != '-' && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
}
