package recipient

import (
	"slices"
	"strings"
	"testing"
)

func TestParsePhone(t *testing.T) {
	for name, c := range map[string]struct{ raw, address, masked, country string }{
		"germany":                {"+4915123456789", "+4915123456789", "+49 151•••789", "DE"},
		"spaces around":          {"  +4915123456789 ", "+4915123456789", "+49 151•••789", "DE"},
		"written for people":     {"+49 (151) 234-56.789", "+4915123456789", "+49 151•••789", "DE"},
		"with the trunk zero":    {"+49 (0)151/23456789", "+4915123456789", "+49 151•••789", "DE"},
		"no-break space, hyphen": {"+49\u00a0151\u201123456789", "+4915123456789", "+49 151•••789", "DE"},
		"full-width":             {"＋８６　１３８－００１３－８０２１", "+8613800138021", "+86 138•••021", "CN"},
		"arabic digits":          {"+٩٧١٥٠١٢٣٤٥٦٧", "+971501234567", "+971 50•••567", "AE"},
		"persian digits":         {"+۹۸۹۱۲۳۴۵۶۷۸۹", "+989123456789", "+98 912•••789", "IR"},
		"china":                  {"+86 138 0013 8021", "+8613800138021", "+86 138•••021", "CN"},
		"united states":          {"+1 202 555 0143", "+12025550143", "+1 202•••143", "US"},
		"jamaica, same code":     {"+1 (876) 532-1234", "+18765321234", "+1 876•••234", "JM"},
		"canada, same code":      {"+1 416 555 0123", "+14165550123", "+1 416•••123", "CA"},
		"kazakhstan, code of ru": {"+7 701 234 5678", "+77012345678", "+7 701•••678", "KZ"},
		"isle of man":            {"+44 7624 123456", "+447624123456", "+44 762•••456", "IM"},
		"italy keeps its zero":   {"+39 06 698 12345", "+390669812345", "+39 066•••345", "VA"},
		"nine digits":            {"+33 6 12 34 56 78", "+33612345678", "+33 61•••678", "FR"},
		"eight digits":           {"+852 6123 4567", "+85261234567", "+852 61•••67", "HK"},
		"six digits":             {"+376 312345", "+376312345", "+376 3•••5", "AD"},
		"five digits":            {"+290 51234", "+29051234", "+290 •••4", "SH"},
		"four digits":            {"+683 4000", "+6834000", "+683 •••", "NU"},
		"satellite":              {"+881612345678", "+881612345678", "+881 61•••678", "001"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustParse(t, SMS, c.raw)
			if r.Address() != c.address || r.Masked() != c.masked || r.Country() != c.country {
				t.Errorf("got %q, %q, %q\nwant %q, %q, %q", r.Address(), r.Masked(), r.Country(), c.address, c.masked, c.country)
			}
			if r.Channel() != SMS {
				t.Errorf("channel %q", r.Channel())
			}
		})
	}
}

func TestVoIPIsFlagged(t *testing.T) {
	for raw, want := range map[string]bool{"+44 56 1234 5678": true, "+33 9 12 34 56 78": true, "+44 7400 123456": false} {
		if got := mustParse(t, SMS, raw).VoIP(); got != want {
			t.Errorf("%s: VoIP %v, want %v", raw, got, want)
		}
	}
}

func TestParsePhoneRefuses(t *testing.T) {
	for name, c := range map[string]struct{ raw, reason string }{
		"nothing":                           {"", "empty"},
		"no plus":                           {"4915123456789", "no_country_code"},
		"00 for plus":                       {"004915123456789", "no_country_code"},
		"national":                          {"0151 23456789", "no_country_code"},
		"only plus":                         {"+", "invalid_number"},
		"two pluses":                        {"++4915123456789", "invalid_character"},
		"plus in the middle":                {"+49151+23456789", "invalid_character"},
		"letters":                           {"+1 800 FLOWERS", "invalid_character"},
		"extension":                         {"+4915123456789 ext. 5", "invalid_character"},
		"extension as parameter":            {"+4915123456789;ext=5", "invalid_character"},
		"tel url":                           {"tel:+4915123456789", "invalid_character"},
		"an e-mail address":                 {"ana@example.com", "invalid_character"},
		"emoji":                             {"+49📞", "invalid_character"},
		"two numbers":                       {"+4915123456789,+4915123456780", "invalid_character"},
		"devanagari digits":                 {"+४९१५१२३४५६७८९", "invalid_character"},
		"too short":                         {"+1 202 555", "too_short"},
		"too many digits":                   {"+491512345678901234", "invalid_number"},
		"valid in its plan, over 15 digits": {"+4921111111111111", "too_long"},
		"unknown country code":              {"+999 12345678", "invalid_number"},
		"country code zero":                 {"+0151 23456789", "invalid_number"},
		"unassigned range":                  {"+44 7700 900123", "invalid_number"},
		"very long":                         {"+" + strings.Repeat("1", 2000), "too_long"},
		"premium, germany":                  {"+49 900 1234567", "number_not_allowed"},
		"premium, britain":                  {"+44 9012345678", "number_not_allowed"},
		"premium, america":                  {"+1 900 555 1234", "number_not_allowed"},
		"premium, international":            {"+979 123456789", "number_not_allowed"},
		"shared cost, germany":              {"+49 180 5 123456", "number_not_allowed"},
		"shared cost, britain":              {"+44 843 1234567", "number_not_allowed"},
		"shared cost, no land":              {"+808 1234 5678", "number_not_allowed"},
		"line feed":                         {"+4915123456789\n", "control_character"},
		"nul":                               {"+49151\x0023456789", "control_character"},
		"tab":                               {"+49\t15123456789", "control_character"},
		"bidi mark, as pasted":              {"\u202a+4915123456789\u202c", "invisible_character"},
		"zero-width space":                  {"+49151\u200b23456789", "invisible_character"},
		"not utf-8":                         {"+49\xff", "encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(SMS, c.raw)
			wantReason(t, err, c.reason)
		})
	}
}

func TestMaskNumberHidesAtLeastFourDigits(t *testing.T) {
	for n := 1; n <= 14; n++ {
		masked := maskNumber("49", strings.Repeat("7", n))
		lead, tail, _ := strings.Cut(strings.TrimPrefix(masked, "+49 "), bullets)
		if len(lead) > 3 || len(tail) > 3 || (len(lead)+len(tail) > max(0, n-4)) {
			t.Errorf("%d digits: %s", n, masked)
		}
		if n >= 10 && (len(lead) != 3 || len(tail) != 3) {
			t.Errorf("%d digits: %s shows less than it may", n, masked)
		}
	}
}

func TestPrefix(t *testing.T) {
	for raw, want := range map[string]string{"+49 151 23456789": "+491512345", "+683 4000": "+683"} {
		if got := mustParse(t, SMS, raw).Prefix(); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
	if got := mustParse(t, Email, "ana.maria@example.com").Prefix(); got != "" {
		t.Errorf("%q", got)
	}
}

// +1 is many countries, and each is one by itself (SMS-2).
func TestCountries(t *testing.T) {
	for raw, want := range map[string]string{"+12025550123": "US", "+18765550123": "JM", "+14165550123": "CA", "+881612345678": Nowhere} {
		if got := mustParse(t, SMS, raw).Country(); got != want || !KnownCountry(got) {
			t.Errorf("%s: %q", raw, got)
		}
	}
	for country, want := range map[string]string{"DE": "+49", "JM": "+1", "XX": "", Nowhere: ""} {
		if got := DialCode(country); got != want {
			t.Errorf("%s: %q", country, got)
		}
	}
	if KnownCountry("XX") || KnownCountry("de") || KnownCountry("") {
		t.Error("countries that are none")
	}
}

// Range tells no more of a number than its mask does.
func TestRange(t *testing.T) {
	for number, want := range map[string]string{"+86 138 0013 8021": "+86138", "+1 202 555 0143": "+1202", "+49 151 23456789": "+49151",
		"+290 22158": "+290"} {
		r := mustParse(t, SMS, number)
		if !strings.HasPrefix(strings.ReplaceAll(r.Masked(), " ", ""), want+bullets) || r.Range() != want {
			t.Errorf("%s: %q, masked %q", number, r.Range(), r.Masked())
		}
	}
	if got := mustParse(t, Email, "ana@example.com").Range(); got != "" {
		t.Errorf("a mail address begins with %q", got)
	}
}

func TestMaskedDomain(t *testing.T) {
	for typed, want := range map[string]string{"QQ.com": "qq.com", " @qq.com ": "qq.com", "例子。中国": "例子.中国", "xn--fsqu00a.xn--fiqs8s": "例子.中国",
		"localhost": "", "a b.com": "", "": "", "x@qq.com": ""} {
		got, err := MaskedDomain(typed)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
	}
	if got := DomainOf("+49 151•••021"); got != "" {
		t.Errorf("a phone number has the domain %q", got)
	}
}

// A number may be written as it is dialled in a country; what begins with a plus, or as calls abroad do there, keeps its own.
func TestParseInACountry(t *testing.T) {
	for name, c := range map[string]struct{ country, raw, want string }{
		"with the trunk zero":                {"DE", "0151 23456789", "+4915123456789"},
		"without it":                         {"DE", "151 23456789", "+4915123456789"},
		"with brackets and a slash":          {"DE", "(0151) 234/567-89", "+4915123456789"},
		"with the plus":                      {"DE", "+1 202 555 0143", "+12025550143"},
		"with a bracket before the plus":     {"DE", "(+49) 151 23456789", "+4915123456789"},
		"with 00":                            {"DE", "00 44 7400 123456", "+447400123456"},
		"with 00 where that is not usual":    {"US", "0049 151 23456789", "+4915123456789"},
		"with what is usual there":           {"US", "011 49 151 23456789", "+4915123456789"},
		"with what is usual there, 00 in it": {"AU", "0011 49 151 23456789", "+4915123456789"},
		"with the code and no plus":          {"FR", "33 6 12 34 56 78", "+33612345678"},
		"american":                           {"US", "(202) 555-0143", "+12025550143"},
		"american with the one":              {"US", "1-202-555-0143", "+12025550143"},
		"chinese":                            {"CN", "138 0013 8021", "+8613800138021"},
		"full-width":                         {"CN", "１３８００１３８０２１", "+8613800138021"},
		"arabic digits":                      {"AE", "٠٥٠ ١٢٣ ٤٥٦٧", "+971501234567"},
		"italy keeps its zero":               {"IT", "06 698 12345", "+390669812345"},
		"russian eight":                      {"RU", "8 (912) 345-67-89", "+79123456789"},
		"a neighbour under the same code":    {"US", "416 555 0123", "+14165550123"},
	} {
		r, err := ParseIn(SMS, c.raw, c.country)
		if err != nil || r.Address() != c.want {
			t.Errorf("%s: %q, %v", name, r.Address(), err)
		}
	}
	for name, c := range map[string]struct{ country, raw, reason string }{
		"no country":              {"", "0151 23456789", "no_country_code"},
		"an unknown country":      {"XX", "0151 23456789", "no_country_code"},
		"a country with no plan":  {"001", "0151 23456789", "no_country_code"},
		"too short":               {"FR", "06 12 34", "too_short"},
		"without its area code":   {"US", "555-0143", "too_short"},
		"too short, with 00":      {"DE", "0044 7", "too_short"},
		"another country's":       {"FR", "0151 23456789", "invalid_number"},
		"too long":                {"US", "202 555 0143 999", "invalid_number"},
		"letters":                 {"US", "800 FLOWERS", "invalid_character"},
		"a plus in the middle":    {"DE", "0151+23456789", "invalid_character"},
		"two pluses":              {"DE", "+(+49) 151 23456789", "invalid_character"},
		"an address":              {"DE", "ana@example.com", "invalid_character"},
		"brackets and nothing":    {"DE", "()", "invalid_number"},
		"premium rate":            {"DE", "0900 1234567", "number_not_allowed"},
		"nothing":                 {"DE", " ", "empty"},
		"the operator's own code": {"DE", "110", "too_short"},
	} {
		_, err := ParseIn(SMS, c.raw, c.country)
		t.Run(name, func(t *testing.T) { wantReason(t, err, c.reason) })
	}
	if r, err := ParseIn(Email, "ana@example.com", "DE"); err != nil || r.Address() != "ana@example.com" {
		t.Errorf("an address has a country: %v", err)
	}
}

func TestWrittenAndLandline(t *testing.T) {
	for raw, want := range map[string]struct {
		written  string
		landline bool
	}{
		"+4915123456789": {"+49 1512 3456789", false},
		"+493023125000":  {"+49 30 23125000", true},
		"+12025550143":   {"+1 202-555-0143", false}, // the plan cannot tell
		"+442083661177":  {"+44 20 8366 1177", true},
	} {
		if r := mustParse(t, SMS, raw); r.Written() != want.written || r.Landline() != want.landline {
			t.Errorf("%s: %q, landline %v", raw, r.Written(), r.Landline())
		}
	}
	if r := mustParse(t, Email, "ana@example.com"); r.Written() != "ana@example.com" || r.Landline() || r.VoIP() {
		t.Error("an address is taken for a number")
	}
	if (Recipient{}).Landline() || (Recipient{}).Written() != "" {
		t.Error("there is no landline")
	}
}

// Every country that can be chosen is known, and its example is one of its numbers.
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
		if r, err := ParseIn(SMS, example, country); err != nil || DialCode(r.Country()) != DialCode(country) {
			t.Errorf("%s: %q is %q, %v", country, example, r.Country(), err) // some islands share the plan of another country
		}
	}
	if ExampleNumber("XX") != "" || ExampleNumber("DE") != "01512 3456789" {
		t.Errorf("%q", ExampleNumber("DE"))
	}
}
