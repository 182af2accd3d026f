package recipient

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestParsePhone(t *testing.T) {
	for _, c := range []struct{ raw, address, masked, country string }{
		{"  +4915123456789 ", "+4915123456789", "+49 151•••789", "DE"},
		{"+49 (0)151/234-56.789", "+4915123456789", "+49 151•••789", "DE"}, // has the trunk zero
		{"+49\u00a0151\u201123456789", "+4915123456789", "+49 151•••789", "DE"},
		{"＋８６　１３８－００１３－８０２１", "+8613800138021", "+86 138•••021", "CN"},
		{"+٩٧١٥٠١٢٣٤٥٦٧", "+971501234567", "+971 50•••567", "AE"},
		{"+۹۸۹۱۲۳۴۵۶۷۸۹", "+989123456789", "+98 912•••789", "IR"},
		{"+1 202 555 0143", "+12025550143", "+1 202•••143", "US"},
		{"+1 (876) 532-1234", "+18765321234", "+1 876•••234", "JM"}, // many countries share +1
		{"+1 416 555 0123", "+14165550123", "+1 416•••123", "CA"},
		{"+7 701 234 5678", "+77012345678", "+7 701•••678", "KZ"},
		{"+44 7624 123456", "+447624123456", "+44 762•••456", "IM"},
		{"+39 06 698 12345", "+390669812345", "+39 066•••345", "VA"}, // Italy keeps its zero
		{"+33 6 12 34 56 78", "+33612345678", "+33 61•••678", "FR"},
		// Dashes, invisible characters and line ends are often copied with a number.
		{"\u202a+49 151 23456789\u202c\n", "+4915123456789", "+49 151•••789", "DE"},
		{"+49\t151–234—567−89", "+4915123456789", "+49 151•••789", "DE"},
		{"+49\u2009151\u200b\u00ad23456789", "+4915123456789", "+49 151•••789", "DE"},
		{"+1\ufe0f-415-555-2671", "+14155552671", "+1 415•••671", "US"},
		// These have digits of other scripts: Bengali, Devanagari, Thai, Adlam, and mathematical
		// digits next to others.
		{"+৪৯ ১৫১ ২৩৪৫৬৭৮৯", "+4915123456789", "+49 151•••789", "DE"},
		{"+४९१५१२३४५६७८९", "+4915123456789", "+49 151•••789", "DE"},
		{"+๔๙ ๑๕๑ ๒๓๔๕๖๗๘๙", "+4915123456789", "+49 151•••789", "DE"},
		{"+𞥔𞥙𞥑𞥕𞥑𞥒𞥓𞥔𞥕𞥖𞥗𞥘𞥙", "+4915123456789", "+49 151•••789", "DE"},
		{"+𝟜𝟡 𝟷𝟻𝟷 𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "+4915123456789", "+49 151•••789", "DE"},
		// These are links to a number.
		{"tel:+4915123456789", "+4915123456789", "+49 151•••789", "DE"},
		{"TEL:+49-151-23456789;phone-context=example.com", "+4915123456789", "+49 151•••789", "DE"},
		{"tel://+4915123456789", "+4915123456789", "+49 151•••789", "DE"},
		{"sms:%2B4915123456789?body=x", "+4915123456789", "+49 151•••789", "DE"},
		{" smsto:+49 151 23456789", "+4915123456789", "+49 151•••789", "DE"},
		// These numbers are reserved for films and tests.
		{"+44 7700 900123", "+447700900123", "+44 770•••123", "GB"},
		{"+44 1632 960999", "+441632960999", "+44 163•••999", "GB"},
		{"+33 6 39 98 01 23", "+33639980123", "+33 63•••123", "FR"},
		// These are of unusual numbering plans.
		{"+52 1 55 1234 5678", "+525512345678", "+52 551•••678", "MX"}, // Mexico wrote mobile numbers like this until 2019
		{"+852 6123 4567", "+85261234567", "+852 61•••67", "HK"},
		{"+376 312345", "+376312345", "+376 3•••5", "AD"},
		{"+290 51234", "+29051234", "+290 •••4", "SH"},
		{"+683 4000", "+6834000", "+683 •••", "NU"},
		{"+881612345678", "+881612345678", "+881 61•••678", nonGeographic}, // a satellite network
	} {
		r := mustParse(t, SMS, c.raw)
		if r.Address() != c.address || r.Masked() != c.masked || r.Country() != c.country || r.Channel() != SMS ||
			!KnownCountry(c.country) {
			t.Errorf("got %q, %q, %q\nwant %q, %q, %q", r.Address(), r.Masked(), r.Country(), c.address, c.masked, c.country)
		}
	}
}

func TestParsePhoneRefuses(t *testing.T) {
	refuses(t, func(raw string) error { _, err := Parse(SMS, raw); return err }, map[string][]string{
		"empty":           {""},
		"no_country_code": {"4915123456789", "004915123456789", "0151 23456789"},
		"too_short":       {"+1 202 555"},
		"too_long":        {"+4921111111111111", "+" + strings.Repeat("1", 2000)}, // Germany's numbering plan would allow the first one
		"invalid_number": {
			"+", "+491512345678901234", "+999 12345678", "+0151 23456789", "+44 7700 901123", "+44 7700 90012", "+33 6 39 97 01 23",
			// Until 2019, +52 1 began Mexico's mobile numbers. This 1 begins an area code.
			"+52 123 456 7890",
		},
		// These are premium-rate and shared-cost numbers. Some of them belong to no country.
		"number_not_allowed": {
			"+49 900 1234567", "+44 9012345678", "+1 900 555 1234", "+979 123456789",
			"+49 180 5 123456", "+44 843 1234567", "+808 1234 5678",
		},
		"invalid_character": {
			"++4915123456789", "+49151+23456789", "+1 800 FLOWERS", "+4915123456789 ext. 5", "+4915123456789;ext=5",
			"mailto:+4915123456789", "tel:ana", "ana@example.com", "+49📞", "+4915123456789,+4915123456780", "+49①51 23456789",
		},
		"control_character": {"+49151\x0023456789"},
		"encoding":          {"+49\xff"},
	})
}

// A number has the right prefix, kind and mask. VisiblePrefix has exactly the digits that the mask
// shows before the hidden ones.
func TestParsePhoneAttributes(t *testing.T) {
	for raw, want := range map[string]struct {
		prefix, begins string
		landline, voip bool
	}{
		"+49 151 23456789":  {"+491512345", "+49151", false, false},
		"+493023125000":     {"+49302312", "+49302", true, false},
		"+12025550143":      {"+1202555", "+1202", false, false}, // the plan does not distinguish mobile numbers
		"+44 7400 123456":   {"+44740012", "+44740", false, false},
		"+44 56 1234 5678":  {"+44561234", "+44561", false, true},
		"+33 9 12 34 56 78": {"+3391234", "+3391", false, true},
		"+683 4000":         {"+683", "+683", true, false},
	} {
		r := mustParse(t, SMS, raw)
		if r.Prefix() != want.prefix || r.Landline() != want.landline || r.VoIP() != want.voip ||
			r.VisiblePrefix() != want.begins || !strings.HasPrefix(strings.ReplaceAll(r.Masked(), " ", ""), want.begins+maskBullets) {
			t.Errorf("%s: %q, %q, landline %v, VoIP %v, masked %q", raw, r.Prefix(),
				r.VisiblePrefix(), r.Landline(), r.VoIP(), r.Masked())
		}
	}
	ana := mustParse(t, Email, "ana.maria@example.com")
	if ana.Prefix() != "" || ana.VisiblePrefix() != "" || ana.Landline() {
		t.Error("an address is taken for a number")
	}
}

func TestMaskedDomain(t *testing.T) {
	for typed, want := range map[string]string{
		"QQ.com": "qq.com", " @qq.com ": "qq.com", "例子。中国": "例子.中国",
		"xn--fsqu00a.xn--fiqs8s": "例子.中国", "localhost": "", "a b.com": "", "": "", "x@qq.com": "",
	} {
		got, err := MaskedDomain(typed)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
	}
	if got := DomainOfMasked("+49 151•••021"); got != "" {
		t.Errorf("a phone number has the domain %q", got)
	}
}

// A number may be written as it is dialled within a country. If it has a plus, or the country's
// prefix for calls abroad, its own country code counts.
func TestParseInACountry(t *testing.T) {
	for _, c := range []struct{ country, raw, want string }{
		{"DE", "0151 23456789", "+4915123456789"},
		{"DE", "151 23456789", "+4915123456789"},
		{"DE", "(0151) 234/567-89", "+4915123456789"},
		{"DE", "+1 202 555 0143", "+12025550143"},
		{"DE", "(+49) 151 23456789", "+4915123456789"},
		{"DE", "00 44 7400 123456", "+447400123456"},
		{"US", "0049 151 23456789", "+4915123456789"}, // 00 is not the usual prefix there
		{"US", "011 49 151 23456789", "+4915123456789"},
		{"AU", "0011 49 151 23456789", "+4915123456789"},
		{"FR", "33 6 12 34 56 78", "+33612345678"}, // has the country code, but no plus
		{"US", "(202) 555-0143", "+12025550143"},
		{"US", "1-202-555-0143", "+12025550143"},
		{"US", "416 555 0123", "+14165550123"}, // a neighbour with the same country code
		{"CN", "138 0013 8021", "+8613800138021"},
		{"CN", "１３８００１３８０２１", "+8613800138021"},
		{"AE", "٠٥٠ ١٢٣ ٤٥٦٧", "+971501234567"},
		{"IT", "06 698 12345", "+390669812345"},
		{"RU", "8 (912) 345-67-89", "+79123456789"},
	} {
		r, err := ParseInCountry(SMS, c.raw, c.country)
		if err != nil || r.Address() != c.want {
			t.Errorf("%s in %s: %q, %v", c.raw, c.country, r.Address(), err)
		}
	}
	for country, reasons := range map[string]map[string][]string{
		"":            {"no_country_code": {"0151 23456789"}},
		"XX":          {"no_country_code": {"0151 23456789"}},
		nonGeographic: {"no_country_code": {"0151 23456789"}},
		"FR":          {"too_short": {"06 12 34"}, "invalid_number": {"0151 23456789"}},
		"US":          {"too_short": {"555-0143"}, "invalid_number": {"202 555 0143 999"}, "invalid_character": {"800 FLOWERS"}},
		"DE": {
			"too_short": {"0044 7", "110"}, "invalid_number": {"()"}, "number_not_allowed": {"0900 1234567"}, "empty": {" "},
			"invalid_character": {"0151+23456789", "+(+49) 151 23456789", "ana@example.com"},
		},
	} {
		refuses(t, func(raw string) error { _, err := ParseInCountry(SMS, raw, country); return err }, reasons)
	}
	if r, err := ParseInCountry(Email, "ana@example.com", "DE"); err != nil || r.Address() != "ana@example.com" {
		t.Errorf("an address has a country: %v", err)
	}
}

// Every country that can be chosen is known. Its example, if it has one, is a number with its
// country code.
func TestExamplesAreNumbersOfTheirCountry(t *testing.T) {
	countries := Countries()
	if len(countries) < 200 || !slices.IsSorted(countries) {
		t.Errorf("%d countries", len(countries))
	}
	for _, country := range countries {
		if !KnownCountry(country) || DialCode(country) == "" {
			t.Errorf("%s is not known", country)
		}
		example := ExampleNumber(country)
		if example == "" {
			continue
		}
		if r, err := ParseInCountry(SMS, example, country); err != nil || DialCode(r.Country()) != DialCode(country) {
			// Some islands share the plan of another country.
			t.Errorf("%s: %q is %q, %v", country, example, r.Country(), err)
		}
	}
	if ExampleNumber("XX") != "" || ExampleNumber("DE") != "01512 3456789" || DialCode("JM") != "+1" || DialCode("XX") != "" {
		t.Errorf("%q, %q", ExampleNumber("DE"), DialCode("JM"))
	}
	if KnownCountry("XX") || KnownCountry("de") || KnownCountry("") || !KnownCountry(nonGeographic) || DialCode(nonGeographic) != "" {
		t.Error("a country that is none")
	}
}

// Each page with a field for a number asks for the examples of all countries. Finding them takes
// 50,000 allocations, so they are cached.
func TestExampleNumberIsFoundOnce(t *testing.T) {
	all := Countries()
	ask := func() {
		for _, country := range all {
			ExampleNumber(country)
		}
	}
	ask()
	if n := testing.AllocsPerRun(10, ask); n > float64(len(all)) {
		t.Errorf("%v allocations for %d countries", n, len(all))
	}
}

// Each country has a plan. Browser tests show how the page writes numbers by these plans.
func TestNumberPlansOfEveryCountry(t *testing.T) {
	countries, codes := NumberPlans()
	for _, country := range Countries() {
		p := countries[country]
		if "+"+p.Code != DialCode(country) || p.Example != ExampleNumber(country) || countries[codes[p.Code].Main].Code != p.Code {
			t.Errorf("%s: %+v, mainly %s", country, p, codes[p.Code].Main)
		}
		for _, g := range codes[p.Code].Groupings {
			if _, err := regexp.Compile(g.LeadingDigits); err != nil || !templatePattern.MatchString(g.Short) || g.National != "" &&
				!templatePattern.MatchString(g.National) {
				t.Errorf("%s: %+v, %v", country, g, err)
			}
		}
	}
	if codes["1"].Main != "US" || codes["7"].Main != "RU" || codes["44"].Main != "GB" || countries["DE"].Trunk != "0" ||
		countries["ES"].Trunk != "" {
		t.Errorf("%q %q %q", codes["1"].Main, codes["7"].Main, codes["44"].Main)
	}
	for code, want := range map[string][3]string{ // National, Short and Abroad
		"1": {"", "(###) ###-####", "###-###-####"}, "7": {"# (###) ###-##-##", "### ###-##-##", "### ###-##-##"},
		"81": {"###-####-####", "##-####-####", "##-####-####"},
		"33": {"## ## ## ## ##", "# ## ## ## ##", "# ## ## ## ##"},
	} {
		var found [][3]string
		for _, g := range codes[code].Groupings {
			found = append(found, [3]string{g.National, g.Short, g.Abroad})
		}
		if !slices.Contains(found, want) {
			t.Errorf("+%s: %q, none of them %q", code, found, want)
		}
	}
}
