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

// NewCatalogue returns a catalogue of these values, by the BCP 47 tags of their languages. A tag
// that is not well-formed fits no reader.
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

// MaxAcceptLanguage is the longest Accept-Language list that is parsed, in bytes: parsing 16 KiB
// takes milliseconds.
const MaxAcceptLanguage = 500

// ParseAcceptLanguage returns the tags of an Accept-Language list, the most wanted first; none if
// the list is invalid or longer than MaxAcceptLanguage.
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

// Choose returns the value of the language that best fits a list of tags (Accept-Language) by the
// rules of CLDR. tag is the tag of the list that decided: the first for whose language the
// catalogue has a value. So a reader whose list is traditional Chinese, English gets zh-Hans. ok is
// false if the catalogue fits no tag; then Choose returns the first value of All, and the first tag
// of the list. Without a tag, or in an empty catalogue, tag is language.Und.
func (c Catalogue[T]) Choose(list string) (in T, tag language.Tag, ok bool) {
	if len(c.all) == 0 { // as for most purposes, which have no titles: parsing the list is not needed
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
