package texts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"
)

func TestLanguagesAgree(t *testing.T) {
	first := PageLanguages()[0]
	first.sections = maps.Clone(first.sections)
	first.sections[ProblemsSection] = PageLanguages()[1].sections[ProblemsSection] // English ones are in package server
	for _, w := range PageLanguages() {
		if err := whole(w); err != nil {
			t.Error(err)
		}
		if err := agree(first, w); err != nil {
			t.Error(err)
		}
	}
}

// whole says whether a language has all sections, or those of the page, and no text of the console
// in two of them.
func whole(w Words) error {
	wanted := []string{PageSection, PhoneSection}
	switch {
	case w.sections[consoleSection] != nil:
		wanted = []string{consoleSection, PageSection, PhoneSection, repliesSection}
	case w.sections[repliesSection] != nil:
		wanted = []string{PageSection, PhoneSection, repliesSection}
	}
	if w.tag != language.English {
		wanted = slices.Sorted(slices.Values(append(wanted, ProblemsSection)))
	}
	if names := slices.Sorted(maps.Keys(w.sections)); !slices.Equal(names, wanted) {
		return fmt.Errorf("texts in %s: sections %v, want %v", w.tag, names, wanted)
	}
	if len(w.texts) != len(w.sections[consoleSection])+len(w.sections[repliesSection]) {
		return fmt.Errorf("texts in %s: two texts for one key", w.tag)
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{\w*\}`)

// agree says whether two languages have the same texts, in all forms of the second one, and the
// same placeholders in each.
func agree(a, b Words) error {
	for section, texts := range b.sections {
		first, wanted := a.sections[section], map[string]string{} // by key, the text that it is to be like
		for key, text := range first {
			name, ok := strings.CutSuffix(key, ".one")
			if !ok {
				name, ok = strings.CutSuffix(key, ".other")
			}
			if many := first[name+".other"]; ok && many != "" && first[name+".one"] != "" {
				for _, form := range forms(section, name, b.tag) {
					wanted[name+"."+form] = many
				}
				continue
			}
			wanted[key] = text
		}
		for key := range texts {
			if _, ok := wanted[key]; !ok {
				return fmt.Errorf("texts of %s: %s has %s, and %s has not", section, b.tag, key, a.tag)
			}
		}
		for key, text := range wanted {
			if texts[key] == "" && key != "sentence.space" && key != "Separator" {
				return fmt.Errorf("texts of %s: %s is empty in %s", section, key, b.tag)
			}
			if x, y := placeholders(key, text), placeholders(key, texts[key]); !slices.Equal(x, y) {
				return fmt.Errorf("texts of %s: %s has %v in %s, %v in %s", section, key, x, a.tag, y, b.tag)
			}
		}
	}
	return nil
}

// forms are those that a section has of a text about {n} things. The console counts one and others,
// whatever its language; spans of time in replies have all forms, but are never of zero.
func forms(section, name string, tag language.Tag) []string {
	span := strings.HasPrefix(name, "span.")
	if (section == consoleSection || section == repliesSection) && !span {
		return []string{"one", "other"}
	}
	var all []string
	for n := range 200 { // no count on a page is larger
		if form := PluralForm(tag, n); !slices.Contains(all, form) && (n > 0 || !span) {
			all = append(all, form)
		}
	}
	return all
}

// placeholders are sorted. A text about none, one or two things need not count them.
func placeholders(key, text string) []string {
	if strings.HasSuffix(key, ".zero") || strings.HasSuffix(key, ".one") || strings.HasSuffix(key, ".two") {
		text = strings.ReplaceAll(text, "{n}", "")
	}
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

func TestLanguageOfReaders(t *testing.T) {
	for header, want := range map[string][2]string{
		"": {"en", "zh-Hans"}, "zh-CN,en;q=0.5": {"zh-Hans", "zh-Hans"}, "sux, en;q=0.5": {"en", "en"},
		"sux": {"en", "zh-Hans"}, ";;": {"en", "zh-Hans"},
		"zh-TW": {"zh-Hans", "zh-Hans"}, "es-MX": {"en", "es"}, "ar;q=0.5, en;q=0.1": {"en", "ar"},
		"zh" + strings.Repeat(",ak", 165):  {"zh-Hans", "zh-Hans"},
		"es" + strings.Repeat(",ak", 5000): {"en", "zh-Hans"},
		"*":                                {"en", "zh-Hans"}, "zh-TW, en;q=0.5": {"zh-Hans", "zh-Hans"},
	} {
		if got := ConsoleTextsFor(header).Lang(); got != want[0] {
			t.Errorf("%q: %s, want %s", header, got, want[0])
		}
		if got := ReplyTextsFor(header, ConsoleLanguages()[1]).Lang(); got != want[1] {
			t.Errorf("%q, a reply: %s, want %s", header, got, want[1])
		}
	}
}

func TestWait(t *testing.T) {
	for d, is := range map[time.Duration]string{
		0: "0 s", time.Nanosecond: "1 s", 41713 * time.Millisecond: "42 s", 59*time.Second + 1: "1 min",
		time.Minute:       "1 min",
		785 * time.Second: "13 min 5 s", time.Hour - time.Second: "59 min 59 s", time.Hour: "1 h",
		3*time.Hour + 20*time.Minute:     "3 h 20 min",
		3*time.Hour + 19*time.Minute + 1: "3 h 20 min", 24 * time.Hour: "1 d", 52 * time.Hour: "2 d 4 h",
	} {
		if got := ConsoleTextsFor("").Wait(d); got != is {
			t.Errorf("%v: %q, want %q", d, got, is)
		}
	}
	if got := ConsoleTextsFor("zh").Wait(785 * time.Second); got != "13 分 5 秒" {
		t.Errorf("in Chinese: %q", got)
	}
}

func TestTook(t *testing.T) {
	for d, is := range map[time.Duration]string{
		0: "–", 400 * time.Microsecond: "0.4 ms", 184 * time.Millisecond: "184 ms", 2100 * time.Millisecond: "2.1 s",
		61 * time.Second: "1 min 1 s",
	} {
		if got := ConsoleTextsFor("").Took(d); got != is {
			t.Errorf("%v: %q, want %q", d, got, is)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, is := range map[time.Duration][2]string{
		0: {"just now", "刚才"}, -59 * time.Second: {"just now", "刚才"}, time.Second: {"less than a minute", "不到 1 分钟"},
		time.Minute: {"1 minute", "1 分钟"}, -119 * time.Second: {"1 minute ago", "1 分钟前"},
		119 * time.Minute: {"119 minutes", "119 分钟"},
		2 * time.Hour:     {"2 hours", "2 小时"}, -47 * time.Hour: {"47 hours ago", "47 小时前"},
		48 * time.Hour: {"2 days", "2 天"},
	} {
		if en, zh := ConsoleTextsFor("").Span(d), ConsoleTextsFor("zh").Span(d); en != is[0] || zh != is[1] {
			t.Errorf("%v: %q, %q, want %q", d, en, zh, is)
		}
	}
	if got := ReplyTextsFor("ar", ConsoleTextsFor("")).Span(-2 * time.Hour); got != "قبل ساعتين" {
		t.Errorf("in Arabic: %q", got)
	}
}
