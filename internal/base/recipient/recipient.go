// Package recipient parses mail addresses and phone numbers, once, at the start of a request.
//
// A Recipient is always valid, can't inject text into a mail header or an SMTP command, and is
// always printed in masked form. Quota and database use its Hash; the address itself is only
// encrypted and sent to. The package imports nothing of this module. email.go, with domain.go, and
// phone.go parse; hash.go says which spellings are one mailbox; suggest.go corrects typos; plan.go
// is for pages; read.go helps to find recipients in other texts.
package recipient

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/nyaruka/phonenumbers"
	"golang.org/x/net/publicsuffix"
)

type Channel string

// The values are part of the HTTP API and of every recipient's hash, so never change them.
const (
	Email Channel = "email"
	SMS   Channel = "sms"
)

func Channels() []Channel { return []Channel{Email, SMS} }

// ParseChannel returns an *InvalidError that doesn't repeat the input.
func ParseChannel(s string) (Channel, error) {
	switch ch := Channel(s); ch {
	case Email, SMS:
		return ch, nil
	}
	return "", errUnknownChannel
}

// Recipient is a valid, immutable address on a channel. It is printed in masked form. The zero
// value is no recipient; its methods return empty strings.
type Recipient struct {
	// p is a pointer to a pointer, so that fmt can't print the address. fmt doesn't call our
	// methods on a Recipient in an unexported field, but prints its fields and, for a verb that
	// doesn't fit, such as "%s", even the struct that a pointer points to. It doesn't follow a
	// second pointer.
	p **recipientData
	_ [0]func() // not comparable with ==, which would compare pointers
}

type recipientData struct {
	channel Channel
	address string
	folded  string // what Hash hashes
	counted string // form of a phone number for counting: the same for all ways to dial one phone
	masked  string
	country string
	kind    phonenumbers.PhoneNumberType
}

// Parse checks and normalizes what a person or a back end typed. It drops spaces and invisible
// characters around it and, in a phone number, within it.
//
// For Email, raw is one address, also as "mailto:address" or "Name <address>". The local part stays
// as typed and must be a dot-atom: only in quotes may dots be first, last or next to each other.
// The domain must be a public name. Comments, groups and address literals are refused (RFC 5321
// section 4.1.2, RFC 6531).
//
// For SMS, raw is an international number with "+" that the numbering plan knows.
//
// Errors are *InvalidErrors. Parsing an Address again gives an Equal Recipient.
func Parse(ch Channel, raw string) (Recipient, error) {
	return ParseInCountry(ch, raw, "")
}

// ParseInCountry also accepts a phone number as people in a country (ISO 3166-1 alpha-2) dial it,
// or with 00 for "+". If country is unknown, ParseInCountry does the same as Parse.
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

func (r Recipient) IsZero() bool { return r.p == nil }

func (r Recipient) Equal(other Recipient) bool {
	return r.Channel() == other.Channel() && r.Address() == other.Address()
}

func (r Recipient) Channel() Channel { return r.data().channel }

// Address returns the unmasked address. The domain of a mail address is in lower-case A-labels (RFC
// 5890), so only a local part that isn't ASCII needs SMTPUTF8 (RFC 6531). A phone number is in
// E.164 form.
func (r Recipient) Address() string { return r.data().address }

// Domain returns a mail address's domain, in lower-case A-labels; "" for a phone number.
func (r Recipient) Domain() string {
	if r.Channel() != Email {
		return ""
	}
	_, domain, _ := strings.Cut(r.Address(), "@")
	return domain
}

// MaskedDomain returns a typed domain as Masked shows it. Error: an *InvalidError.
func MaskedDomain(domain string) (string, error) {
	r, err := Parse(Email, "a@"+strings.TrimPrefix(strings.TrimSpace(domain), "@"))
	if err != nil {
		return "", err
	}
	return DomainOfMasked(r.Masked()), nil
}

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

// Country returns a phone number's country as ISO 3166-1 alpha-2, or nonGeographic ("001"); "" for
// a mail address.
func (r Recipient) Country() string { return r.data().country }

// Prefix returns a phone number without its last four digits, which fraudsters often vary; "" for a
// mail address.
func (r Recipient) Prefix() string {
	number := r.Address()
	if r.Channel() != SMS || len(number) <= prefixHiddenDigits {
		return ""
	}
	return number[:len(number)-prefixHiddenDigits]
}

const prefixHiddenDigits = 4

// VisiblePrefix returns what Masked shows of a phone number's beginning, such as "+86138"; "" for a
// mail address.
func (r Recipient) VisiblePrefix() string {
	if r.Channel() != SMS {
		return ""
	}
	shown, _, _ := strings.Cut(r.Masked(), maskBullets)
	return strings.Replace(shown, " ", "", 1)
}

// VoIP reports whether the numbering plan gives the number to internet telephony.
func (r Recipient) VoIP() bool {
	return r.Channel() == SMS && r.data().kind == phonenumbers.VOIP
}

// Landline reports whether the numbering plan gives the number to fixed lines, most of which get no
// text messages. If the plan doesn't distinguish them from mobile numbers, as in the United States,
// Landline returns false.
func (r Recipient) Landline() bool {
	return r.Channel() == SMS && r.data().kind == phonenumbers.FIXED_LINE
}

func (r Recipient) String() string { return r.Masked() }

func (r Recipient) GoString() string { return "recipient.Recipient(" + r.Masked() + ")" }

func (r Recipient) LogValue() slog.Value { return slog.StringValue(r.Masked()) }

// MarshalText gives encoders the masked form, which can't be parsed back.
func (r Recipient) MarshalText() ([]byte, error) { return []byte(r.Masked()), nil }

// Format prints the masked form for every verb; otherwise %d and %x would print the fields.
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
