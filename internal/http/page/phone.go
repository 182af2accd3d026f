package page

import (
	"net/http"
	"slices"
	"sync"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
)

// country is one choice in the list of countries for phone numbers.
type country struct {
	Code   string // ISO 3166-1 alpha-2
	Name   string // in the page's language
	Dial   string // "+49"
	Chosen bool
}

// countries are all countries with phone numbers, by language of the page: with names in that
// language, and sorted by them.
var countries = sync.OnceValue(func() map[string][]country {
	all := map[string][]country{}
	for lang := range wordsByLanguage() {
		tag := language.Make(lang)
		names, order := display.Regions(tag), collate.New(tag)
		for _, code := range recipient.Countries() {
			name := code
			if region, err := language.ParseRegion(code); err == nil {
				name = names.Name(region)
			}
			all[lang] = append(all[lang], country{Code: code, Name: name, Dial: recipient.DialCode(code)})
		}
		slices.SortStableFunc(all[lang], func(a, b country) int { return order.CompareString(a.Name, b.Name) })
	}
	return all
})

// countryIfKnown returns the country that a form names; "" if there is no country of this code.
func countryIfKnown(named string) string {
	if !recipient.KnownCountry(named) {
		return ""
	}
	return named
}

// newPhoneField returns the field for a number, with the served countries. A number without "+" or
// "00" belongs to the chosen country.
func (l *visit) newPhoneField(served []string, e textField) *phoneField {
	f := &phoneField{textField: e}
	here := l.likelyCountry(served)
	for _, c := range countries()[l.t["Lang"]] {
		if slices.Contains(served, c.Code) {
			c.Chosen = c.Code == here
			f.Countries = append(f.Countries, c)
		}
		if c.Chosen {
			f.Country = c
		}
	}
	example := recipient.ExampleNumber(here)
	switch {
	case len(f.Countries) == 0 || example == "":
		f.Hint = l.t["PhoneHintAny"]
	case len(f.Countries) == 1:
		f.Hint = l.t.fill("PhoneHintOne", "country", f.Country.Name, "dial", f.Country.Dial, "example", example)
	default:
		f.Pattern = l.t["PhoneHint"]
		f.Hint = fill(f.Pattern, "example", example)
	}
	if len(f.Countries) < 2 {
		f.Countries = nil
	}
	return f
}

// likelyCountry returns the served country to offer first: the one chosen before, else that of
// the likeliest region, else the first by name; "" if none is served.
func (l *visit) likelyCountry(served []string) string {
	likely := append([]string{l.session.Country}, l.regions...)
	for _, c := range countries()[l.t["Lang"]] {
		likely = append(likely, c.Code)
	}
	if i := slices.IndexFunc(likely, func(code string) bool { return slices.Contains(served, code) }); i >= 0 {
		return likely[i]
	}
	return ""
}

// likelyRegions returns the regions where a reader may be, likeliest first: those that
// Accept-Language names, the configured one, and those where its languages are mostly spoken. If
// Accept-Language gives no region, the page's language does.
func likelyRegions(r *http.Request, configured string) []string {
	var named, suggested []string
	languages := r.Header.Get("Accept-Language")
	for _, tag := range texts.ParseAcceptLanguage(languages) {
		region, sure := tag.Region()
		switch {
		case !region.IsCountry():
		case sure == language.Exact:
			named = append(named, region.String())
		default:
			suggested = append(suggested, region.String())
		}
	}
	if len(named)+len(suggested) == 0 {
		region, _ := language.Make(texts.ForPage(languages).Lang()).Region()
		suggested = []string{region.String()}
	}
	return slices.Concat(named, []string{configured}, suggested)
}
