package recipient

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// maxDigits of an international number, country code included (ITU-T E.164 section 6).
const maxDigits = 15

// minDigits is the least number of digits of any phone number.
const minDigits = 3

// separators stand between the digits of a number as people write and copy it, also with an East Asian keyboard.
const separators = " -.()/\u00a0\u2010\u2011\u3000－（）"

func parsePhone(raw, country string) (parts, error) {
	s := strings.Trim(raw, " ")
	if err := checkText(s); err != nil {
		return parts{}, err
	}
	digits, international, err := dialled(s)
	if err != nil {
		return parts{}, err
	}
	number, err := numberOf(digits, international, country)
	if err != nil {
		return parts{}, err
	}
	kind := phonenumbers.GetNumberType(number)
	if kind == phonenumbers.PREMIUM_RATE || kind == phonenumbers.SHARED_COST {
		return parts{}, invalid(reasonNumberType)
	}
	address := phonenumbers.Format(number, phonenumbers.E164)
	if len(address) > 1+maxDigits {
		return parts{}, invalid(reasonTooLong)
	}
	code := strconv.Itoa(int(number.GetCountryCode()))
	return parts{
		channel: SMS,
		address: address,
		folded:  address,
		masked:  maskNumber(code, phonenumbers.GetNationalSignificantNumber(number)),
		country: phonenumbers.GetRegionCodeForNumber(number),
		kind:    kind,
	}, nil
}

// numberOf parses digits as they are dialled in a country: with its trunk prefix, with its international prefix or 00, or with only the
// country code.
func numberOf(digits string, international bool, country string) (*phonenumbers.PhoneNumber, error) {
	if n := len(digits); 0 < n && n < minDigits && (international || country != "") {
		return nil, invalid(reasonTooShort)
	}
	if international {
		return assigned(phonenumbers.Parse("+"+digits, ""))
	}
	if phonenumbers.GetCountryCodeForRegion(country) == 0 {
		return nil, invalid(reasonNoCountryCode)
	}
	number, err := assigned(phonenumbers.Parse(digits, country))
	if rest, ok := strings.CutPrefix(digits, "00"); ok && err != nil { // dialled so in most countries, and meant so in all
		return assigned(phonenumbers.Parse("+"+rest, ""))
	}
	return number, err
}

// assigned returns the number if the numbering plan assigns it, else an *InvalidError that says what is probably wrong.
func assigned(number *phonenumbers.PhoneNumber, err error) (*phonenumbers.PhoneNumber, error) {
	if errors.Is(err, phonenumbers.ErrTooShortNSN) || errors.Is(err, phonenumbers.ErrTooShortAfterIDD) {
		return nil, invalid(reasonTooShort)
	}
	if err != nil {
		return nil, invalid(reasonInvalidNumber)
	}
	if phonenumbers.IsValidNumber(number) {
		return number, nil
	}
	switch phonenumbers.IsPossibleNumberWithReason(number) {
	case phonenumbers.TOO_SHORT, phonenumbers.IS_POSSIBLE_LOCAL_ONLY: // the latter lacks its area code
		return nil, invalid(reasonTooShort)
	}
	return nil, invalid(reasonInvalidNumber)
}

// dialled returns the digits of a typed number, and whether it began with a plus. It rejects letters ("+1 800 FLOWERS"), extensions and
// tel: URLs, which the phone number library would accept.
func dialled(s string) (digits string, international bool, err error) {
	rest, plus := strings.CutPrefix(strings.Replace(s, "＋", "+", 1), "+")
	if opened, ok := strings.CutPrefix(rest, "(+"); ok && !plus { // as some address books write it
		rest, plus = "("+opened, true
	}
	var out strings.Builder
	for _, r := range rest {
		d, ok := digit(r)
		switch {
		case ok:
			out.WriteRune(d)
		case !strings.ContainsRune(separators, r):
			return "", false, invalid(reasonInvalidCharacter)
		}
	}
	return out.String(), plus, nil
}

// digit converts a digit of a phone's number pad, ASCII, full-width, Arabic or Persian, to ASCII.
func digit(r rune) (rune, bool) {
	for _, zero := range []rune{'0', '０', '٠', '۰'} {
		if zero <= r && r <= zero+9 {
			return '0' + r - zero, true
		}
	}
	return 0, false
}
