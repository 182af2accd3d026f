package message

import (
	"maps"
	"slices"

	"golang.org/x/text/language"

	"sendcode/internal/texts"
)

// Titles are what a code is for, in words that follow "Your code for Shop": "to confirm your address", by language. The zero value has none.
type Titles struct {
	languages texts.Languages
	titles    []string
}

// NewTitles returns the titles by the BCP 47 tags of their languages. A tag that is not well-formed matches no reader.
func NewTitles(byTag map[string]string) (t Titles) {
	var tags []language.Tag
	for _, tag := range slices.Sorted(maps.Keys(byTag)) {
		tags, t.titles = append(tags, language.Make(tag)), append(t.titles, byTag[tag])
	}
	t.languages = texts.NewLanguages(tags)
	return t
}

// In returns the title for a tag or an Accept-Language list; "" if there is none in its languages.
func (t Titles) In(locale string) string {
	if len(t.titles) == 0 {
		return ""
	}
	i, _, ok := t.languages.Choose(locale)
	if !ok {
		return ""
	}
	return t.titles[i]
}
