package recipient

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// NumberPlan describes a country's phone numbers, for an input field to format them as a person
// types. Whether a number is valid is up to Parse.
type NumberPlan struct {
	Code    string // the country code, "49", which several countries may share
	Trunk   string // the prefix of calls within the country, "0"; empty: none
	Example string // see ExampleNumber
}

// CallingCodePlan has the data that countries with the same country code share.
type CallingCodePlan struct {
	Main      string     // the country of most of the numbers
	Groupings []grouping // the first one that fits applies
}

// grouping says how numbers with certain leading digits are written: each # of a template is a
// digit.
type grouping struct {
	// LeadingDigits is a regular expression, of Go and JavaScript alike, for the beginning of a
	// number without trunk prefix.
	LeadingDigits string
	National      string // with the trunk prefix; empty: it isn't written
	Short         string // within the country, without the trunk prefix
	Abroad        string // after the country code
}

// NumberPlans returns the plans of all Countries, and of their country codes, such as "1" and "44".
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
		return countries, codes // cannot happen: the metadata is part of the program
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
		// Leave out formats that can't be typed, and those of local numbers, which nobody can call
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

// formatKey identifies a format by the numbers to which it applies.
func formatKey(f *phonenumbers.NumberFormat) string {
	return f.GetPattern() + " " + strings.Join(f.GetLeadingDigitsPattern(), " ")
}

var (
	digitPattern          = regexp.MustCompile(`[0-9]`)
	characterClassPattern = regexp.MustCompile(`\[[^\]]*\]`)
	groupReferencePattern = regexp.MustCompile(`\$([1-9])`)
	templatePattern       = regexp.MustCompile(`^[# ()./-]+$`)
)

// templateOf formats the longest number that matches the pattern, with # for each digit. It returns
// "" if no number matches, or if the result has other characters than templatePattern allows.
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
