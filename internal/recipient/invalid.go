package recipient

import "slices"

// InvalidError says why an input is not a recipient, without the input.
type InvalidError struct {
	// stable machine code: one of Reasons, or one of package policy for a valid recipient that is
	// not served
	Reason string
	Detail string // plain sentence for the caller
}

func (e *InvalidError) Error() string { return "invalid recipient: " + e.Reason }

// reasons are the codes of all errors below.
var reasons []string

func invalid(reason, detail string) error {
	reasons = append(reasons, reason)
	return &InvalidError{reason, detail}
}

var (
	errUnknownChannel   = invalid("unknown_channel", `The channel must be "email" or "sms".`)
	errEmpty            = invalid("empty", "The recipient is empty.")
	errEncoding         = invalid("encoding", "The recipient is not valid UTF-8 text.")
	errTooLong          = invalid("too_long", "The recipient is too long.")
	errControlCharacter = invalid("control_character",
		"The recipient contains a control character, such as a tab or a line break.")
	errInvisibleCharacter = invalid("invisible_character",
		"The recipient contains an invisible character. Type it by hand instead of pasting it.")
	errInvalidCharacter = invalid("invalid_character", "The recipient contains a character that is not allowed there.")
	errFullWidth        = invalid("full_width_character",
		"The address contains a full-width character. Type it in half-width form.")
	errSpace        = invalid("space", "The address contains a space.")
	errDisplayName  = invalid("display_name", "Give the bare address, without a name or angle brackets.")
	errComment      = invalid("comment", "Give the bare address, without a comment in parentheses.")
	errQuoted       = invalid("quoted_local_part", "Addresses with a quoted part before the @ are not accepted.")
	errSeveral      = invalid("several_addresses", "Give exactly one address.")
	errIPLiteral    = invalid("ip_literal", "The part after the @ must be a domain name, not an IP address.")
	errNoAt         = invalid("no_at_sign", "The address has no @.")
	errNoLocalPart  = invalid("no_local_part", "There is nothing before the @.")
	errLocalTooLong = invalid("local_part_too_long", "The part before the @ is longer than 64 octets.")
	errMisplacedDot = invalid("misplaced_dot",
		"There is a dot where none may stand: at the beginning, at the end or twice in a row.")
	errNoDomain         = invalid("no_domain", "There is nothing after the @.")
	errDomainIncomplete = invalid("domain_incomplete", "The part after the @ is not a complete domain name.")
	errInvalidDomain    = invalid("invalid_domain", "The part after the @ is not a valid domain name.")
	errNoCountryCode    = invalid("no_country_code", "The number must begin with + and the country code.")
	errInvalidNumber    = invalid("invalid_number", "This is not a valid phone number.")
	errTooShort         = invalid("too_short", "Digits are missing, or the area code is.")
	errNumberType       = invalid("number_not_allowed", "Premium-rate and shared-cost numbers are not accepted.")
)

// Reasons returns all possible values of InvalidError.Reason, sorted, so that pages can check that
// they have a text for each.
func Reasons() []string { return slices.Sorted(slices.Values(reasons)) }
