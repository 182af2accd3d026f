// Package recipient parses mail addresses and phone numbers.
//
// A request's recipient is parsed once, at its start. A Recipient is valid, cannot inject anything
// into a mail header or an SMTP command, and prints only masked. The quota and the database use its
// Hash; the address itself is read only to encrypt it and to send a message.
//
// The package imports no other package of this module.
package recipient

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Channel is the way of sending a code.
type Channel string

// The channels. Their values are part of the HTTP API and of every hash.
const (
	Email Channel = "email"
	SMS   Channel = "sms"
)

// Channels returns all channels.
func Channels() []Channel { return []Channel{Email, SMS} }

// ParseChannel accepts exactly "email" and "sms". The error is an *InvalidError that does not
// repeat the input.
func ParseChannel(s string) (Channel, error) {
	switch ch := Channel(s); ch {
	case Email, SMS:
		return ch, nil
	}
	return "", errUnknownChannel
}

// Recipient is a valid address on a channel. It is immutable, and prints masked. The zero value is
// not a recipient; its methods return empty strings.
type Recipient struct {
	// p is a pointer to a pointer. If a Recipient is in an unexported field, fmt does not call its
	// methods but prints its fields. For a verb that does not fit ("%s"), fmt even follows a
	// pointer to a struct.
	p **recipientData
	_ [0]func() // not comparable with ==, which would compare pointers
}

type recipientData struct {
	channel Channel
	address string
	folded  string // the form that Hash hashes
	counted string // a phone number's form for counting: the same for all numbers of one handset
	masked  string
	country string
	kind    phonenumbers.PhoneNumberType
}

// Parse checks and normalizes a recipient that a person or a back end typed. It drops blanks and
// invisible characters around the recipient, and within a number.
//
// E-mail: one address, also after "mailto:" or as "Name <address>". The local part is a dot-atom,
// kept as typed; in quotes, its dots may stand anywhere. The domain must be a public domain name
// (RFC 5321 section 4.1.2, RFC 6531; no comment, group or address literal). SMS: an international
// number that begins with "+" and that the numbering plan knows.
//
// The error is always an *InvalidError. Parsing Address again gives a Recipient that is Equal.
func Parse(ch Channel, raw string) (Recipient, error) {
	return ParseInCountry(ch, raw, "")
}

// ParseInCountry is Parse for a person in a country, ISO 3166-1 alpha-2. A phone number may also
// have the form in which people dial it there: "0151 23456789" in DE, or with 00 instead of the
// "+". If the country is empty or unknown, ParseInCountry is Parse.
func ParseInCountry(ch Channel, raw, country string) (Recipient, error) {
	var p recipientData
	var err error
	switch ch {
	case Email:
		p, err = parseEmail(raw)
	case SMS:
		p, err = parsePhone(raw, country)
	default:
		err = errUnknownChannel
	}
	if err != nil {
		return Recipient{}, err
	}
	inner := &p
	return Recipient{p: &inner}, nil
}

func (r Recipient) data() recipientData {
	if r.p == nil {
		return recipientData{}
	}
	return **r.p
}

// IsZero reports whether r is the zero value, no recipient.
func (r Recipient) IsZero() bool { return r.p == nil }

// Equal reports whether r and other are the same address on the same channel.
func (r Recipient) Equal(other Recipient) bool {
	return r.Channel() == other.Channel() && r.Address() == other.Address()
}

// Channel returns the recipient's channel.
func (r Recipient) Channel() Channel { return r.data().channel }

// Address returns the unmasked address. An e-mail address has the local part as typed and the
// domain as lower-case A-labels (RFC 5890), so that only the local part can need SMTPUTF8 (RFC
// 6531). A phone number is in E.164 form.
func (r Recipient) Address() string { return r.data().address }

// Domain returns the domain of an e-mail address, in lower-case A-labels; "" for a phone number.
func (r Recipient) Domain() string {
	if r.Channel() != Email {
		return ""
	}
	_, domain, _ := strings.Cut(r.Address(), "@")
	return domain
}

// MaskedDomain returns a typed domain in the form that Masked shows. Error: *InvalidError if no
// e-mail address can have the domain.
func MaskedDomain(domain string) (string, error) {
	r, err := Parse(Email, "a@"+strings.TrimPrefix(strings.TrimSpace(domain), "@"))
	if err != nil {
		return "", err
	}
	return DomainOfMasked(r.Masked()), nil
}

// DomainOfMasked returns the domain in a masked form; "" if it has none.
func DomainOfMasked(masked string) string {
	_, domain, _ := strings.Cut(masked, "@")
	return domain
}

// Masked returns the form for people and logs: "a•••@example.com", "+86 138•••021". It does not
// reveal the length of the hidden part.
func (r Recipient) Masked() string { return r.data().masked }

// Country returns a phone number's country as ISO 3166-1 alpha-2, such as "DE"; nonGeographic,
// "001", if it belongs to none; "" for e-mail.
func (r Recipient) Country() string { return r.data().country }

// Prefix returns a phone number without its last four digits; "" for e-mail. Fraudsters often use
// blocks of numbers with one prefix.
func (r Recipient) Prefix() string {
	number := r.Address()
	if r.Channel() != SMS || len(number) <= prefixHiddenDigits {
		return ""
	}
	return number[:len(number)-prefixHiddenDigits]
}

// prefixHiddenDigits is how many digits of a phone number Prefix leaves out at the end.
const prefixHiddenDigits = 4

// VisiblePrefix returns the leading digits of a phone number that Masked shows, with the country
// code, such as "+86138"; "" for e-mail. It reveals no more than Masked.
func (r Recipient) VisiblePrefix() string {
	if r.Channel() != SMS {
		return ""
	}
	shown, _, _ := strings.Cut(r.Masked(), maskBullets)
	return strings.Replace(shown, " ", "", 1)
}

// VoIP reports whether the numbering plan assigns this phone number to internet telephony.
func (r Recipient) VoIP() bool {
	return r.Channel() == SMS && r.data().kind == phonenumbers.VOIP
}

// Landline reports whether the numbering plan assigns this phone number to fixed lines. Most such
// numbers get no text messages. In some countries, such as the United States, the plan does not
// distinguish them from mobile numbers; then it returns false.
func (r Recipient) Landline() bool {
	return r.Channel() == SMS && r.data().kind == phonenumbers.FIXED_LINE
}

// String gives the masked form.
func (r Recipient) String() string { return r.Masked() }

// GoString gives the masked form.
func (r Recipient) GoString() string { return "recipient.Recipient(" + r.Masked() + ")" }

// LogValue gives the masked form to slog.
func (r Recipient) LogValue() slog.Value { return slog.StringValue(r.Masked()) }

// MarshalText gives the masked form to JSON, YAML, XML and other text encoders. The form
// cannot be parsed back to the address.
func (r Recipient) MarshalText() ([]byte, error) { return []byte(r.Masked()), nil }

// Format prints the masked form for every verb. Without Format, %d and %x would print the fields.
func (r Recipient) Format(f fmt.State, verb rune) {
	switch {
	case verb == 'v' && f.Flag('#'):
		_, _ = io.WriteString(f, r.GoString())
	case verb == 'v', verb == 's', verb == 'q':
		_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), r.Masked())
	default:
		_, _ = io.WriteString(f, r.Masked())
	}
}
