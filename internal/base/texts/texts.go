// Package texts holds the texts of the page, the widget and the console. Each language has one
// file, such as en.json. A file has sections, and a section maps keys to texts. "{name}" in a text
// is replaced by a value. A text about {n} things has a form for each CLDR plural category of its
// language: ".one" and ".other" in English, six in Arabic. In the section of the console, such a
// text has the two forms of English in each language.
//
// Each file has the sections page and phone, whose texts the page and the widget show, and a
// section of replies to persons. Without a section of the console, the console is not offered in
// the language. Each file but en.json has a section with the texts of the API's problems, whose
// English texts are in package server. Package templates has the texts of mails and text messages.
//
// Tests that need a language without a file use Sumerian, sux.
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

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"sendcode/quota"
)

//go:embed *.json
var files embed.FS

// remarksSection is for translators: it says, for example, that no native speaker has checked the
// file. Pages never show it.
const remarksSection = "about"

// These are the sections of a file.
const (
	PageSection    = "page"
	PhoneSection   = "phone" // texts that replace those of the page for text messages
	consoleSection = "console"
	repliesSection = "replies" // sentences that an operator can send to the person whose code it is, by cause

	// ProblemsSection has the texts of the API's problems: the title at "slug.title", the detail at
	// "slug" or "slug.reason".
	ProblemsSection = "problems"
)

// Words has all texts in one language.
type Words struct {
	tag      language.Tag
	sections map[string]map[string]string
	texts    map[string]string // of the console
	zone     *time.Location    // time zone in which a page shows times; nil: UTC
}

// PageLanguages returns all languages, English first. It panics if a file isn't valid JSON.
func PageLanguages() []Words { return pageCatalogue().All() }

// ConsoleLanguages returns the languages that have texts for the console, English first.
func ConsoleLanguages() []Words { return consoleCatalogue().All() }

var (
	pageCatalogue    = sync.OnceValue(func() Catalogue[Words] { return catalogueWithSection(PageSection) })
	consoleCatalogue = sync.OnceValue(func() Catalogue[Words] { return catalogueWithSection(consoleSection) })
)

// allWords returns the texts of all files, by language tag.
var allWords = sync.OnceValue(func() map[string]Words {
	all := map[string]Words{}
	names, _ := fs.Glob(files, "*.json") // the pattern is valid
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

func catalogueWithSection(section string) Catalogue[Words] {
	all := maps.Clone(allWords())
	maps.DeleteFunc(all, func(_ string, w Words) bool { return w.sections[section] == nil })
	return NewCatalogue(all)
}

func parseFile(tag language.Tag, file []byte) (Words, error) {
	w := Words{tag: tag}
	if err := json.Unmarshal(file, &w.sections); err != nil {
		return w, fmt.Errorf("texts in %s: %w", tag, err)
	}
	delete(w.sections, remarksSection)
	w.texts = w.sections[consoleSection]
	return w, nil
}

// ConsoleTextsFor returns the console's texts in the best language for an Accept-Language list, or
// in English if no language fits.
func ConsoleTextsFor(list string) Words {
	w, _, _ := consoleCatalogue().Choose(list)
	return w
}

// ConsoleByTag returns the console's texts in the language with this tag (see Lang). It returns
// false if the console has none in this language.
func ConsoleByTag(tag string) (Words, bool) {
	i := slices.IndexFunc(ConsoleLanguages(), func(w Words) bool { return w.Lang() == tag })
	if i < 0 {
		return Words{}, false
	}
	return ConsoleLanguages()[i], true
}

// PageTextsFor returns the page's texts in the best language for an Accept-Language header, or in
// English if no language fits.
func PageTextsFor(acceptLanguage string) Words {
	w, _, _ := pageCatalogue().Choose(acceptLanguage)
	return w
}

// PageTextsOr returns the page's texts in the best language for a list of tags, or the parameter
// otherwise if no language fits.
func PageTextsOr(list string, otherwise Words) Words {
	if w, _, ok := pageCatalogue().Choose(list); ok {
		return w
	}
	return otherwise
}

// Reply returns the reply to a person for a cause, with values as in Get. For a text message it is
// the variant ".sms" of the cause, if there is one.
func (w Words) Reply(cause string, sms bool, pairs ...string) string {
	all := w.sections[repliesSection]
	if variant := all[cause+".sms"]; sms && variant != "" {
		return fill(variant, pairs...)
	}
	return fill(all[cause], pairs...)
}

// ProblemTranslation returns the title and the detail of a problem of the API. If the reason has no
// detail of its own, the detail is that of the slug. "{name}" in a detail stands for a member of
// the problem. In English, title and detail are empty, because package server has the English
// texts.
func (w Words) ProblemTranslation(slug, reason string) (title, detail string) {
	all := w.sections[ProblemsSection]
	return all[slug+".title"], cmp.Or(all[slug+"."+reason], all[slug])
}

// Section returns the texts by key. All callers share the map, and must not change it.
func (w Words) Section(name string) map[string]string { return w.sections[name] }

// TextsWithForms returns the texts of a section by name, the part of a key before the dot. If keys
// with this name have a dot, the value is a map from the part after the dot to the text, and
// otherwise the text.
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

// Lang returns the tag, such as "zh-Hans", for a page's attribute lang.
func (w Words) Lang() string { return w.tag.String() }

// Country returns a text such as "Germany (DE)", or "" if code is not that of a country (ISO 3166-1
// alpha-2).
func (w Words) Country(code string) string {
	region, err := language.ParseRegion(code)
	if err != nil || !region.IsCountry() {
		return ""
	}
	return display.Regions(w.tag).Name(region) + " (" + code + ")"
}

// T is Get for templates. A missing text is an error, so that the page fails and a test finds it.
func (w Words) T(key string, pairs ...string) (string, error) {
	if !w.Has(key) {
		return "", fmt.Errorf("there is no text %q in %s", key, w.tag)
	}
	return w.Get(key, pairs...), nil
}

// Has reports whether the console has a text.
func (w Words) Has(key string) bool {
	_, ok := w.texts[key]
	return ok
}

// Get returns a text of the console, or "". pairs are names, each followed by the value that
// replaces "{name}".
func (w Words) Get(key string, pairs ...string) string { return fill(w.texts[key], pairs...) }

func fill(s string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		s = strings.ReplaceAll(s, "{"+pairs[i]+"}", pairs[i+1])
	}
	return s
}

// Plural puts n in place of {n}.
func (w Words) Plural(key string, n int) string {
	return w.Get(PluralKey(key, n), "n", strconv.Itoa(n))
}

// PluralKey returns key.one or key.other, for the console.
func PluralKey(key string, n int) string {
	if n == 1 {
		return key + ".one"
	}
	return key + ".other"
}

// Or returns the text of key+"."+name, or name if there is no such text. A later version of the
// program may have written a name to the database that this one doesn't know.
func (w Words) Or(key, name string) string {
	if s, ok := w.texts[key+"."+name]; ok {
		return s
	}
	return name
}

// Wait formats a duration, rounded up to whole units: "42 s", "13 min 5 s", "3 h 20 min", "2 d 4
// h".
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

// Duration does the same as DurationRoundedUp, in the words of this language.
func (w Words) Duration(d time.Duration) string { return DurationRoundedUp(w.sections[PageSection], d) }

// DurationRoundedUp formats a duration in the words of the page, as in "42 s", "28 min" or "3 h 20
// min".
func DurationRoundedUp(page map[string]string, d time.Duration) string {
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
	return fill(page[key], "s", strconv.Itoa(seconds), "h", strconv.Itoa(h), "m", strconv.Itoa(m))
}

// DurationPatterns returns the patterns of Duration for a script: those of seconds, minutes,
// hours, and hours with minutes, with "|" between them.
func (w Words) DurationPatterns() string {
	page := w.sections[PageSection]
	return strings.Join([]string{page["Seconds"], page["Minutes"], page["Hours"], page["HoursMinutes"]}, "|")
}

func (w Words) units(n int, unit string, rest int, smaller string) string {
	out := strconv.Itoa(n) + " " + w.texts["unit."+unit]
	if rest > 0 {
		out += " " + strconv.Itoa(rest) + " " + w.texts["unit."+smaller]
	}
	return out
}

// Elapsed formats a measured time: "0.4 ms", "184 ms", "2.1 s", "1 min 3 s"; "–" if d is not
// positive.
func (w Words) Elapsed(d time.Duration) string {
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
