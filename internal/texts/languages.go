package texts

import "golang.org/x/text/language"

// Languages are the languages that something is written in.
type Languages struct{ matcher language.Matcher }

// NewLanguages returns these languages, whose tags are BCP 47.
func NewLanguages(tags []language.Tag) Languages { return Languages{language.NewMatcher(tags)} }

// MaxList bounds what is read of an Accept-Language list, in bytes: one of 16 KiB takes milliseconds.
const MaxList = 500

// Wanted returns the tags of an Accept-Language list, the most wanted first; none if the list is invalid or longer than MaxList.
func Wanted(list string) []language.Tag {
	if len(list) > MaxList {
		return nil
	}
	wanted, _, err := language.ParseAcceptLanguage(list)
	if err != nil {
		return nil
	}
	return wanted
}

// Choose returns the index of the language that fits a list of tags (Accept-Language) best by the rules of CLDR, and the tag that decided:
// the first one for which there is a language at all. So readers of traditional Chinese get zh-Hans rather than the English that they name
// second. ok is false if no tag has a language; by is then the first one, or language.Und if Wanted returns none.
func (l Languages) Choose(list string) (i int, by language.Tag, ok bool) {
	wanted := Wanted(list)
	for _, tag := range wanted {
		if _, i, sure := l.matcher.Match(tag); sure > language.No {
			return i, tag, true
		}
	}
	return 0, append(wanted, language.Und)[0], false
}
