package page

import (
	"encoding/json"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/code"
)

// words are the page's texts in one language and for one channel, by their keys in package texts.
// {t}, {c} and {d} in them stand for a time left (0:42), a time of the day (14:32) and a duration
// (28 min); static/time.js fills them in too. A text with {c} has a variant, whose key ends in
// Else, for readers without scripts, whose time zone the server does not know.
type words map[string]string

// wordsByLanguage has the words by language and channel.
var wordsByLanguage = sync.OnceValue(func() map[string]map[recipient.Channel]words {
	all := map[string]map[recipient.Channel]words{}
	for _, w := range texts.PageLanguages() {
		mails, phones := words(w.Section(texts.PageSection)), words(w.Section(texts.PhoneSection))
		for key, text := range mails {
			if _, own := phones[key]; !own && !strings.HasPrefix(key, "BadAddress.") { // an address and a number are invalid for different reasons
				phones[key] = text
			}
		}
		all[w.Lang()] = map[recipient.Channel]words{recipient.Email: mails, recipient.SMS: phones}
	}
	return all
})

// forChannel returns the words of the same language for a channel.
func (t words) forChannel(ch recipient.Channel) words { return wordsByLanguage()[t["Lang"]][ch] }

// scriptTextKeys are the keys of the texts that the page's script shows.
var scriptTextKeys = []string{
	"HoursMinutes", "Hours", "Minutes", "Seconds", "Offline", "Online",
	"OneMoment", "Trouble", "HumanWork", "HumanProgress",
}

// ScriptTexts returns the texts for the script as JSON.
func (k *card) ScriptTexts() (string, error) {
	own := map[string]string{}
	for _, key := range scriptTextKeys {
		own[key] = k.T[key]
	}
	text, err := json.Marshal(own)
	return string(text), err
}

// fill returns a text with names replaced by values: t.fill("CodeHint", "n", "6").
func (t words) fill(key string, pairs ...string) string { return fill(t[key], pairs...) }

// plural returns the plural form of a text for n things.
func (t words) plural(key string, n int) string {
	return t.fill(key+"."+texts.PluralForm(language.Make(t["Lang"]), n), "n", strconv.Itoa(n))
}

// hyphensAndNext matches, in HTML, hyphens and the character after them. A line may break between
// the two.
var hyphensAndNext = regexp.MustCompile(`-+(?:&[#\w]+;|.)?`)

// fillHTML returns a text as HTML with names replaced by values. It escapes everything, sets values
// in bold, and prevents line breaks at their hyphens: a value may be an address.
func (t words) fillHTML(key string, pairs ...string) template.HTML {
	for i := 1; i < len(pairs); i += 2 {
		value := hyphensAndNext.ReplaceAllString(string(escapeHTML(pairs[i])), `<span class="joined">$0</span>`)
		pairs[i] = `<strong dir="auto">` + value + "</strong>"
	}
	return template.HTML(fill(string(escapeHTML(t[key])), pairs...))
}

// purposeTitleSuffix returns the end of a sentence about a code, with the purpose's title; ""
// without a title.
func (t words) purposeTitleSuffix(title string) string {
	if title == "" {
		return ""
	}
	return t.fill("AndTitle", "title", title)
}

// escapeHTML returns a text as HTML.
func escapeHTML(text string) template.HTML { return template.HTML(template.HTMLEscapeString(text)) }

// codeShapeText returns a text about codes, with their length as {n}. For codes of letters it takes
// another text, whose key ends in Characters: instead of Digits, or appended.
func (t words) codeShapeText(shape code.Shape, key string) string {
	if shape.Alphabet == code.Unambiguous {
		key = strings.TrimSuffix(key, "Digits") + "Characters"
	}
	return t.fill(key, "n", strconv.Itoa(shape.Length))
}

// fill replaces names in a pattern by values: fill("{n} left", "n", "3").
func fill(pattern string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(pattern)
}
