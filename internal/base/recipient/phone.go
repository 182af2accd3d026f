package recipient

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
)

const maxPhoneDigits = 15 // with the country code (ITU-T E.164 section 6)

const minPhoneDigits = 3 // a number with fewer digits is too_short

// isPhoneSeparator reports true for characters that people write between digits: dashes of any
// kind, dots, slashes and parentheses, also from East Asian keyboards.
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
	}, unwrapNumber(TrimPasted(raw)))
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
		country: cmp.Or(countryOfFiction(number), phonenumbers.GetRegionCodeForNumber(number)),
		kind:    kind,
	}, nil
}

// NormalizePhonePrefix returns the form in which a number, or a prefix of numbers, is counted. If a
// number begins with a prefix, its form begins with the prefix's form. In Argentina, a phone's
// number works with and without the 9 of mobile numbers, so the 9 is added. Mexico gave up the 1
// after its country code in 2019, so the 1 is removed, as in Parse.
func NormalizePhonePrefix(prefix string) string {
	if rest, ok := strings.CutPrefix(prefix, "+54"); ok && rest != "" && rest[0] != '9' {
		return "+549" + rest
	}
	if rest, ok := strings.CutPrefix(prefix, "+521"); ok {
		return "+52" + rest
	}
	return prefix
}

// parseNumber parses digits that were typed with a "+", or the forms that people in a country type:
//
//   - a national number, with or without the trunk prefix
//   - a number after the country's international prefix, or after 00
//   - a number that begins with the country's own code
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
	// 00 is the international prefix of most countries, and is accepted for any country.
	if rest, ok := strings.CutPrefix(digits, "00"); ok && err != nil {
		return parseInternational(rest)
	}
	// Digits that begin with the country's own code may be a landline number there. But if they are
	// a mobile number with that code, the person means the mobile number.
	if own := strconv.Itoa(phonenumbers.GetCountryCodeForRegion(country)); err == nil && strings.HasPrefix(digits, own) &&
		phonenumbers.GetNumberType(number) == phonenumbers.FIXED_LINE {
		if mobile, err := parseInternational(digits); err == nil && phonenumbers.GetNumberType(mobile) == phonenumbers.MOBILE {
			return mobile, nil
		}
	}
	return number, err
}

// parseInternational parses digits that begin with a country code. It drops Mexico's former 1 after
// the code, because the number reaches the same phone without it.
func parseInternational(digits string) (*phonenumbers.PhoneNumber, error) {
	if rest, ok := strings.CutPrefix(digits, "521"); ok && len(rest) == 10 {
		digits = "52" + rest
	}
	return checkAssigned(phonenumbers.Parse("+"+digits, ""))
}

// fictionPrefixes are the prefixes, with their country, of numbers that a regulator keeps free for
// films and tests. The library's numbering plan doesn't assign these numbers, but it assigns those
// of other countries. Sources: Ofcom, "Telephone numbers for use in TV and radio drama programmes";
// ARCEP, national numbering plan (decision 2018-0881), section 2.5.12.
var fictionPrefixes = []struct {
	prefix  string // in E.164
	digits  int    // of each number, with the country code
	country string
}{
	{"+447700900", 12, "GB"},
	{"+441632960", 12, "GB"},
	{"+443069990", 12, "GB"},
	{"+3363998", 11, "FR"},
}

// countryOfFiction returns the country of a number for films and tests; "" for any other number.
func countryOfFiction(number *phonenumbers.PhoneNumber) string {
	e164 := phonenumbers.Format(number, phonenumbers.E164)
	for _, f := range fictionPrefixes {
		if strings.HasPrefix(e164, f.prefix) && len(e164) == 1+f.digits {
			return f.country
		}
	}
	return ""
}

// checkAssigned takes the results of phonenumbers.Parse. If the plan doesn't assign the number, the
// error says what is probably wrong with it.
func checkAssigned(number *phonenumbers.PhoneNumber, err error) (*phonenumbers.PhoneNumber, error) {
	if errors.Is(err, phonenumbers.ErrTooShortNSN) || errors.Is(err, phonenumbers.ErrTooShortAfterIDD) {
		return nil, errNumberTooShort
	}
	if err != nil {
		return nil, errInvalidNumber
	}
	if phonenumbers.IsValidNumber(number) || countryOfFiction(number) != "" {
		return number, nil
	}
	switch phonenumbers.IsPossibleNumberWithReason(number) {
	case phonenumbers.TOO_SHORT, phonenumbers.IS_POSSIBLE_LOCAL_ONLY: // a local number lacks its area code
		return nil, errNumberTooShort
	}
	return nil, errInvalidNumber
}

// parseDigits refuses letters ("+1 800 FLOWERS") and extensions, which the library would accept.
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

// toASCIIDigit converts a decimal digit of any script. In Unicode, the digits of a script are ten
// in a row, beginning with its zero. Where the digits of several scripts adjoin, each script has
// ten.
func toASCIIDigit(r rune) (rune, bool) {
	if !unicode.Is(unicode.Nd, r) {
		return 0, false
	}
	before := rune(0)
	for unicode.Is(unicode.Nd, r-before-1) {
		before++
	}
	return '0' + before%10, true
}

// phoneSchemes are schemes of links to a number, as pages and address books have them.
var phoneSchemes = []string{"tel:", "sms:", "smsto:", "callto:"}

// unwrapNumber unwraps "tel:number;parameters" (RFC 3966) and similar links.
func unwrapNumber(s string) string {
	for _, scheme := range phoneSchemes {
		if len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			number, _, _ := strings.Cut(s[len(scheme):], "?")
			number, _, _ = strings.Cut(number, ";")
			if plain, err := url.PathUnescape(number); err == nil {
				number = plain
			}
			return strings.TrimPrefix(number, "//")
		}
	}
	return s
}

// maskNumber shows the country code and at most three digits at each end, and hides at least four,
// or all if there are fewer.
func maskNumber(countryCode, national string) string {
	shown := max(0, min(6, len(national)-4))
	tail := (shown + 1) / 2
	return "+" + countryCode + " " + national[:shown-tail] + maskBullets + national[len(national)-tail:]
}

// nonGeographic is the Country of numbers of satellite and international networks.
const nonGeographic = "001"

// KnownCountry reports whether a phone number may have this Country. Country codes aren't enough:
// +1 is the United States, Canada, Jamaica and some twenty more.
func KnownCountry(country string) bool {
	return country == nonGeographic || phonenumbers.GetCountryCodeForRegion(country) != 0
}

// DialCode returns a country's code, such as "+49"; "" for an unknown country.
func DialCode(country string) string {
	code := phonenumbers.GetCountryCodeForRegion(country)
	if code == 0 {
		return ""
	}
	return "+" + strconv.Itoa(code)
}

// Countries returns all known countries but nonGeographic, sorted.
func Countries() []string { return slices.Clone(countries()) }

var countries = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions())) })

// exampleNumbers caches the results of exampleNumber by country. Each page with a field for a
// number has the numbers of all its countries, and finding them takes milliseconds.
var exampleNumbers sync.Map

// ExampleNumber returns a mobile number of a country, such as "01512 3456789", in the national form
// if ParseInCountry accepts that form. It returns "" if no number is known.
func ExampleNumber(country string) string {
	if found, ok := exampleNumbers.Load(country); ok {
		return found.(string)
	}
	number := exampleNumber(country)
	if KnownCountry(country) { // otherwise the map could have more entries than there are countries
		exampleNumbers.Store(country, number)
	}
	return number
}

func exampleNumber(country string) string {
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
