package message

import (
	"errors"
	"strings"

	"golang.org/x/text/language"

	"sendcode/internal/base/texts"
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

// maxCachedChoices bounds catalog.chosen. The cache is for the tags in database rows, because
// matching one tag costs a dozen allocations.
const maxCachedChoices = 1024

// textDirection returns the direction of a language's script: ltr or rtl.
func textDirection(locale string) string {
	switch script, _ := language.Make(locale).Script(); script.String() {
	case "Adlm", "Arab", "Hebr", "Nkoo", "Rohg", "Syrc", "Thaa":
		return "rtl"
	}
	return "ltr"
}

// maxTagBytes bounds a stored tag. 35 bytes are enough for language, script, region and variants
// (RFC 5646 section 4.4.1).
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

// anyLanguage is the tag that package language returns for the * of a list.
const anyLanguage = "mul"

// WantedTag returns the canonical form of a language tag that a caller wants, without unregistered
// subtags and with at most 35 bytes. The tag may be written in any form that [texts.ReadTag] reads,
// or be the first one of an Accept-Language list. If the text has no language, WantedTag returns
// "", and not an error, because the message must be sent anyway.
func WantedTag(text string) string {
	if s, ok := CanonicalTag(text); ok && s != language.Und.String() {
		return s
	}
	for _, tag := range texts.ParseAcceptLanguage(text) {
		if s := limitTagLength(tag); s != language.Und.String() && s != anyLanguage {
			return s
		}
	}
	return ""
}

// decidingTag returns the tag of an Accept-Language list that decides the language of messages. A
// message for this tag alone has the same language as a message for the whole list. If no tag of
// the list fits, decidingTag returns the first tag. If there is no tag in the list, it returns "".
func (c *catalog) decidingTag(list string) string {
	_, tag, _ := c.locales.Choose(list)
	if tag == language.Und {
		return ""
	}
	return limitTagLength(tag)
}

// limitTagLength returns the tag as text. If the tag is longer than 35 characters, limitTagLength
// removes variants and extensions.
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
