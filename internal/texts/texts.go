// Package texts holds what people read on the page, in the widget, in the console and in replies to
// them. Each language has one file, such as en.json. A file has sections, and a section maps keys
// to texts. A text shows with "{name}" where a value is filled in. A text about {n} things has a
// form for each plural category of its language in CLDR: ".one" and ".other" in English, six in
// Arabic.
//
// All files have the sections of the page and the widget. Without the section of replies or the
// console, a file's language is not offered there. Problems of the API have a section in each
// language but English, whose texts are in package server. Mails and text messages are templates,
// which package templates embeds.
package texts

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"sendcode/quota"
)

//go:embed *.json
var files embed.FS

// remarksSection has remarks on the file, such as that no native speaker has read it. It is not
// shown.
const remarksSection = "about"

// The sections of a file.
const (
	Page           = "page"
	Phone          = "phone" // what the page says otherwise of text messages and numbers
	consoleSection = "console"
	repliesSection = "replies" // for the person whose code it is

	// of the API: titles by "slug.title", details by "slug" and "slug.reason"; English ones are in
	// package server
	Problems = "problems"
)

// Words are all texts in one language.
type Words struct {
	tag      language.Tag
	sections map[string]map[string]string
	texts    map[string]string // of the console, with the replies
	zone     *time.Location    // of the times that a page shows; nil: UTC
}

// PageLanguages returns the languages of the page and the widget, English first. They are read
// once; a file that is not valid JSON panics.
func PageLanguages() []Words { return page().All() }

// ConsoleLanguages returns the languages that have texts for the console, English first.
func ConsoleLanguages() []Words { return console().All() }

var (
	page    = sync.OnceValue(func() Catalogue[Words] { return languagesWith(Page) })
	console = sync.OnceValue(func() Catalogue[Words] { return languagesWith(consoleSection) })
	replies = sync.OnceValue(func() Catalogue[Words] { return languagesWith(repliesSection) })
)

// allWords has the words of each file, by the tag of its name.
var allWords = sync.OnceValue(func() map[string]Words {
	all := map[string]Words{}
	names, _ := fs.Glob(files, "*.json") // the pattern is right
	for _, name := range names {
		file, _ := files.ReadFile(name)
		tag := strings.TrimSuffix(name, ".json")
		w, err := parseFile(language.MustParse(tag), file)
		if err != nil {
			panic(err)
		}
		all[tag] = w
	}
	return all
})

// languagesWith returns the languages that have a section.
func languagesWith(section string) Catalogue[Words] {
	all := maps.Clone(allWords())
	maps.DeleteFunc(all, func(_ string, w Words) bool { return w.sections[section] == nil })
	return NewCatalogue(all)
}

func parseFile(tag language.Tag, file []byte) (Words, error) {
	w := Words{tag: tag, texts: map[string]string{}}
	if err := json.Unmarshal(file, &w.sections); err != nil {
		return w, fmt.Errorf("texts in %s: %w", tag, err)
	}
	delete(w.sections, remarksSection)
	maps.Copy(w.texts, w.sections[consoleSection])
	maps.Copy(w.texts, w.sections[repliesSection])
	return w, nil
}

// PluralForm returns the CLDR plural category of n in a language: "zero", "one", "two", "few",
// "many" or "other".
func PluralForm(tag language.Tag, n int) string {
	names := [...]string{plural.Other: "other", plural.Zero: "zero", plural.One: "one", plural.Two: "two",
		plural.Few:  "few",
		plural.Many: "many"}
	return names[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)]
}

// ForConsole returns the console's language for an Accept-Language list; English if the console has
// none of its languages.
func ForConsole(list string) Words {
	w, _, _ := console().Choose(list)
	return w
}

// ConsoleByTag returns the console's language with this tag, as Lang returns it; false if there is
// none.
func ConsoleByTag(tag string) (Words, bool) {
	i := slices.IndexFunc(ConsoleLanguages(), func(w Words) bool { return w.Lang() == tag })
	if i < 0 {
		return Words{}, false
	}
	return ConsoleLanguages()[i], true
}

// ForReply returns the language of replies for a list of languages. If replies have none of them,
// it returns otherwise.
func ForReply(list string, otherwise Words) Words {
	if w, _, ok := replies().Choose(list); ok {
		return w
	}
	return otherwise
}

// ForPage returns the page's texts in the best language of an Accept-Language header; English if
// the page has none of them.
func ForPage(acceptLanguage string) Words {
	w, _, _ := page().Choose(acceptLanguage)
	return w
}

// Problem returns the title of a problem of the API, and its detail: that of the reason, or of the
// slug if the reason is empty or has none. They show "{name}" where the problem's member goes. Both
// are empty in English.
func (w Words) Problem(slug, reason string) (title, detail string) {
	all := w.sections[Problems]
	return all[slug+".title"], cmp.Or(all[slug+"."+reason], all[slug])
}

// Section returns the texts of one section by key.
func (w Words) Section(name string) map[string]string { return maps.Clone(w.sections[name]) }

// TextsWithForms returns the texts of one section by name: a text or, where keys are a name and a
// form after a dot, a map of texts by form.
func (w Words) TextsWithForms(section string) map[string]any {
	all := map[string]any{}
	for key, text := range w.sections[section] {
		name, form, several := strings.Cut(key, ".")
		switch forms, _ := all[name].(map[string]string); {
		case !several:
			all[name] = text
		case forms == nil:
			all[name] = map[string]string{form: text}
		default:
			forms[form] = text
		}
	}
	return all
}

// Lang returns the language's tag, such as "zh-Hans", for a page's lang attribute.
func (w Words) Lang() string { return w.tag.String() }

// Country returns a country's name and its code, "Germany (DE)"; "" for what is no code of a
// country (ISO 3166-1 alpha-2).
func (w Words) Country(code string) string {
	region, err := language.ParseRegion(code)
	if err != nil || !region.IsCountry() {
		return ""
	}
	return display.Regions(w.tag).Name(region) + " (" + code + ")"
}

// T is Get for templates. It returns an error if there is no text for the key, so that the page
// fails and a test finds it.
func (w Words) T(key string, pairs ...string) (string, error) {
	if !w.Has(key) {
		return "", fmt.Errorf("no text %q in %s", key, w.tag)
	}
	return w.Get(key, pairs...), nil
}

// Has reports whether the console or the replies have a text for a key.
func (w Words) Has(key string) bool {
	_, ok := w.texts[key]
	return ok
}

// Get returns a text of the console or the replies, "" if there is none. Pairs are a name, which
// stands in the text as "{name}", and the value to put there.
func (w Words) Get(key string, pairs ...string) string {
	s := w.texts[key]
	for i := 0; i+1 < len(pairs); i += 2 {
		s = strings.ReplaceAll(s, "{"+pairs[i]+"}", pairs[i+1])
	}
	return s
}

// Plural returns the text about n things, with n in place of {n}.
func (w Words) Plural(key string, n int) string {
	return w.Get(PluralKey(key, n), "n", strconv.Itoa(n))
}

// PluralKey returns the key of the console's text about n things: key.one or key.other.
func PluralKey(key string, n int) string {
	if n == 1 {
		return key + ".one"
	}
	return key + ".other"
}

// Or returns the text of key+"."+name, or name itself if there is none: rows may hold words of a
// later version.
func (w Words) Or(key, name string) string {
	if s, ok := w.texts[key+"."+name]; ok {
		return s
	}
	return name
}

// Wait returns a wait in words, rounded up to whole units: "42 s", "13 min 5 s", "3 h 20 min", "2 d
// 4 h".
func (w Words) Wait(d time.Duration) string {
	s := quota.Seconds(d)
	switch {
	case s < 60:
		return w.units(s, "s", 0, "")
	case s < 3600:
		return w.units(s/60, "min", s%60, "s")
	case s < 24*3600:
		m := (s + 59) / 60
		return w.units(m/60, "h", m%60, "min")
	}
	h := (s + 3599) / 3600
	return w.units(h/24, "d", h%24, "h")
}

// Duration returns a duration in the words of the page; see RoundedUp.
func (w Words) Duration(d time.Duration) string { return RoundedUp(w.sections[Page], d) }

// RoundedUp returns a duration in words of the page, rounded up: 42 s, 28 min, 3 h 20 min.
func RoundedUp(page map[string]string, d time.Duration) string {
	seconds := quota.Seconds(d)
	minutes := (seconds + 59) / 60
	key, h, m := "HoursMinutes", minutes/60, minutes%60
	switch {
	case seconds < 60:
		key = "Seconds"
	case h == 0:
		key = "Minutes"
	case m == 0:
		key = "Hours"
	}
	return strings.NewReplacer("{s}", strconv.Itoa(seconds), "{h}", strconv.Itoa(h), "{m}",
		strconv.Itoa(m)).Replace(page[key])
}

func (w Words) units(n int, unit string, rest int, smaller string) string {
	out := strconv.Itoa(n) + " " + w.texts["unit."+unit]
	if rest > 0 {
		out += " " + strconv.Itoa(rest) + " " + w.texts["unit."+smaller]
	}
	return out
}

// Span returns how far off something is, as a reply says it, rounded down to minutes, hours or
// days: "9 minutes", "2 hours ago".
func (w Words) Span(d time.Duration) string {
	m := int(d.Abs() / time.Minute)
	unit, n := "min", m
	switch {
	case m == 0 && d <= 0:
		return w.texts["span.now"]
	case m == 0:
		return w.texts["span.less"]
	case m >= 48*60:
		unit, n = "d", m/(24*60)
	case m >= 120:
		unit, n = "h", m/60
	}
	text := w.Get("span."+unit+"."+PluralForm(w.tag, n), "n", strconv.Itoa(n))
	if d > 0 {
		return text
	}
	return w.Get("span.ago", "span", text)
}

// Took returns a measured time in words: "0.4 ms", "184 ms", "2.1 s", "1 min 3 s"; "–" if d is not
// positive.
func (w Words) Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f %s", float64(d)/float64(time.Millisecond), w.texts["unit.ms"])
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " " + w.texts["unit.ms"]
	case d < time.Minute:
		return fmt.Sprintf("%.1f %s", d.Seconds(), w.texts["unit.s"])
	}
	return w.Wait(d)
}
