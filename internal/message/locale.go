package message

import "golang.org/x/text/language"

// fallbackLocale must exist; it serves everybody whose language does not.
const fallbackLocale = "en"

// maxLocale bounds what is parsed of a header that anybody can send, in bytes.
const maxLocale = 256

// match chooses by the rules of CLDR: zh, zh-CN and zh-SG read zh-Hans. A reader of traditional Chinese gets zh-Hans too
// while there is no zh-Hant: it is nearer than English.
func (r *Renderer) match(locale string) string {
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

func newMatcher(locales []string) language.Matcher {
	tags := make([]language.Tag, len(locales))
	for i, l := range locales {
		tags[i] = language.Make(l)
	}
	return language.NewMatcher(tags)
}
