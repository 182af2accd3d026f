package message

import "sendcode/internal/base/texts"

// PurposeTitles are titles of a purpose, by language, in words that follow "Your code for Shop",
// such as "to confirm your address". The zero value has no title.
type PurposeTitles struct{ titles texts.Catalogue[string] }

// NewPurposeTitles returns the titles by the BCP 47 tags of their languages. A tag that is not
// well-formed matches no reader.
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
