package message

import (
	"errors"
	"strings"

	"golang.org/x/text/language"
)

// fallbackLocale is used for languages without templates. Its templates must exist.
const fallbackLocale = "en"

// matchLocale returns the locale of the catalog for a tag or an Accept-Language list;
// fallbackLocale if none matches.
func (c *catalog) matchLocale(locale string) string {
	chosen, ok := c.chosen.getCached(locale)
	if !ok {
		chosen, _, _ = c.locales.Choose(locale) // if none fits, the first one, which is English
		if len(locale) <= maxTagBytes {         // a longer text is a list, and there are too many different lists to cache
			c.chosen.putCached(strings.Clone(locale), chosen, maxCachedChoices)
		}
	}
	return chosen
}

// maxCachedChoices bounds the cache of the locales chosen for single tags. Rows have single tags,
// and matching one costs a dozen allocations.
const maxCachedChoices = 1024

// textDirection returns the direction of a language's script: ltr or rtl.
func textDirection(locale string) string {
	switch script, _ := language.Make(locale).Script(); script.String() {
	case "Adlm", "Arab", "Hebr", "Nkoo", "Rohg", "Syrc", "Thaa":
		return "rtl"
	}
	return "ltr"
}

// maxTagBytes is the greatest length of a stored tag, in bytes (RFC 5646 section 4.4.1: enough for
// language, script, region and variants).
const maxTagBytes = 35

// CanonicalTag returns the canonical form of a BCP 47 tag, without unregistered subtags, so that no
// free text is stored. It returns false if the tag is invalid or longer than 35 bytes.
func CanonicalTag(text string) (string, bool) {
	if len(text) > maxTagBytes {
		return "", false
	}
	tag, err := language.Parse(text)
	if unknown := language.ValueError(nil); err != nil && !errors.As(err, &unknown) {
		return "", false
	}
	s := tag.String()
	return s, len(s) <= maxTagBytes
}

// preferredTag returns the tag of an Accept-Language list that decides the language of messages, or
// the first tag; empty if the list is invalid. A message has the same language with this tag as
// with the whole list.
func (c *catalog) preferredTag(list string) string {
	_, tag, _ := c.locales.Choose(list)
	if tag == language.Und {
		return ""
	}
	return limitTagLength(tag)
}

// limitTagLength returns the tag. If the tag is longer than 35 characters, it removes variants and
// extensions.
func limitTagLength(tag language.Tag) string {
	if s := tag.String(); len(s) <= maxTagBytes {
		return s
	}
	base, script, region := tag.Raw()
	tag, err := language.Compose(base, script, region)
	if err != nil {
		return ""
	}
	return tag.String()
}
