package message

import (
	"errors"
	"strings"

	"golang.org/x/text/language"
)

// fallbackLocale is used for languages without templates. It must exist.
const fallbackLocale = "en"

// maxLocale bounds how much of a client's header is parsed, in bytes.
const maxLocale = 256

// matchLocale returns the locale of the catalog that fits a tag or list best by the rules of CLDR, else fallbackLocale: zh, zh-CN and
// zh-SG give zh-Hans. So does traditional Chinese without templates for zh-Hant, since zh-Hans is closer than English.
func (c *catalog) matchLocale(locale string) string {
	if len(locale) > maxTag { // a list, of which there are many
		return c.matchList(locale)
	}
	chosen, ok := c.chosen.get(locale)
	if !ok {
		chosen = c.matchList(locale)
		c.chosen.put(strings.Clone(locale), chosen, maxChoices)
	}
	return chosen
}

func (c *catalog) matchList(locale string) string {
	if len(locale) > maxLocale {
		return fallbackLocale
	}
	wanted, _, err := language.ParseAcceptLanguage(locale)
	if err != nil {
		return fallbackLocale
	}
	_, i, _ := c.matcher.Match(wanted...) // without any match the first, which is English
	return c.locales[i]
}

// maxChoices bounds the cache of the locales chosen for single tags. Rows have single tags, and matching one costs a dozen allocations.
const maxChoices = 1024

func newMatcher(locales []string) language.Matcher {
	tags := make([]language.Tag, len(locales))
	for i, l := range locales {
		tags[i] = language.Make(l)
	}
	return language.NewMatcher(tags)
}

// direction returns in which direction a language's script is written: ltr or rtl.
func direction(locale string) string {
	switch script, _ := language.Make(locale).Script(); script.String() {
	case "Adlm", "Arab", "Hebr", "Nkoo", "Rohg", "Syrc", "Thaa":
		return "rtl"
	}
	return "ltr"
}

// maxTag is the greatest length of a tag that is kept, in bytes: enough for all subtags that tell a language (RFC 5646, section 4.4.1).
const maxTag = 35

// CanonicalTag returns the canonical form of a BCP 47 tag, without unregistered subtags, so that no free text is stored; false if the tag
// is invalid or longer than 35 bytes.
func CanonicalTag(text string) (string, bool) {
	if len(text) > maxTag {
		return "", false
	}
	tag, err := language.Parse(text)
	if unknown := language.ValueError(nil); err != nil && !errors.As(err, &unknown) {
		return "", false
	}
	s := tag.String()
	return s, len(s) <= maxTag
}

// preferredTag returns the tag of an Accept-Language list that decides the language of messages, or the first tag; empty if the list is
// invalid. With this tag alone, a message gets the same language as with the list.
func (c *catalog) preferredTag(list string) string {
	if list == "" || len(list) > maxLocale {
		return ""
	}
	wanted, _, err := language.ParseAcceptLanguage(list)
	if err != nil || len(wanted) == 0 {
		return ""
	}
	chosen := wanted[0]
	_, best, how := c.matcher.Match(wanted...)
	for _, tag := range wanted {
		if _, i, sure := c.matcher.Match(tag); how > language.No && i == best && sure > language.No {
			chosen = tag
			break
		}
	}
	return shortenTag(chosen)
}

// shortenTag returns the tag or, if it is longer than 35 characters, the tag without variants and extensions.
func shortenTag(tag language.Tag) string {
	if s := tag.String(); len(s) <= maxTag {
		return s
	}
	base, script, region := tag.Raw()
	tag, err := language.Compose(base, script, region)
	if err != nil {
		return ""
	}
	return tag.String()
}
