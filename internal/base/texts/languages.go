package texts

import (
	"maps"
	"slices"

	"golang.org/x/text/language"
)

// Catalogue has one value for each of several languages, such as the texts of the page, the
// templates' locales, or the titles of a purpose. The zero value has no language.
type Catalogue[T any] struct {
	all     []T
	matcher language.Matcher
}

// NewCatalogue returns a catalogue of values. The keys of byTag are BCP 47 tags of languages. If a
// tag is invalid, no reader's list fits it, so Choose never finds its value for a list.
func NewCatalogue[T any](byTag map[string]T) (c Catalogue[T]) {
	names := slices.Sorted(maps.Keys(byTag))
	if i := slices.Index(names, language.English.String()); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, language.English.String())
	}
	var tags []language.Tag
	for _, name := range names {
		tags, c.all = append(tags, language.Make(name)), append(c.all, byTag[name])
	}
	c.matcher = language.NewMatcher(tags)
	return c
}

// All returns the values: English first, the others in the order of their tags.
func (c Catalogue[T]) All() []T { return slices.Clone(c.all) }

// MaxAcceptLanguage is the greatest length in bytes of an Accept-Language list that is parsed. The
// limit exists because parsing 16 KiB takes milliseconds.
const MaxAcceptLanguage = 500

// ParseAcceptLanguage returns the tags of an Accept-Language list. The tag that the reader prefers
// most is first. If the list is invalid or longer than MaxAcceptLanguage, ParseAcceptLanguage
// returns no tags.
func ParseAcceptLanguage(list string) []language.Tag {
	if len(list) > MaxAcceptLanguage {
		return nil
	}
	wanted, _, err := language.ParseAcceptLanguage(list)
	if err != nil {
		return nil
	}
	return wanted
}

// Choose returns a value and the tag for which it was chosen. The tag is the first tag of an
// Accept-Language list for whose language the catalogue has a value, by the rules of CLDR. For
// example, a reader prefers traditional Chinese to English, and the catalogue has zh-Hans and
// English. This reader gets zh-Hans.
//
// If no tag of the list fits, ok is false. In this case, Choose returns the first value of All and
// the first tag of the list. If the list has no tag or the catalogue is empty, tag is language.Und.
func (c Catalogue[T]) Choose(list string) (in T, tag language.Tag, ok bool) {
	if len(c.all) == 0 { // most purposes have no titles; then the list need not be parsed
		return in, language.Und, false
	}
	wanted := ParseAcceptLanguage(list)
	for _, tag := range wanted {
		if _, i, sure := c.matcher.Match(tag); sure > language.No {
			return c.all[i], tag, true
		}
	}
	return c.all[0], append(wanted, language.Und)[0], false
}
