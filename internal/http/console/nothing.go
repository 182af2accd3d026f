package console

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/layout"
)

// wayOn is a link beside a negative answer, to rows that the question may have meant.
type wayOn struct{ Text, Link string }

// lookalikes are the forms of texts that people copy or remember, though no search finds them. The
// first that matches decides; the text "search.why." and its kind say why.
var lookalikes = []struct {
	kind string
	form *regexp.Regexp
}{
	{"masked", regexp.MustCompile(`[•…]`)},
	{"address", regexp.MustCompile(`[@＠]`)},
	{"support", regexp.MustCompile(`(?i)^S-[0-9A-Z]{4}-[0-9A-Z]{4}$`)},
	{"digits", regexp.MustCompile(`^[\pN .-]+$`)},
	{"tag", regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{4}$`)},
}

// explainNothing returns why a text finds nothing, and links to rows that it may name.
func (console *Console) explainNothing(typed string, w texts.Words) (why string, ways []wayOn) {
	if at, ok := console.parseTypedTime(typed, w.Zone()); ok {
		from := url.Values{"from": {at.Add(-time.Minute).Format(time.RFC3339Nano)}}
		return w.Get("search.why.time"), []wayOn{{
			w.Get("search.around", "time", w.Clock(at).String()),
			listAddress(from, "to", at.Add(time.Minute).Format(time.RFC3339Nano)),
		}}
	}
	kind := "part"
	for _, l := range lookalikes {
		if l.form.MatchString(typed) {
			kind = l.kind
			break
		}
	}
	known := console.filterSuggestions()
	for _, name := range []string{"status", "outcome"} {
		for _, o := range (filterView{w: w}).Options(name)[1:] {
			known[name] = append(known[name], o.Value)
		}
	}
	if domain, err := recipient.MaskedDomain(typed[strings.LastIndex(typed, "@")+1:]); err == nil {
		known["domain"] = []string{domain}
	}
	if networkParameter(new(string))(typed) == "" {
		known["network"] = []string{typed}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		for _, value := range known[name] {
			if name == "domain" || begins(value, typed) || begins(layout.FilterValue(name, value, w), typed) {
				ways = append(ways, wayOn{layout.FilterText(name, value, w), listAddress(nil, name, value)})
			}
		}
	}
	return w.Get("search.why." + kind), ways
}

// begins reports whether a word begins with a typed text of three letters or more, or equals it.
func begins(word, typed string) bool {
	return strings.EqualFold(word, typed) || len(typed) >= 3 && len(typed) < len(word) && strings.EqualFold(word[:len(typed)], typed)
}

// parseTypedTime parses a time as pages, files and mails show it, also without its year or day.
func (console *Console) parseTypedTime(typed string, zone *time.Location) (at time.Time, ok bool) {
	if utc, is := strings.CutSuffix(typed, " UTC"); is {
		typed, zone = utc, time.UTC
	}
	for _, missing := range []string{"", "2006-", "2006-01-02T"} {
		if layout.TimeParameter(&at, zone)(console.Now().In(zone).Format(missing)+strings.Replace(typed, " ", "T", 1)) == "" {
			return at, true
		}
	}
	return at, false
}

// typedFilters are those whose values people type.
var typedFilters = []string{"app", "blocked_by", "carrier", "purpose", "reference"}

// emptyListText returns why a list with filters is empty, with links to lists with other filters.
func (console *Console) emptyListText(given url.Values, w texts.Words) (text string, ways []wayOn) {
	text = w.Get("list.none", "filters", layout.FilterTexts(given, w))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given.Get(name)
		switch {
		case name == "last" && value != "30d":
			ways = append(ways, wayOn{layout.FilterText(name, "30d", w), listAddress(given, name, "30d")})
		case name != "limit" && len(given) > 1:
			ways = append(ways, wayOn{w.Get("list.without", "filter", layout.FilterText(name, value, w)), listAddress(given, name, "")})
		}
		if slices.Contains(typedFilters, name) {
			why, meant := console.explainNothing(value, w)
			ways = append(ways, slices.DeleteFunc(meant, func(way wayOn) bool { return way.Link == listAddress(nil, name, value) })...)
			if name == "reference" {
				text += w.Get("sentence.space") + why
			}
		}
	}
	return text, ways
}
