package message

import "sendcode/internal/base/texts"

// PurposeTitles has the titles of a purpose, one for each language. A title has the words that
// follow "Your code for Shop", such as "to confirm your address". The zero value has no titles.
type PurposeTitles struct{ titles texts.Catalogue[string] }

// NewPurposeTitles returns a PurposeTitles. The keys of byTag are valid BCP 47 tags.
func NewPurposeTitles(byTag map[string]string) PurposeTitles {
	return PurposeTitles{texts.NewCatalogue(byTag)}
}

// ForLocaleOrEmpty returns the title for a tag or an Accept-Language list; "" if no title fits.
func (t PurposeTitles) ForLocaleOrEmpty(locale string) string {
	if title, _, ok := t.titles.Choose(locale); ok {
		return title
	}
	return ""
}

// All returns the titles of all languages.
func (t PurposeTitles) All() []string { return t.titles.All() }
