package texts

import (
	"maps"
	"slices"

	"golang.org/x/text/language"
)

// Catalogue has the same in several languages: the words of pages, of the console and of replies,
// the locales of templates, the titles of a purpose. The zero value has no language.
type Catalogue[T any] struct {
	all     []T
	matcher language.Matcher
}

// NewCatalogue returns a catalogue of what there is by the BCP 47 tag of its language. A tag that
// is not well-formed matches no reader.
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

// All returns what there is in each language: English first, the others by their tags.
func (c Catalogue[T]) All() []T { return slices.Clone(c.all) }

// MaxList bounds what is read of an Accept-Language list, in bytes: one of 16 KiB takes
// milliseconds.
const MaxList = 500

// ParseAcceptLanguage returns the tags of an Accept-Language list, the most wanted first; none if
// the list is invalid or longer than MaxList.
func ParseAcceptLanguage(list string) []language.Tag {
	if len(list) > MaxList {
		return nil
	}
	wanted, _, err := language.ParseAcceptLanguage(list)
	if err != nil {
		return nil
	}
	return wanted
}

// Choose returns what there is in the language that fits a list of tags (Accept-Language) best by
// the rules of CLDR, and the tag that decided: the first one for which there is a language at all.
// So readers of traditional Chinese get zh-Hans rather than the English that they name second. ok
// is false if no tag has a language; then it returns the first of All, and the first tag, or
// language.Und if Wanted returns none or there is nothing in any language.
func (c Catalogue[T]) Choose(list string) (in T, by language.Tag, ok bool) {
	if len(c.all) == 0 { // as most purposes have no title: the list need not be parsed
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
