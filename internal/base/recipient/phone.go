package recipient

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
)

// maxPhoneDigits is the greatest number of digits of an international number, country code included
// (ITU-T E.164 section 6).
const maxPhoneDigits = 15

// minPhoneDigits is the least number of digits of any phone number.
const minPhoneDigits = 3

// isPhoneSeparator reports whether people write r between the digits of a number. Such a character
// is a dash of any kind, a dot, a slash or a parenthesis, in ASCII or as typed on an East Asian
// keyboard.
func isPhoneSeparator(r rune) bool {
	return unicode.Is(unicode.Pd, r) || strings.ContainsRune(".()/−（）", r)
}

func parsePhone(raw, country string) (recipientData, error) {
	if !utf8.ValidString(raw) {
		return recipientData{}, errEncoding // strings.Map would replace invalid bytes
	}
	s := strings.Map(func(r rune) rune {
		if isBlank(r) {
			return -1
		}
		return r
	}, TrimPasted(raw))
	if err := checkText(s); err != nil {
		return recipientData{}, err
	}
	digits, hasPlus, err := parseDigits(s)
	if err != nil {
		return recipientData{}, err
	}
	number, err := parseNumber(digits, hasPlus, country)
	if err != nil {
		return recipientData{}, err
	}
	kind := phonenumbers.GetNumberType(number)
	if kind == phonenumbers.PREMIUM_RATE || kind == phonenumbers.SHARED_COST {
		return recipientData{}, errNumberNotAllowed
	}
	address := phonenumbers.Format(number, phonenumbers.E164)
	if len(address) > 1+maxPhoneDigits {
		return recipientData{}, errTooLong
	}
	code, national := strconv.Itoa(int(number.GetCountryCode())), phonenumbers.GetNationalSignificantNumber(number)
	return recipientData{
		channel: SMS,
		address: address,
		folded:  address,
		counted: NormalizePhonePrefix(address),
		masked:  maskNumber(code, national),
		country: phonenumbers.GetRegionCodeForNumber(number),
		kind:    kind,
	}, nil
}

// NormalizePhonePrefix returns the form in which a phone number, or a prefix of numbers, is
// counted. The counted form of a number begins with the counted form of its prefix. In Argentina,
// the same phone has a number with the 9 of mobile numbers and a number without the 9. So
// NormalizePhonePrefix adds the 9 where it is missing. Mexico stopped using the 1 after its country
// code in 2019. So NormalizePhonePrefix removes this 1, as Parse does.
func NormalizePhonePrefix(prefix string) string {
	if rest, ok := strings.CutPrefix(prefix, "+54"); ok && rest != "" && rest[0] != '9' {
		return "+549" + rest
	}
	if rest, ok := strings.CutPrefix(prefix, "+521"); ok {
		return "+52" + rest
	}
	return prefix
}

// parseNumber parses the digits of a phone number. If the number was typed with a "+", the digits
// begin with a country code, and parseNumber ignores the parameter country. Otherwise parseNumber
// accepts the forms that a person in the country types:
//
//   - a national number, with or without the trunk prefix
//   - a number after the international prefix of the country, or after 00
//   - a number that begins with the country's own code
//
// Each error is an *InvalidError.
func parseNumber(digits string, hasPlus bool, country string) (*phonenumbers.PhoneNumber, error) {
	if n := len(digits); 0 < n && n < minPhoneDigits && (hasPlus || country != "") {
		return nil, errNumberTooShort
	}
	if hasPlus {
		return parseInternational(digits)
	}
	if phonenumbers.GetCountryCodeForRegion(country) == 0 {
		return nil, errNoCountryCode
	}
	number, err := checkAssigned(phonenumbers.Parse(digits, country))
	// 00 is the international prefix of most countries, and understood in all
	if rest, ok := strings.CutPrefix(digits, "00"); ok && err != nil {
		return parseInternational(rest)
	}
	// The digits may begin with the country's own code, without a plus. If the digits are a
	// landline number when read as a national number, but a mobile number when read with the
	// country code, the person means the mobile number.
	if own := strconv.Itoa(phonenumbers.GetCountryCodeForRegion(country)); err == nil && strings.HasPrefix(digits, own) &&
		phonenumbers.GetNumberType(number) == phonenumbers.FIXED_LINE {
		if mobile, err := parseInternational(digits); err == nil && phonenumbers.GetNumberType(mobile) == phonenumbers.MOBILE {
			return mobile, nil
		}
	}
	return number, err
}

// parseInternational parses digits that begin with a country code. Mobile numbers of Mexico had a 1
// after the country code until 2019. parseInternational removes this 1, because the number without
// the 1 reaches the same phone.
func parseInternational(digits string) (*phonenumbers.PhoneNumber, error) {
	if rest, ok := strings.CutPrefix(digits, "521"); ok && len(rest) == 10 {
		digits = "52" + rest
	}
	return checkAssigned(phonenumbers.Parse("+"+digits, ""))
}

// checkAssigned checks the results of phonenumbers.Parse. If the numbering plan assigns the number,
// checkAssigned returns the number. Otherwise it returns an *InvalidError with the probable
// mistake.
func checkAssigned(number *phonenumbers.PhoneNumber, err error) (*phonenumbers.PhoneNumber, error) {
	if errors.Is(err, phonenumbers.ErrTooShortNSN) || errors.Is(err, phonenumbers.ErrTooShortAfterIDD) {
		return nil, errNumberTooShort
	}
	if err != nil {
		return nil, errInvalidNumber
	}
	if phonenumbers.IsValidNumber(number) {
		return number, nil
	}
	switch phonenumbers.IsPossibleNumberWithReason(number) {
	case phonenumbers.TOO_SHORT, phonenumbers.IS_POSSIBLE_LOCAL_ONLY: // the latter lacks its area code
		return nil, errNumberTooShort
	}
	return nil, errInvalidNumber
}

// parseDigits returns the digits of a typed number, and whether the number began with a plus. It
// rejects letters ("+1 800 FLOWERS"), extensions and tel: URLs, all of which the phone number
// library would accept.
func parseDigits(s string) (digits string, hasPlus bool, err error) {
	rest, plus := strings.CutPrefix(strings.Replace(s, "＋", "+", 1), "+")
	if opened, ok := strings.CutPrefix(rest, "(+"); ok && !plus { // some address books write "(+49) 30 123"
		rest, plus = "("+opened, true
	}
	var out strings.Builder
	for _, r := range rest {
		d, ok := toASCIIDigit(r)
		switch {
		case ok:
			out.WriteRune(d)
		case !isPhoneSeparator(r):
			return "", false, withCharacter(errInvalidCharacter, r)
		}
	}
	return out.String(), plus, nil
}

// toASCIIDigit converts a digit that a phone can type to ASCII. Such a digit is ASCII, full-width,
// Arabic or Persian. For another character, toASCIIDigit returns false.
func toASCIIDigit(r rune) (rune, bool) {
	for _, zero := range []rune{'0', '０', '٠', '۰'} {
		if zero <= r && r <= zero+9 {
			return '0' + r - zero, true
		}
	}
	return 0, false
}

// maskNumber masks a phone number. It shows the country code and at most three digits at each end
// of the national number. It hides at least four digits of the national number, or all of them if
// there are fewer than four.
func maskNumber(countryCode, national string) string {
	shown := max(0, min(6, len(national)-4))
	tail := (shown + 1) / 2
	return "+" + countryCode + " " + national[:shown-tail] + maskBullets + national[len(national)-tail:]
}

// nonGeographic is the Country of phone numbers that belong to no country, such as satellite and
// international networks.
const nonGeographic = "001"

// KnownCountry reports whether Country can return this value for a phone number. It accepts
// nonGeographic and each ISO 3166-1 alpha-2 region with a numbering plan. A country code such as +1
// is not enough, because several regions may share it: +1 is the code of the United States, Canada,
// Jamaica and some twenty more regions.
func KnownCountry(country string) bool {
	return country == nonGeographic || phonenumbers.GetCountryCodeForRegion(country) != 0
}

// DialCode returns the country code of a country's numbers, such as "+49"; "" for an unknown
// country.
func DialCode(country string) string {
	code := phonenumbers.GetCountryCodeForRegion(country)
	if code == 0 {
		return ""
	}
	return "+" + strconv.Itoa(code)
}

// Countries returns all countries that KnownCountry accepts, except nonGeographic, sorted.
func Countries() []string {
	return slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions()))
}

// ExampleNumber returns an example of a mobile number of a country in national form, such as "01512
// 3456789". If ParseInCountry cannot parse the national form, ExampleNumber returns the
// international form. It returns "" if no example is known.
func ExampleNumber(country string) string {
	number := phonenumbers.GetExampleNumberForType(country, phonenumbers.MOBILE)
	if number == nil {
		return ""
	}
	national := phonenumbers.Format(number, phonenumbers.NATIONAL)
	if _, err := ParseInCountry(SMS, national, country); err == nil {
		return national
	}
	return phonenumbers.Format(number, phonenumbers.INTERNATIONAL)
}
