package recipient

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// NumberPlan describes the phone numbers of a country. An input field uses it to format a number
// while a person types. Only Parse decides whether a number is valid.
type NumberPlan struct {
	Code    string // country code, "49"; several countries may share it
	Trunk   string // trunk prefix, "0", for calls within the country; empty: none
	Example string // as ExampleNumber
}

// CallingCodePlan is the part of the numbering plan that all countries with one country code share.
type CallingCodePlan struct {
	Main      string     // the country that most of the numbers belong to
	Groupings []grouping // the first one that fits applies
}

// grouping says how numbers with certain leading digits are written. In the templates National,
// Short and Abroad, each # is a digit.
type grouping struct {
	// a regular expression for the beginning of a number without trunk prefix; it is also valid in
	// JavaScript
	LeadingDigits string
	National      string // with the trunk prefix; empty: these numbers are written without a trunk prefix
	Short         string // within the country, without the trunk prefix
	Abroad        string // after the country code
}

// NumberPlans returns the plan of each country in Countries. The map codes has the plan of each
// country code, such as "1" or "44", for all countries with this code.
func NumberPlans() (countries map[string]NumberPlan, codes map[string]CallingCodePlan) {
	countries, codes = map[string]NumberPlan{}, map[string]CallingCodePlan{}
	for _, country := range Countries() {
		countries[country] = NumberPlan{
			Code: strings.TrimPrefix(DialCode(country), "+"), Trunk: phonenumbers.GetNddPrefixForRegion(country, true),
			Example: ExampleNumber(country),
		}
	}
	metadata, err := phonenumbers.MetadataCollection()
	if err != nil {
		return countries, codes // never: the metadata is part of the program
	}
	for _, m := range metadata.GetMetadata() {
		if country := m.GetId(); country == phonenumbers.GetRegionCodeForCountryCode(int(m.GetCountryCode())) &&
			country != nonGeographic {
			codes[strconv.Itoa(int(m.GetCountryCode()))] = CallingCodePlan{country, groupingsOf(m)}
		}
	}
	return countries, codes
}

func groupingsOf(m *phonenumbers.PhoneMetadata) (all []grouping) {
	abroad := map[string]string{}
	for _, f := range m.GetIntlNumberFormat() {
		abroad[formatKey(f)] = f.GetFormat()
	}
	for _, f := range m.GetNumberFormat() {
		pattern, format := f.GetPattern(), f.GetFormat()
		g := grouping{Short: templateOf(pattern, format)}
		// Skip formats that cannot be typed, and formats of local numbers that cannot be called
		// from abroad.
		if g.Short == "" || len(abroad) > 0 && abroad[formatKey(f)] == "" {
			continue
		}
		if leading := f.GetLeadingDigitsPattern(); len(leading) > 0 {
			g.LeadingDigits = leading[len(leading)-1] // the most exact one
		}
		if rule := f.GetNationalPrefixFormattingRule(); digitPattern.MatchString(strings.Replace(rule, "$1", "", 1)) {
			g.National = templateOf(pattern, strings.Replace(format, "$1", rule, 1))
		}
		g.Abroad = g.Short
		if abroad[formatKey(f)] != "" {
			g.Abroad = templateOf(pattern, abroad[formatKey(f)])
		}
		all = append(all, g)
	}
	return all
}

// formatKey returns a key for the numbers to which a format applies. The key has their pattern and
// leading digits.
func formatKey(f *phonenumbers.NumberFormat) string {
	return f.GetPattern() + " " + strings.Join(f.GetLeadingDigitsPattern(), " ")
}

var (
	digitPattern          = regexp.MustCompile(`[0-9]`)
	characterClassPattern = regexp.MustCompile(`\[[^\]]*\]`)
	groupReferencePattern = regexp.MustCompile(`\$([1-9])`)
	templatePattern       = regexp.MustCompile(`^[# ()./-]+$`)
)

// templateOf returns the template of a format: the longest number that matches the pattern, written
// in the format, with # in place of each digit. It returns "" if no such number can be typed.
func templateOf(pattern, format string) string {
	fits, err := regexp.Compile("^(?:" + characterClassPattern.ReplaceAllString(pattern, `\d`) + ")")
	if err != nil {
		return ""
	}
	longest := fits.FindString(strings.Repeat("9", maxPhoneDigits))
	if longest == "" {
		return ""
	}
	out := fits.ReplaceAllString(longest, groupReferencePattern.ReplaceAllString(format, "$${$1}"))
	out = digitPattern.ReplaceAllString(out, "#")
	if !templatePattern.MatchString(out) {
		return ""
	}
	return out
}
