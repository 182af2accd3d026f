package delivery

import (
	"net/mail"
	"net/netip"
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
// and in check: nothing that could end a line or a bracket gets past them. A problem names the field, not what is in it.
func (m Message) addresses() (from, to *mail.Address, id string, problem Problem) {
	from, err := mail.ParseAddress(m.From)
	if err != nil || unfitText(m.From) || unfitText(from.Name) { // the name may have been an encoded word
		return nil, nil, "", "the sender is malformed"
	}
	ok, bare := false, ""
	if from.Address, ok = addrSpec(from.Address); !ok {
		return nil, nil, "", "the sender is malformed"
	}
	if bare, ok = addrSpec(m.To); !ok {
		return nil, nil, "", "the recipient is not a bare address"
	}
	if id, ok = addrSpec(m.ID); !ok || !ascii(id) {
		return nil, nil, "", "the Message-ID is malformed"
	}
	return from, &mail.Address{Address: bare}, id, ""
}

// unfitText holds for text that no header can carry.
func unfitText(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, unfitInHeader) }

// addrSpec returns a dot-atom@domain (RFC 5322 section 3.4.1, RFC 6531) with the domain as A-labels; false if the text is none. It takes
// no quoted local part, no comment and no address literal.
func addrSpec(text string) (string, bool) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || at > maxLocal || !utf8.ValidString(text) {
		return "", false
	}
	local, domain := text[:at], text[at+1:]
	if !dotAtom(local) {
		return "", false
	}
	if ascii(domain) { // idna refuses some that exist
		return text, hostName(domain) && len(text) <= maxAddress
	}
	labels, err := idna.Lookup.ToASCII(domain)
	return local + "@" + labels, err == nil && hostName(labels) && at+1+len(labels) <= maxAddress
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
func (m Message) check() Problem {
	for name, value := range m.Marks {
		if !isMark(name, value) {
			return "a header is not one of X-… with an ID"
		}
	}
	switch {
	case unfitText(m.Subject):
		return "the subject holds control characters"
	case strings.Contains(m.Subject, "=?"):
		return "the subject holds an encoded word" // go-mail would let it pass as it is
	case strings.ContainsFunc(m.Language, unfitInTag):
		return "the language is not a language tag"
	case m.Date.IsZero():
		return "the date is missing"
	case m.Text == "":
		return "the text is missing"
	}
	return ""
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
