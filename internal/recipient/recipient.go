// Package recipient says who gets a code: an e-mail address or a phone number, parsed once at the edge.
//
// It stands first in the way of a send. The api parses what the caller typed; from there on the program
// passes a Recipient, which is valid, cannot smuggle anything into a mail header or an SMTP command, and shows
// itself only masked. quota and the log know it by its Hash; the address itself is read in two places, where
// it is encrypted for the retry and where the message is handed to a carrier.
//
// The package imports no other package of this module.
package recipient

import (
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Channel is the way a code travels.
type Channel string

// The channels. Their values are part of the HTTP surface and of every hash.
const (
	Email Channel = "email"
	SMS   Channel = "sms"
)

// Channels are all of them.
func Channels() []Channel { return []Channel{Email, SMS} }

// ParseChannel accepts exactly "email" and "sms". The error is an *InvalidError that does not repeat the input.
func ParseChannel(s string) (Channel, error) {
	switch ch := Channel(s); ch {
	case Email, SMS:
		return ch, nil
	}
	return "", invalid(reasonUnknownChannel)
}

// Recipient is a valid address on a channel. It is immutable, and prints itself masked.
// The zero value is no recipient: every method answers with an empty string.
type Recipient struct {
	// A pointer to a pointer: fmt skips the methods of a Recipient in an unexported field and prints its insides, and for a verb that
	// does not fit ("%s") it follows a pointer to a struct.
	p **parts
	_ [0]func() // not comparable with ==, which would compare pointers
}

type parts struct {
	channel Channel
	address string
	folded  string // what Hash covers
	masked  string
	country string
	kind    phonenumbers.PhoneNumberType
}

// Parse checks and normalises what a person or a back end typed. Plain spaces around it are dropped.
//
// E-mail: one bare addr-spec with a dot-atom local part, which is kept as typed, at a public domain name
// (RFC 5321 section 4.1.2, RFC 6531; no quoted string, comment, display name, group or address literal).
// SMS: an international number that begins with "+" and that the numbering plan knows.
//
// The error is always an *InvalidError. Parsing Address again gives a Recipient that is Equal.
func Parse(ch Channel, raw string) (Recipient, error) {
	return ParseIn(ch, raw, "")
}

// ParseIn is Parse for a person in a country, ISO 3166-1 alpha-2: a phone number may be written as it is dialled there,
// "0151 23456789" in DE, and with 00 for the "+". A country that is not known, or empty, is none.
func ParseIn(ch Channel, raw, country string) (Recipient, error) {
	var p parts
	var err error
	switch ch {
	case Email:
		p, err = parseEmail(raw)
	case SMS:
		p, err = parsePhone(raw, country)
	default:
		err = invalid(reasonUnknownChannel)
	}
	if err != nil {
		return Recipient{}, err
	}
	inner := &p
	return Recipient{p: &inner}, nil
}

func (r Recipient) parts() parts {
	if r.p == nil {
		return parts{}
	}
	return **r.p
}

// IsZero says that there is no recipient.
func (r Recipient) IsZero() bool { return r.p == nil }

// Equal says that both are the same address on the same channel.
func (r Recipient) Equal(other Recipient) bool {
	return r.Channel() == other.Channel() && r.Address() == other.Address()
}

// Channel is the way to this recipient.
func (r Recipient) Channel() Channel { return r.parts().channel }

// Address is where to send, in the clear: for e-mail the local part as typed and the domain as lower-case
// A-labels (RFC 5890), so that only the local part can need SMTPUTF8 (RFC 6531); for SMS the number in E.164 form.
func (r Recipient) Address() string { return r.parts().address }

// Domain is that of an e-mail address, in lower-case A-labels; "" for a phone number.
func (r Recipient) Domain() string {
	if r.Channel() != Email {
		return ""
	}
	_, domain, _ := strings.Cut(r.Address(), "@")
	return domain
}

// MaskedDomain is the domain that Masked shows, as typed spells it; an error where it is the domain of no e-mail address.
func MaskedDomain(typed string) (string, error) {
	r, err := Parse(Email, "a@"+strings.TrimPrefix(strings.TrimSpace(typed), "@"))
	if err != nil {
		return "", err
	}
	return DomainOf(r.Masked()), nil
}

// DomainOf is the domain that a masked form shows; "" where it shows none.
func DomainOf(masked string) string {
	_, domain, _ := strings.Cut(masked, "@")
	return domain
}

// Masked is the form for people and logs: "a•••@example.com", "+86 138•••021". It does not show how long
// the hidden part is.
func (r Recipient) Masked() string { return r.parts().masked }

// Country is the region of a phone number as ISO 3166-1 alpha-2, "DE"; "001" for a number that belongs to no
// country (satellite and international networks), "" for e-mail.
func (r Recipient) Country() string { return r.parts().country }

// Prefix is a phone number without its last four digits: those beside it. Numbers that were bought together to have codes
// sent to them share it (SMS-6). "" for e-mail.
func (r Recipient) Prefix() string {
	number := r.Address()
	if r.Channel() != SMS || len(number) <= prefixCut {
		return ""
	}
	return number[:len(number)-prefixCut]
}

const prefixCut = 4

// Range is how a phone number begins: the calling code and as many digits more as Masked shows, "+86138". Of all that is known
// of a number it tells no more than Masked does. "" for e-mail.
func (r Recipient) Range() string {
	if r.Channel() != SMS {
		return ""
	}
	shown, _, _ := strings.Cut(r.Masked(), bullets)
	return strings.Replace(shown, " ", "", 1)
}

// VoIP says that the numbering plan gives this phone number to internet telephony.
func (r Recipient) VoIP() bool {
	return r.Channel() == SMS && r.parts().kind == phonenumbers.VOIP
}

// Landline says that the numbering plan gives this phone number to lines in houses, which mostly get no text messages. In some
// countries, the United States among them, the plan does not tell these from mobile ones; there it is false.
func (r Recipient) Landline() bool {
	return r.Channel() == SMS && r.parts().kind == phonenumbers.FIXED_LINE
}

// Written is Address as people write it: a phone number with spaces between its groups, "+49 1512 3456789".
func (r Recipient) Written() string {
	if r.Channel() != SMS {
		return r.Address()
	}
	number, err := phonenumbers.Parse(r.Address(), "")
	if err != nil {
		return r.Address()
	}
	return phonenumbers.Format(number, phonenumbers.INTERNATIONAL)
}
