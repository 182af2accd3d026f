// Package recipient parses mail addresses and phone numbers.
//
// The recipient of a request is parsed once, at the start of the request. A Recipient is always
// valid. It cannot inject text into a mail header or an SMTP command, and it is always printed in
// masked form. The quota and the database use the recipient's Hash. The address itself is used only
// to encrypt it and to send a message.
//
// The package imports no other package of this module.
package recipient

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/nyaruka/phonenumbers"
	"golang.org/x/net/publicsuffix"
)

// Channel is the way of sending a code.
type Channel string

// These are the channels. Their values are part of the HTTP API, and each recipient's hash is
// computed with them, so do not change them.
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

// Recipient is a valid address on a channel. A Recipient is immutable and is printed in masked
// form. The zero value is not a recipient, and its methods return empty strings.
type Recipient struct {
	// p is a pointer to a pointer, so that fmt cannot print the address. If a Recipient is in an
	// unexported field, fmt does not call the methods of Recipient but prints its fields. If the
	// verb does not fit a field that is a pointer, such as "%s", fmt even prints the struct to
	// which the pointer points. Behind the first pointer of p there is no struct but a second
	// pointer, and fmt does not follow it.
	p **recipientData
	_ [0]func() // not comparable with ==, which would compare pointers
}

type recipientData struct {
	channel Channel
	address string
	folded  string // the form that Hash hashes
	counted string // form of a phone number under which its sends are counted; the same for all ways to dial one phone
	masked  string
	country string
	kind    phonenumbers.PhoneNumberType
}

// Parse checks and normalizes a recipient that a person or a back end typed (the parameter raw).
// Parse removes spaces and invisible characters around the recipient, and also within a phone
// number.
//
// For Email, raw must be one address. The address may also be written "mailto:address" or "Name
// <address>". The local part is kept as typed. It must be a dot-atom: a dot may not be first, last,
// or next to another dot. Only a local part in quotes may have dots at any place. The domain must
// be a public domain name. Comments, groups and address literals are not allowed (RFC 5321 section
// 4.1.2, RFC 6531).
//
// For SMS, raw must be an international number that begins with "+" and that the numbering plan
// knows.
//
// Each error is an *InvalidError. If the Address of the result is parsed again, the two Recipients
// are Equal.
func Parse(ch Channel, raw string) (Recipient, error) {
	return ParseInCountry(ch, raw, "")
}

// ParseInCountry is Parse for a person in a country (ISO 3166-1 alpha-2). It also accepts a phone
// number in the form in which people in the country dial it, such as "0151 23456789" in DE, or with
// 00 in place of "+". If the country is empty or unknown, ParseInCountry does the same as Parse.
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

// Address returns the unmasked address. An e-mail address has the local part as typed, and the
// domain in lower-case A-labels (RFC 5890). So an address needs SMTPUTF8 (RFC 6531) only if its
// local part is not ASCII. A phone number is in E.164 form.
func (r Recipient) Address() string { return r.data().address }

// Domain returns the domain of an e-mail address, in lower-case A-labels; "" for a phone number.
func (r Recipient) Domain() string {
	if r.Channel() != Email {
		return ""
	}
	_, domain, _ := strings.Cut(r.Address(), "@")
	return domain
}

// MaskedDomain returns a typed domain in the form in which Masked shows domains. If the domain is
// not valid for e-mail addresses, MaskedDomain returns an *InvalidError.
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

// RegistrableDomain returns the domain that a person registered, such as "example.com" for
// "a.b.example.com". Names below it cost nothing.
func RegistrableDomain(domain string) string {
	registrable, err := publicsuffix.EffectiveTLDPlusOne(domain)
	if err != nil {
		return domain
	}
	return registrable
}

// Masked returns the masked form for people and logs, such as "a•••@example.com" or "+86
// 138•••021". The masked form does not reveal how many characters are hidden.
func (r Recipient) Masked() string { return r.data().masked }

// Country returns the country of a phone number as ISO 3166-1 alpha-2, such as "DE". If the number
// belongs to no country, Country returns nonGeographic ("001"). Country returns "" for an e-mail
// address.
func (r Recipient) Country() string { return r.data().country }

// Prefix returns a phone number without its last four digits. It returns "" for an e-mail address.
// Fraudsters often use many numbers with the same prefix.
func (r Recipient) Prefix() string {
	number := r.Address()
	if r.Channel() != SMS || len(number) <= prefixHiddenDigits {
		return ""
	}
	return number[:len(number)-prefixHiddenDigits]
}

// prefixHiddenDigits is how many digits of a phone number Prefix leaves out at the end.
const prefixHiddenDigits = 4

// VisiblePrefix returns the country code and the leading digits of a phone number that Masked
// shows, such as "+86138". It returns "" for an e-mail address. VisiblePrefix reveals no digit that
// Masked hides.
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

// Landline reports whether the numbering plan assigns the phone number to fixed lines. Most
// landlines cannot receive text messages. In some countries, such as the United States, the plan
// does not distinguish landlines from mobile numbers. For these numbers, Landline returns false.
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
