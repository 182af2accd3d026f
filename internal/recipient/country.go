package recipient

import (
	"maps"
	"slices"
	"strconv"

	"github.com/nyaruka/phonenumbers"
)

// Nowhere is the Country of phone numbers that belong to no country, such as satellite and international networks.
const Nowhere = "001"

// KnownCountry says whether phone numbers can have the Country: a region of ISO 3166-1 alpha-2 with a numbering plan, or
// Nowhere. Several regions may share a dial code: +1 is the United States, Canada, Jamaica and some twenty more.
func KnownCountry(country string) bool {
	return country == Nowhere || phonenumbers.GetCountryCodeForRegion(country) != 0
}

// DialCode returns the country code of a country's numbers, such as "+49"; "" for an unknown country.
func DialCode(country string) string {
	code := phonenumbers.GetCountryCodeForRegion(country)
	if code == 0 {
		return ""
	}
	return "+" + strconv.Itoa(code)
}

// Countries returns all countries that KnownCountry accepts, except Nowhere, sorted.
func Countries() []string {
	return slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions()))
}

// ExampleNumber returns an example of a mobile number of a country in national form, such as "01512 3456789"; in international form if
// ParseIn could not read the national one; "" if no example is known.
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
