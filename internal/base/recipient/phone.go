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

// isPhoneSeparator reports whether people put r between the digits of a number, also with an East
// Asian keyboard: a dash of any kind, a dot, a slash or a parenthesis.
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

// NormalizePhonePrefix returns the counted form of a prefix or of a whole number. All numbers that
// begin with the prefix have counted forms that begin so. In Argentina one handset has a number
// with the 9 of a mobile and a number without. The 1 after Mexico's country code, which Parse
// drops, ended in 2019.
func NormalizePhonePrefix(prefix string) string {
	if rest, ok := strings.CutPrefix(prefix, "+54"); ok && rest != "" && rest[0] != '9' {
		return "+549" + rest
	}
	if rest, ok := strings.CutPrefix(prefix, "+521"); ok {
		return "+52" + rest
	}
	return prefix
}

// parseNumber parses the digits of a phone number. Digits that were typed with + begin with a
// country code, so parseNumber ignores the parameter country. It parses other digits as a person in
// that country types them: a national number, with or without its trunk prefix; a number with the
// international prefix or 00; or a number that begins with the country's own code. Error:
// *InvalidError.
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
	// the number may begin with the country's own code, without a plus: if it is then a mobile
	// number, the person does not mean the landline
	if own := strconv.Itoa(phonenumbers.GetCountryCodeForRegion(country)); err == nil && strings.HasPrefix(digits, own) &&
		phonenumbers.GetNumberType(number) == phonenumbers.FIXED_LINE {
		if mobile, err := parseInternational(digits); err == nil && phonenumbers.GetNumberType(mobile) == phonenumbers.MOBILE {
			return mobile, nil
		}
	}
	return number, err
}

// parseInternational parses digits that begin with a country code. Mobile numbers of Mexico had a 1
// after the country code until 2019. It drops this 1, since the number is the same without it.
func parseInternational(digits string) (*phonenumbers.PhoneNumber, error) {
	if rest, ok := strings.CutPrefix(digits, "521"); ok && len(rest) == 10 {
		digits = "52" + rest
	}
	return checkAssigned(phonenumbers.Parse("+"+digits, ""))
}

// checkAssigned takes the results of phonenumbers.Parse. It returns the number if the numbering
// plan assigns that number, otherwise an *InvalidError with the probable mistake.
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

// toASCIIDigit converts a digit of a phone's number pad, ASCII, full-width, Arabic or Persian, to
// ASCII.
func toASCIIDigit(r rune) (rune, bool) {
	for _, zero := range []rune{'0', '０', '٠', '۰'} {
		if zero <= r && r <= zero+9 {
			return '0' + r - zero, true
		}
	}
	return 0, false
}

// maskNumber masks a phone number. It shows the country code and at most three digits at each end
// of the national number. It hides at least four digits of the national number, or all if there
// are fewer.
func maskNumber(countryCode, national string) string {
	shown := max(0, min(6, len(national)-4))
	tail := (shown + 1) / 2
	return "+" + countryCode + " " + national[:shown-tail] + maskBullets + national[len(national)-tail:]
}

// nonGeographic is the Country of phone numbers that belong to no country, such as satellite and
// international networks.
const nonGeographic = "001"

// KnownCountry reports whether phone numbers can have this Country: a region of ISO 3166-1 alpha-2
// with a numbering plan, or nonGeographic. Several regions may share a dial code: +1 is the United
// States, Canada, Jamaica and some twenty more.
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
// 3456789"; in international form if ParseInCountry cannot read the national form; "" if no
// example is known.
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
