package recipient

import (
	"fmt"
	"slices"
)

// InvalidError says why an input is not a recipient, without the input.
type InvalidError struct {
	// Reason is a stable code for programs: one of Reasons or, if the recipient is valid but not
	// served, one of package policy.
	Reason string
	Detail string // a sentence for the caller
	// Character is the character that is invalid, such as U+2019 '’', or "" if none is.
	Character string
}

func (e *InvalidError) Error() string { return "invalid recipient: " + e.Reason }

var reasons []string

func newInvalidError(reason, detail string) error {
	reasons = append(reasons, reason)
	return &InvalidError{Reason: reason, Detail: detail}
}

func withCharacter(err error, r rune) error {
	e := *err.(*InvalidError)
	e.Character = fmt.Sprintf("%#U", r)
	e.Detail += " It is " + e.Character + "."
	return &e
}

var (
	errUnknownChannel   = newInvalidError("unknown_channel", `The channel must be "email" or "sms".`)
	errEmpty            = newInvalidError("empty", "The recipient is empty.")
	errEncoding         = newInvalidError("encoding", "The recipient is not valid UTF-8 text.")
	errTooLong          = newInvalidError("too_long", "The recipient is too long.")
	errControlCharacter = newInvalidError("control_character",
		"The recipient contains a control character, such as a tab or a line break.")
	errInvisibleCharacter = newInvalidError("invisible_character",
		"The recipient contains an invisible character. Type it by hand instead of pasting it.")
	errInvalidCharacter = newInvalidError("invalid_character", "The recipient contains a character that is not allowed there.")
	errFullWidth        = newInvalidError("full_width_character",
		"The address contains a full-width character. Type it in half-width form.")
	errSpace           = newInvalidError("space", "The address contains a space.")
	errDisplayName     = newInvalidError("display_name", "Give the bare address, without a name or angle brackets.")
	errComment         = newInvalidError("comment", "Give the bare address, without a comment in parentheses.")
	errQuotedLocalPart = newInvalidError("quoted_local_part",
		"In quotes before the @, only letters, digits, dots and signs such as + and - are allowed.")
	errSeveralAddresses = newInvalidError("several_addresses", "Give exactly one address.")
	errIPLiteral        = newInvalidError("ip_literal", "The part after the @ must be a domain name, not an IP address.")
	errNoAtSign         = newInvalidError("no_at_sign", "The address has no @.")
	errNoLocalPart      = newInvalidError("no_local_part", "There is nothing before the @.")
	errLocalTooLong     = newInvalidError("local_part_too_long", "The part before the @ is longer than 64 octets.")
	errMisplacedDot     = newInvalidError("misplaced_dot",
		"There is a dot in a wrong place: at the beginning, at the end or twice in a row. If the mailbox has it, "+
			`quote what is before the @: "ana."@example.com.`)
	errNoDomain         = newInvalidError("no_domain", "There is nothing after the @.")
	errIncompleteDomain = newInvalidError("domain_incomplete", "The part after the @ is not a complete domain name.")
	errInvalidDomain    = newInvalidError("invalid_domain", "The part after the @ is not a valid domain name.")
	errNoCountryCode    = newInvalidError("no_country_code", "The number must begin with + and the country code.")
	errInvalidNumber    = newInvalidError("invalid_number", "This is not a valid phone number.")
	errNumberTooShort   = newInvalidError("too_short", "Some digits are missing, or the area code.")
	errNumberNotAllowed = newInvalidError("number_not_allowed", "Premium-rate and shared-cost numbers are not accepted.")
)

// Reasons returns all reasons of this package, sorted, for tests that pages have a text for each.
func Reasons() []string { return slices.Sorted(slices.Values(reasons)) }
