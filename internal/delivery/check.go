package delivery

import (
	"maps"
	"net/mail"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Lengths in octets (RFC 5321 section 4.5.3.1, with erratum 1690 to RFC 3696 for the whole).
const (
	maxAddress = 254
	maxLocal   = 64
)

// addresses reads the fields that hold addresses, their domains turned to A-labels. Header injection ends here
// and in check: nothing that could end a line or a bracket gets past them. The errors say which field, not what is in it.
func (m Message) addresses() (from, to *mail.Address, id string, err error) {
	if from, err = parseFrom(m.From); err != nil {
		return nil, nil, "", err
	}
	bare, ok := addrSpec(m.To)
	if !ok {
		return nil, nil, "", Problem("the recipient is not a bare address")
	}
	id, ok = addrSpec(m.ID)
	if !ok || !ascii(id) {
		return nil, nil, "", Problem("the Message-ID is malformed")
	}
	return from, &mail.Address{Address: bare}, id, nil
}

func parseFrom(text string) (*mail.Address, error) {
	const malformed = Problem("the sender is malformed")
	if strings.ContainsFunc(text, unfitInHeader) || !utf8.ValidString(text) {
		return nil, malformed
	}
	from, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(from.Name, unfitInHeader) || !utf8.ValidString(from.Name) {
		return nil, malformed // the name may have been an encoded word
	}
	bare, ok := addrSpec(from.Address)
	if !ok {
		return nil, malformed
	}
	from.Address = bare
	return from, nil
}

// addrSpec takes a dot-atom@domain (RFC 5322 section 3.4.1, RFC 6531) and gives it with the domain as
// A-labels. No quoted local part, no comment, no address literal.
func addrSpec(text string) (string, bool) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || at > maxLocal || !utf8.ValidString(text) {
		return "", false
	}
	local, domain := text[:at], text[at+1:]
	if !dotAtom(local) {
		return "", false
	}
	labels, err := asciiDomain(domain)
	switch {
	case err != nil || !hostName(labels) || at+1+len(labels) > maxAddress:
		return "", false
	case labels == domain:
		return text, true
	}
	return local + "@" + labels, true
}

// asciiDomain leaves an ASCII domain as it is: idna refuses some that exist.
func asciiDomain(domain string) (string, error) {
	if ascii(domain) {
		return domain, nil
	}
	return idna.Lookup.ToASCII(domain)
}

func dotAtom(local string) bool {
	for atom := range strings.SplitSeq(local, ".") {
		if atom == "" || strings.ContainsFunc(atom, unfitInAtom) {
			return false
		}
	}
	return true
}

func hostName(domain string) bool {
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || strings.ContainsFunc(label, unfitInTag) {
			return false
		}
	}
	return true
}

// check looks at what is not an address.
func (m Message) check() error {
	switch {
	case !utf8.ValidString(m.Subject) || strings.ContainsFunc(m.Subject, unfitInHeader):
		return Problem("the subject holds control characters")
	case strings.Contains(m.Subject, "=?"):
		return Problem("the subject holds an encoded word") // go-mail would let it pass as it is
	case strings.ContainsFunc(m.Language, unfitInTag):
		return Problem("the language is not a language tag")
	case slices.ContainsFunc(slices.Sorted(maps.Keys(m.Marks)), func(name string) bool { return !isMark(name, m.Marks[name]) }):
		return Problem("a header is not one of X-… with an ID")
	case m.Date.IsZero():
		return Problem("the date is missing")
	case m.Text == "":
		return Problem("the text is missing")
	}
	return nil
}

// isMark holds for headers that mean nothing to a mail server, with a value that needs no encoding.
func isMark(name, value string) bool {
	plain := func(s string) bool { return s != "" && len(s) <= 80 && plainID(s) }
	return strings.HasPrefix(name, "X-") && plain(name) && plain(value)
}

// unfitInHeader holds for control characters, C1 included, and for Unicode's own line breaks.
func unfitInHeader(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// unfitInAtom holds for what RFC 5322 calls specials, for space in all its kinds and for control characters.
func unfitInAtom(r rune) bool {
	return unfitInHeader(r) || unicode.IsSpace(r) || strings.ContainsRune(`()<>[]:;@\,."`, r)
}

// Loopback reports whether a host is a loopback address or localhost (RFC 6761 section 6.3). It resolves no names.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// unfitInTag holds for all but the alphabet of host names and of RFC 5646.
func unfitInTag(r rune) bool {
	return r != '-' && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
}
