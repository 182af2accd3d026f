package recipient

import (
	"regexp"
	"strings"
	"testing"
)

// grouped writes a number by a plan as a field does, without looking at the library again.
func grouped(digits string, groupings []Grouping, of func(Grouping) string, trunk string) string {
	for _, g := range groupings {
		template := of(g)
		if !regexp.MustCompile("^(?:"+g.Begins+")").MatchString(strings.TrimPrefix(digits, trunk)) || strings.Count(template, "#") < len(digits) {
			continue
		}
		var out strings.Builder
		for _, c := range template {
			if digits == "" {
				break
			}
			if c == '#' {
				c, digits = rune(digits[0]), digits[1:]
			}
			out.WriteRune(c)
		}
		return out.String()
	}
	return digits
}

// Numbers come out as people in the country write them, and as they are written elsewhere.
func TestPlansWriteNumbersAsTheirCountriesDo(t *testing.T) {
	countries, codes := Plans()
	for _, c := range []struct{ country, national, abroad string }{
		{"DE", "01512 3456789", "1512 3456789"}, {"DE", "030 23125000", "30 23125000"}, {"FR", "06 12 34 56 78", "6 12 34 56 78"},
		{"GB", "07400 123456", "7400 123456"}, {"GB", "020 8366 1177", "20 8366 1177"}, {"GB", "0121 234 5678", "121 234 5678"},
		{"AU", "0412 345 678", "412 345 678"},
		{"RU", "8 (912) 345-67-89", "912 345-67-89"}, {"JP", "090-1234-5678", "90-1234-5678"},
	} {
		p := countries[c.country]
		shared := codes[p.Code]
		national := digitsOf(c.national)
		if got := grouped(national, shared.Groupings, func(g Grouping) string { return g.National }, p.Trunk); got != c.national {
			t.Errorf("%s: %q, want %q", c.country, got, c.national)
		}
		if got := grouped(strings.TrimPrefix(national, p.Trunk), shared.Groupings, func(g Grouping) string { return g.Abroad },
			""); got != c.abroad {
			t.Errorf("%s abroad: %q, want %q", c.country, got, c.abroad)
		}
	}
	if got := grouped("2025550", codes["1"].Groupings, func(g Grouping) string { return g.Short }, ""); got != "(202) 555-0" {
		t.Errorf("seven digits that could be dialled in one town are %q", got)
	}
	for country, want := range map[string]string{"US": "(202) 555-0143", "CN": "138 0013 8021", "ES": "612 34 56 78"} {
		digits := digitsOf(want)
		if got := grouped(digits, codes[countries[country].Code].Groupings, func(g Grouping) string { return g.Short }, ""); got != want {
			t.Errorf("%s: %q, want %q", country, got, want)
		}
	}
}

func TestPlansAreOfEveryCountry(t *testing.T) {
	countries, codes := Plans()
	for _, country := range Countries() {
		p := countries[country]
		if "+"+p.Code != DialCode(country) || p.Example != ExampleNumber(country) || countries[codes[p.Code].Main].Code != p.Code {
			t.Errorf("%s: %+v, mainly %s", country, p, codes[p.Code].Main)
		}
		for _, g := range codes[p.Code].Groupings {
			if _, err := regexp.Compile(g.Begins); err != nil || !written.MatchString(g.Short) || g.National != "" &&
				!written.MatchString(g.National) {
				t.Errorf("%s: %+v, %v", country, g, err)
			}
		}
	}
	if codes["1"].Main != "US" || codes["7"].Main != "RU" || codes["44"].Main != "GB" || countries["DE"].Trunk != "0" ||
		countries["ES"].Trunk != "" {
		t.Errorf("%q %q %q", codes["1"].Main, codes["7"].Main, codes["44"].Main)
	}
}
