package message

import (
	"errors"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// fallbackLocale must exist; it serves everybody whose language does not.
const fallbackLocale = "en"

// maxLocale bounds what is parsed of a header that anybody can send, in bytes.
const maxLocale = 256

// match chooses by the rules of CLDR: zh, zh-CN and zh-SG read zh-Hans. A reader of traditional Chinese gets zh-Hans too
// while there is no zh-Hant: it is nearer than English.
func (r *Renderer) match(locale string) string {
	if len(locale) > maxTag { // a list, of which there are many
		return r.choose(locale)
	}
	if chosen, ok := r.chosen.get(locale); ok {
		return chosen
	}
	chosen := r.choose(locale)
	r.chosen.put(locale, chosen)
	return chosen
}

func (r *Renderer) choose(locale string) string {
	if len(locale) > maxLocale {
		return fallbackLocale
	}
	wanted, _, err := language.ParseAcceptLanguage(locale)
	if err != nil {
		return fallbackLocale
	}
	_, i, _ := r.matcher.Match(wanted...) // without any match the first, which is English
	return r.locales[i]
}

// choices keeps what was chosen for single tags: rows have these, and reading and matching one costs a dozen allocations.
type choices struct {
	mu   sync.RWMutex
	kept map[string]string
}

// maxChoices bounds what is kept.
const maxChoices = 1024

func (c *choices) get(tag string) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	chosen, ok := c.kept[tag]
	return chosen, ok
}

func (c *choices) put(tag, chosen string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxChoices {
		c.kept = map[string]string{}
	}
	c.kept[strings.Clone(tag)] = chosen
}

func newMatcher(locales []string) language.Matcher {
	tags := make([]language.Tag, len(locales))
	for i, l := range locales {
		tags[i] = language.Make(l)
	}
	return language.NewMatcher(tags)
}

// maxTag is the length of a tag that is kept, in bytes: room for all that a language is told by (RFC 5646, section 4.4.1).
const maxTag = 35

// Canonical is a BCP 47 tag as it is kept, of at most 35 characters. Subtags that are well-formed and in no registry are left out:
// a newer registry may have them, and no free text is kept by way of them.
func Canonical(text string) (string, bool) {
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

// Prefer is the tag of an Accept-Language list by which the templates choose, or the first one; empty where the list cannot be read.
// Rendered with this tag alone, a message of the app has the language that it has with the list.
func (r *Renderer) Prefer(app, list string) string {
	r = r.of(app, r)
	if list == "" || len(list) > maxLocale {
		return ""
	}
	wanted, _, err := language.ParseAcceptLanguage(list)
	if err != nil || len(wanted) == 0 {
		return ""
	}
	chosen := wanted[0]
	_, best, how := r.matcher.Match(wanted...)
	for _, tag := range wanted {
		if _, i, sure := r.matcher.Match(tag); how > language.No && i == best && sure > language.No {
			chosen = tag
			break
		}
	}
	return short(chosen)
}

// short is a tag of at most 35 characters: where it is longer, without its variants and extensions.
func short(tag language.Tag) string {
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
