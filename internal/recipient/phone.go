package recipient

import (
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// maxDigits of an international number, country code included (ITU-T E.164 section 6).
const maxDigits = 15

// separators stand between the digits of a number as people write and copy it, also with an East Asian keyboard.
const separators = " -.()/\u00a0\u2010\u2011\u3000－（）"

func parsePhone(raw string) (parts, error) {
	s := strings.Trim(raw, " ")
	if err := checkText(s); err != nil {
		return parts{}, err
	}
	e164, err := dialled(s)
	if err != nil {
		return parts{}, err
	}
	number, err := phonenumbers.Parse(e164, "")
	if err != nil || !phonenumbers.IsValidNumber(number) {
		return parts{}, invalid(reasonInvalidNumber)
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
		voip:    kind == phonenumbers.VOIP,
	}, nil
}

// dialled leaves the plus and the digits. The library behind it would also take letters ("+1 800 FLOWERS"), an
// extension or a tel: URL; none of these is a number to send to.
func dialled(s string) (string, error) {
	rest, plus := strings.CutPrefix(strings.Replace(s, "＋", "+", 1), "+")
	var out strings.Builder
	for _, r := range rest {
		d, ok := digit(r)
		switch {
		case ok:
			out.WriteRune(d)
		case !strings.ContainsRune(separators, r):
			return "", invalid(reasonInvalidCharacter)
		}
	}
	if !plus {
		return "", invalid(reasonNoCountryCode)
	}
	return "+" + out.String(), nil
}

// digit reads the digits that phones offer on their number pads: ASCII, full-width, Arabic and Persian.
func digit(r rune) (rune, bool) {
	for _, zero := range []rune{'0', '０', '٠', '۰'} {
		if zero <= r && r <= zero+9 {
			return '0' + r - zero, true
		}
	}
	return 0, false
}
