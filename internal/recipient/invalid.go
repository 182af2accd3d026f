package recipient

import (
	"maps"
	"slices"
)

// InvalidError says why an input is not a recipient, without the input.
type InvalidError struct {
	Reason string // stable machine code, one of Reasons
	Detail string // plain sentence for the caller
}

func (e *InvalidError) Error() string { return "invalid recipient: " + e.Reason }

const (
	reasonUnknownChannel     = "unknown_channel"
	reasonEmpty              = "empty"
	reasonEncoding           = "encoding"
	reasonTooLong            = "too_long"
	reasonControlCharacter   = "control_character"
	reasonInvisibleCharacter = "invisible_character"
	reasonInvalidCharacter   = "invalid_character"
	reasonFullWidth          = "full_width_character"
	reasonSpace              = "space"
	reasonDisplayName        = "display_name"
	reasonComment            = "comment"
	reasonQuoted             = "quoted_local_part"
	reasonSeveral            = "several_addresses"
	reasonIPLiteral          = "ip_literal"
	reasonNoAt               = "no_at_sign"
	reasonNoLocalPart        = "no_local_part"
	reasonLocalTooLong       = "local_part_too_long"
	reasonMisplacedDot       = "misplaced_dot"
	reasonNoDomain           = "no_domain"
	reasonDomainIncomplete   = "domain_incomplete"
	reasonInvalidDomain      = "invalid_domain"
	reasonNoCountryCode      = "no_country_code"
	reasonInvalidNumber      = "invalid_number"
	reasonTooShort           = "too_short"
	reasonNumberType         = "number_not_allowed"
)

var details = map[string]string{
	reasonUnknownChannel:     `The channel must be "email" or "sms".`,
	reasonEmpty:              "The recipient is empty.",
	reasonEncoding:           "The recipient is not valid UTF-8 text.",
	reasonTooLong:            "The recipient is too long.",
	reasonControlCharacter:   "The recipient contains a control character, such as a tab or a line break.",
	reasonInvisibleCharacter: "The recipient contains an invisible character. Type it by hand instead of pasting it.",
	reasonInvalidCharacter:   "The recipient contains a character that is not allowed there.",
	reasonFullWidth:          "The address contains a full-width character. Type it in half-width form.",
	reasonSpace:              "The address contains a space.",
	reasonDisplayName:        "Give the bare address, without a name or angle brackets.",
	reasonComment:            "Give the bare address, without a comment in parentheses.",
	reasonQuoted:             "Addresses with a quoted part before the @ are not accepted.",
	reasonSeveral:            "Give exactly one address.",
	reasonIPLiteral:          "The part after the @ must be a domain name, not an IP address.",
	reasonNoAt:               "The address has no @.",
	reasonNoLocalPart:        "There is nothing before the @.",
	reasonLocalTooLong:       "The part before the @ is longer than 64 octets.",
	reasonMisplacedDot:       "There is a dot where none may stand: at the beginning, at the end or twice in a row.",
	reasonNoDomain:           "There is nothing after the @.",
	reasonDomainIncomplete:   "The part after the @ is not a complete domain name.",
	reasonInvalidDomain:      "The part after the @ is not a valid domain name.",
	reasonNoCountryCode:      "The number must begin with + and the country code.",
	reasonInvalidNumber:      "This is not a valid phone number.",
	reasonTooShort:           "Digits are missing, or the area code is.",
	reasonNumberType:         "Premium-rate and shared-cost numbers are not accepted.",
}

// Reasons returns all possible values of InvalidError.Reason, sorted, so that pages can check that they have a text for each.
func Reasons() []string { return slices.Sorted(maps.Keys(details)) }

func invalid(reason string) error {
	return &InvalidError{Reason: reason, Detail: details[reason]}
}
