package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"sendcode/quota"
)

// words are all texts of the console in one language; words_en.go, words_zh.go and their like hold them.
type words struct {
	tag   language.Tag
	texts map[string]string
}

// The texts of all pages, each of which may have a file of its own.
var (
	englishTexts = together(englishBasics, englishPolicies, englishOverview, englishSuppressions, englishPrefixes, englishWebhooks, englishAnswers, englishTail, englishExport, englishPreview, englishProvider, englishVerdicts, englishFactor, englishExtent)
	chineseTexts = together(chineseBasics, chinesePolicies, chineseOverview, chineseSuppressions, chinesePrefixes, chineseWebhooks, chineseAnswers, chineseTail, chineseExport, chinesePreview, chineseProvider, chineseVerdicts, chineseFactor, chineseExtent)
)

// together joins texts; a key that is in two of them is a fault that every test meets.
func together(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		for key, text := range part {
			if _, twice := all[key]; twice {
				panic("two texts for " + key)
			}
			all[key] = text
		}
	}
	return all
}

var (
	english = words{tag: language.English, texts: joined(englishTexts, englishActs)}
	chinese = words{tag: language.SimplifiedChinese, texts: joined(chineseTexts, chineseActs)}
)

var (
	languages = []words{english, chinese}
	matcher   = language.NewMatcher([]language.Tag{english.tag, chinese.tag})
)

// wordsFor picks the language that the reader's browser asks for, else English.
func wordsFor(r *http.Request) words {
	wanted, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return english
	}
	_, i, _ := matcher.Match(wanted...) // the first where none fits
	return languages[i]
}

// Lang is the value of the page's lang attribute.
func (w words) Lang() string { return w.tag.String() }

// T is a text for a template. A key that does not exist breaks the page, so that a test finds it.
func (w words) T(key string) (string, error) {
	s, ok := w.texts[key]
	if !ok {
		return "", fmt.Errorf("no text %q in %s", key, w.tag)
	}
	return s, nil
}

// Say is say for a template.
func (w words) Say(key string, pairs ...string) (string, error) {
	if _, err := w.T(key); err != nil {
		return "", err
	}
	return w.say(key, pairs...), nil
}

// say fills a text: pairs are a name, which stands in the text as "{name}", and its value.
func (w words) say(key string, pairs ...string) string {
	s := w.texts[key]
	for i := 0; i+1 < len(pairs); i += 2 {
		s = strings.ReplaceAll(s, "{"+pairs[i]+"}", pairs[i+1])
	}
	return s
}

// plural is say for a text about {n} things.
func (w words) plural(key string, n int) string {
	return w.say(w.pluralKey(key, n), "n", strconv.Itoa(n))
}

func (w words) pluralKey(key string, n int) string {
	if n == 1 {
		return key + ".one"
	}
	return key + ".other"
}

// or is the text of key+"."+name, or name itself where there is none: rows may hold words of a later version.
func (w words) or(key, name string) string {
	if s, ok := w.texts[key+"."+name]; ok {
		return s
	}
	return name
}

// wait writes a wait in whole seconds, rounded up: "42 s", "13 min 5 s", "3 h 20 min", "2 d 4 h".
func (w words) wait(d time.Duration) string {
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

func (w words) units(n int, unit string, rest int, smaller string) string {
	out := strconv.Itoa(n) + " " + w.texts["unit."+unit]
	if rest > 0 {
		out += " " + strconv.Itoa(rest) + " " + w.texts["unit."+smaller]
	}
	return out
}

// took writes a measured time: "0.4 ms", "184 ms", "2.1 s", "1 min 3 s".
func (w words) took(d time.Duration) string {
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
	return w.wait(d)
}
