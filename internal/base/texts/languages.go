package texts

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/language"
)

// Catalogue has a value for each of several languages, such as the texts of the page or the titles
// of a purpose. The zero value has no language.
type Catalogue[T any] struct {
	all     []T
	matcher language.Matcher
}

// NewCatalogue returns a catalogue of these values. The keys are valid BCP 47 tags.
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

// All returns the values: English first, and then the others in the order of their tags.
func (c Catalogue[T]) All() []T { return slices.Clone(c.all) }

// MaxAcceptLanguage bounds an Accept-Language list, in bytes, because parsing 16 KiB takes
// milliseconds.
const MaxAcceptLanguage = 500

// ParseAcceptLanguage returns the tags of an Accept-Language list, the preferred one first. It
// leaves out what it can't read, and everything beyond MaxAcceptLanguage.
func ParseAcceptLanguage(list string) []language.Tag {
	if len(list) > MaxAcceptLanguage {
		list = list[:MaxAcceptLanguage]
		list = list[:max(0, strings.LastIndexByte(list, ','))]
	}
	if wanted, _, err := language.ParseAcceptLanguage(list); err == nil {
		return wanted
	}
	type wish struct {
		tag    language.Tag
		weight float64
	}
	var wishes []wish
	for element := range strings.SplitSeq(list, ",") {
		text, parameters, _ := strings.Cut(element, ";")
		tag, ok := ReadTag(text)
		weight := 1.0
		for parameter := range strings.SplitSeq(parameters, ";") {
			name, value, _ := strings.Cut(strings.ReplaceAll(parameter, " ", ""), "=")
			if q, err := strconv.ParseFloat(value, 64); err == nil && strings.EqualFold(name, "q") {
				weight = q
			}
		}
		if ok && weight > 0 {
			wishes = append(wishes, wish{tag, weight})
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(b.weight, a.weight) })
	wanted := make([]language.Tag, len(wishes))
	for i, w := range wishes {
		wanted[i] = w.tag
	}
	return wanted
}

// ReadTag reads a language tag in the form of BCP 47 ("zh-Hans-CN"), of POSIX ("en_US.UTF-8",
// "sr_RS@latin"), or of Java and Android ("zh_CN_#Hans"). If it can't read the whole tag, it
// returns the language, script and region in it. It returns false if it finds no language.
func ReadTag(text string) (language.Tag, bool) {
	text = strings.TrimSpace(text)
	if tag, err := language.Parse(text); err == nil || isValueError(err) {
		return tag, tag != language.Und
	}
	text, modifier, _ := strings.Cut(text, "@")
	text, _, _ = strings.Cut(text, ".")
	subtags := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("-_# ", r) })
	if strings.EqualFold(modifier, "latin") || strings.EqualFold(modifier, "cyrillic") {
		subtags = append(subtags, map[string]string{"l": "Latn", "c": "Cyrl"}[strings.ToLower(modifier[:1])])
	}
	if len(subtags) == 0 {
		return language.Und, false
	}
	base, err := language.ParseBase(subtags[0])
	if err != nil {
		return language.Und, false
	}
	parts := []any{base}
	var script language.Script
	var region language.Region
	for _, subtag := range subtags[1:] {
		if s, err := language.ParseScript(subtag); err == nil && script == (language.Script{}) {
			script, parts = s, append(parts, s)
		} else if r, err := language.ParseRegion(subtag); err == nil && region == (language.Region{}) {
			region, parts = r, append(parts, r)
		}
	}
	tag, err := language.Compose(parts...)
	return tag, err == nil && tag != language.Und
}

// isValueError reports whether a tag is well-formed, but has a subtag that isn't registered.
func isValueError(err error) bool {
	_, ok := errors.AsType[language.ValueError](err)
	return ok
}

// Choose finds the first tag of an Accept-Language list that matches a language of the catalogue,
// by the rules of CLDR. It returns the value for that language, and the tag. A reader who prefers
// traditional Chinese to English gets zh-Hans from a catalogue of zh-Hans and English.
//
// If no tag fits, ok is false, and Choose returns the first value of All and the first tag of the
// list, or language.Und if the list has no tag or the catalogue is empty.
func (c Catalogue[T]) Choose(list string) (in T, tag language.Tag, ok bool) {
	if len(c.all) == 0 { // most purposes have no titles; then the list need not be parsed
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
