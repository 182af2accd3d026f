// Package texts holds what people read on the page, in the widget, in the console and in its replies, one file per language:
// en.json and its like; another file makes one language more. A file has sections of keys with texts. A text names what is filled in
// as "{name}"; one about {n} things has a form for each that its language has by CLDR: ".one" and ".other" in English, six in Arabic.
// A file may lack the console's section, or that and the replies: then it is a language of the page and the widget, and of replies if it
// has them. Mails and text messages are templates, which package templates embeds.
package texts

import (
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

	"sendcode/quota"
)

//go:embed *.json
var files embed.FS

// about is a section with remarks on the file, such as that no native speaker has read it. It is not shown.
const about = "about"

// The sections of a file.
const (
	Page    = "page"
	Phone   = "phone" // what the page says otherwise of text messages and numbers
	Console = "console"
	Replies = "replies" // for the person whose code it is
)

// Words are all texts in one language.
type Words struct {
	tag      language.Tag
	sections map[string]map[string]string
	texts    map[string]string // of the console, with the replies
	zone     *time.Location    // of the times that a page shows; nil: UTC
}

// Pages are the languages of the page and the widget, English first: it is for readers of none of them. A test holds what the files have
// in common.
var Pages = sync.OnceValue(func() (all []Words) {
	names, _ := fs.Glob(files, "*.json") // the pattern is right
	for _, name := range names {
		file, _ := files.ReadFile(name)
		w, err := read(language.MustParse(strings.TrimSuffix(name, ".json")), file)
		switch {
		case err != nil:
			panic(err)
		case w.tag == language.English:
			all = slices.Insert(all, 0, w)
		default:
			all = append(all, w)
		}
	}
	return all
})

// All are the languages that everything is there in, English first.
var All = sync.OnceValue(func() []Words { return having(Console) })

// having are the languages that have a section.
func having(section string) []Words {
	return slices.DeleteFunc(slices.Clone(Pages()), func(w Words) bool { return w.sections[section] == nil })
}

func read(tag language.Tag, file []byte) (Words, error) {
	w := Words{tag: tag, texts: map[string]string{}}
	if err := json.Unmarshal(file, &w.sections); err != nil {
		return w, fmt.Errorf("texts in %s: %w", tag, err)
	}
	delete(w.sections, about)
	maps.Copy(w.texts, w.sections[Console])
	maps.Copy(w.texts, w.sections[Replies])
	return w, nil
}

// Form is the one that a language has for n things, by CLDR: "one", "few", "other" and so on.
func Form(tag language.Tag, n int) string {
	names := [...]string{plural.Other: "other", plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many"}
	return names[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)]
}

// For picks the language of an Accept-Language header that everything is there in, by the base language alone, so that readers of traditional
// Chinese get simplified Chinese rather than English; else English.
func For(header string) Words { return forBase(All(), header, All()[0]) }

// In are the words of a language by its tag, as Lang has it.
func In(tag string) (Words, bool) {
	i := slices.IndexFunc(All(), func(w Words) bool { return w.Lang() == tag })
	if i < 0 {
		return Words{}, false
	}
	return All()[i], true
}

// ForReply picks a language of replies in the same way; otherwise is for a list of none of our languages.
func ForReply(locales string, otherwise Words) Words { return forBase(replying(), locales, otherwise) }

// replying are the languages that there are replies in.
var replying = sync.OnceValue(func() []Words { return having(Replies) })

// ForPage picks a language of the page in the same way, else English.
func ForPage(locales string) Words { return forBase(Pages(), locales, Pages()[0]) }

func forBase(all []Words, locales string, otherwise Words) Words {
	wanted, _, err := language.ParseAcceptLanguage(locales)
	if err != nil {
		return otherwise
	}
	for _, tag := range wanted {
		base, _ := tag.Base()
		for _, w := range all {
			if own, _ := w.tag.Base(); own == base {
				return w
			}
		}
	}
	return otherwise
}

// Section are the texts of one section by key.
func (w Words) Section(name string) map[string]string { return maps.Clone(w.sections[name]) }

// Forms are the texts of one section by name: a text or, where keys are a name and a form after a dot, a map of texts by form.
func (w Words) Forms(section string) map[string]any {
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

// Lang is the value of a page's lang attribute.
func (w Words) Lang() string { return w.tag.String() }

// T is Get for a template. A key that does not exist breaks the page, so that a test finds it.
func (w Words) T(key string, pairs ...string) (string, error) {
	if !w.Has(key) {
		return "", fmt.Errorf("no text %q in %s", key, w.tag)
	}
	return w.Get(key, pairs...), nil
}

// Has says whether there is a text for a key.
func (w Words) Has(key string) bool {
	_, ok := w.texts[key]
	return ok
}

// Get fills a text of the console, empty where there is none: pairs are a name, which stands in the text as "{name}", and its value.
func (w Words) Get(key string, pairs ...string) string {
	s := w.texts[key]
	for i := 0; i+1 < len(pairs); i += 2 {
		s = strings.ReplaceAll(s, "{"+pairs[i]+"}", pairs[i+1])
	}
	return s
}

// Plural is Get for a text about {n} things.
func (w Words) Plural(key string, n int) string {
	return w.Get(PluralKey(key, n), "n", strconv.Itoa(n))
}

// PluralKey is the key of a text about n things.
func PluralKey(key string, n int) string {
	if n == 1 {
		return key + ".one"
	}
	return key + ".other"
}

// Or is the text of key+"."+name, or name itself where there is none: rows may hold words of a later version.
func (w Words) Or(key, name string) string {
	if s, ok := w.texts[key+"."+name]; ok {
		return s
	}
	return name
}

// Wait writes a wait in whole seconds, rounded up: "42 s", "13 min 5 s", "3 h 20 min", "2 d 4 h".
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

func (w Words) units(n int, unit string, rest int, smaller string) string {
	out := strconv.Itoa(n) + " " + w.texts["unit."+unit]
	if rest > 0 {
		out += " " + strconv.Itoa(rest) + " " + w.texts["unit."+smaller]
	}
	return out
}

// Took writes a measured time: "0.4 ms", "184 ms", "2.1 s", "1 min 3 s".
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
