package texts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"sendcode/internal/kit/servertest"
)

func TestLanguagesAgree(t *testing.T) {
	first := PageLanguages()[0]
	first.sections = maps.Clone(first.sections)
	first.sections[ProblemsSection] = PageLanguages()[1].sections[ProblemsSection] // the English problems are in package server
	for _, w := range PageLanguages() {
		if err := whole(w); err != nil {
			t.Error(err)
		}
		if err := agree(first, w); err != nil {
			t.Error(err)
		}
	}
}

// whole returns an error unless the file of a language has the sections that it needs. Only the
// console's section may be missing, and English has no section for the problems of the API.
func whole(w Words) error {
	wanted := []string{PageSection, PhoneSection, repliesSection}
	if w.sections[consoleSection] != nil {
		wanted = []string{consoleSection, PageSection, PhoneSection, repliesSection}
	}
	if w.tag != language.English {
		wanted = slices.Sorted(slices.Values(append(wanted, ProblemsSection)))
	}
	if names := slices.Sorted(maps.Keys(w.sections)); !slices.Equal(names, wanted) {
		return fmt.Errorf("texts in %s: sections %v, want %v", w.tag, names, wanted)
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{\w*\}`)

// agree returns an error unless b has the texts of a, in all plural forms of b's language, with the
// same placeholders.
func agree(a, b Words) error {
	for section, texts := range b.sections {
		first, wanted := a.sections[section], map[string]string{} // wanted has, by key, the text whose placeholders b must have
		for key, text := range first {
			name, ok := strings.CutSuffix(key, ".one")
			if !ok {
				name, ok = strings.CutSuffix(key, ".other")
			}
			if many := first[name+".other"]; ok && many != "" && first[name+".one"] != "" {
				for _, form := range forms(section, b.tag) {
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

// forms returns the plural forms that a section needs in a language. The console distinguishes only
// one and other in all languages.
func forms(section string, tag language.Tag) []string {
	if section == consoleSection {
		return []string{"one", "other"}
	}
	names := [...]string{
		plural.Other: "other", plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many",
	}
	var all []string
	for n := range 200 { // counts on pages are smaller
		if form := names[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)]; !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	return all
}

// placeholders returns the placeholders of a text, sorted. A text about none, one or two things
// need not contain the count.
func placeholders(key, text string) []string {
	if strings.HasSuffix(key, ".zero") || strings.HasSuffix(key, ".one") || strings.HasSuffix(key, ".two") {
		text = strings.ReplaceAll(text, "{n}", "")
	}
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

func TestLanguageOfReaders(t *testing.T) {
	for header, want := range map[string]string{
		"": "en", "zh-CN,en;q=0.5": "zh-Hans", "sux, en;q=0.5": "en", "sux": "en", ";;": "en",
		"zh-TW": "zh-Hans", "es-MX": "en", "ar;q=0.5, en;q=0.1": "en", "*": "en", "zh-TW, en;q=0.5": "zh-Hans",
		"zh" + strings.Repeat(",ak", 165): "zh-Hans", "es" + strings.Repeat(",ak", 5000): "en",
	} {
		if got := ConsoleTextsFor(header).Lang(); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestWait(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", time.Nanosecond: "1 s", 41713 * time.Millisecond: "42 s", 59*time.Second + 1: "1 min",
		time.Minute:       "1 min",
		785 * time.Second: "13 min 5 s", time.Hour - time.Second: "59 min 59 s", time.Hour: "1 h",
		3*time.Hour + 20*time.Minute:     "3 h 20 min",
		3*time.Hour + 19*time.Minute + 1: "3 h 20 min", 24 * time.Hour: "1 d", 52 * time.Hour: "2 d 4 h",
	} {
		if got := ConsoleTextsFor("").Wait(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := ConsoleTextsFor("zh").Wait(785 * time.Second); got != "13 分 5 秒" {
		t.Errorf("in Chinese: %q", got)
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "–", 400 * time.Microsecond: "0.4 ms", 184 * time.Millisecond: "184 ms", 2100 * time.Millisecond: "2.1 s",
		61 * time.Second: "1 min 1 s",
	} {
		if got := ConsoleTextsFor("").Elapsed(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// A near day is shown as its weekday, today as hours and minutes, and any other day as its date.
// Outside pages, the text of a sentence has the whole time.
func TestDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	servertest.OK(t, err)
	now := time.Date(2026, 11, 30, 22, 30, 0, 0, time.UTC) // this is a Monday in Berlin, 23:30
	for at, want := range map[string][3]string{
		"2026-11-30T22:59:59Z": {"23:59", "23:59", "30 Nov"}, "2026-11-30T23:00:00Z": {"Tuesday", "星期二", "1 Dec"},
		"2026-11-29T22:59:00Z": {"Sunday", "星期日", "29 Nov"}, "2026-11-24T12:00:00Z": {"Tuesday", "星期二", "24 Nov"},
		"2026-11-23T12:00:00Z": {"23 Nov", "11月23日", "23 Nov"}, "2026-12-07T12:00:00Z": {"7 Dec", "12月7日", "7 Dec"},
		"2027-01-03T12:00:00Z": {"3 Jan 2027", "2027年1月3日", "3 Jan 2027"},
	} {
		when, err := time.Parse(time.RFC3339, at)
		servertest.OK(t, err)
		for i, language := range []string{"en", "zh-Hans"} {
			w := ConsoleTextsFor(language).WithZone(berlin)
			servertest.Same(t, at+" in "+language, w.NearDay(when, now).Text, want[i])
			if i == 0 {
				servertest.Same(t, at+" as a day", w.Day(when, now).Text, want[2])
			}
			s := w.Sentence("next.failed.suppressed.holds", AtDay("suntil", when, now))
			servertest.Same(t, "the page's", s[1].Day.Text, want[i])
			if whole := s.String(); !strings.Contains(whole, when.Format(time.DateTime)+" UTC") {
				t.Errorf("%s: %s", at, whole)
			}
		}
	}
}
