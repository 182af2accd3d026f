package recipient

import (
	"maps"
	"slices"
	"strconv"

	"github.com/nyaruka/phonenumbers"
)

// Nowhere is the Country of numbers that belong to no country: satellite and international networks.
const Nowhere = "001"

// KnownCountry says whether phone numbers can have the Country: a region of ISO 3166-1 alpha-2 with a numbering plan, or
// Nowhere. Several regions may share a dial code: +1 is the United States, Canada, Jamaica and some twenty more.
func KnownCountry(country string) bool {
	return country == Nowhere || phonenumbers.GetCountryCodeForRegion(country) != 0
}

// DialCode is how numbers of a country begin, "+49"; "" where that is not known.
func DialCode(country string) string {
	code := phonenumbers.GetCountryCodeForRegion(country)
	if code == 0 {
		return ""
	}
	return "+" + strconv.Itoa(code)
}

// Countries lists all that KnownCountry knows but Nowhere, sorted.
func Countries() []string {
	return slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions()))
}

// ExampleNumber is what a mobile number looks like in a country, written as people there do, "01512 3456789", or with its
// country code where that could not be read back; "" where no mobile number is known.
func ExampleNumber(country string) string {
	number := phonenumbers.GetExampleNumberForType(country, phonenumbers.MOBILE)
	if number == nil {
		return ""
	}
	national := phonenumbers.Format(number, phonenumbers.NATIONAL)
	if _, err := ParseIn(SMS, national, country); err == nil {
		return national
	}
	return phonenumbers.Format(number, phonenumbers.INTERNATIONAL)
}
