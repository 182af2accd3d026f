package texts

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"
)

func TestEveryLanguageHasEveryText(t *testing.T) {
	for _, w := range All() {
		for section, texts := range w.sections {
			for key, text := range texts {
				if text == "" && key != "sentence.space" && key != "Separator" {
					t.Errorf("%s: %s %s is empty", w.Lang(), section, key)
				}
			}
		}
	}
}

func TestFilesThatDisagreeAreRefused(t *testing.T) {
	file := func(page, console string) Words {
		w, err := read(language.English, []byte(`{"page": {`+page+`}, "phone": {}, "console": {`+console+`}, "replies": {"r": "."}}`))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	whole := file(`"a": "{n} left"`, `"b": "text"`)
	for want, other := range map[string]Words{
		"":                            file(`"a": "noch {n}"`, `"b": "Text"`),
		"a has [{n}] in en, [] in en": file(`"a": "noch"`, `"b": "Text"`),
		"differ: [a]":                 file(``, `"b": "Text"`),
		"differ: [c]":                 file(`"a": "noch {n}"`, `"b": "Text", "c": "Text"`),
	} {
		err := agree(whole, other)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, wrong := range []string{`{`, `{"page": {}}`, `{"page": {}, "phone": {}, "console": {"r": "."}, "replies": {"r": "."}}`} {
		if _, err := read(language.English, []byte(wrong)); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

func TestLanguageOfReaders(t *testing.T) {
	for header, want := range map[string][2]string{
		"": {"en", "zh-Hans"}, "zh-CN,en;q=0.5": {"zh-Hans", "zh-Hans"}, "de, en;q=0.5": {"en", "en"}, "fr": {"en", "zh-Hans"}, ";;": {"en", "zh-Hans"},
		"zh-TW": {"zh-Hans", "zh-Hans"},
	} {
		if got := For(header).Lang(); got != want[0] {
			t.Errorf("%q: %s, want %s", header, got, want[0])
		}
		if got := ForBase(header, All()[1]).Lang(); got != want[1] {
			t.Errorf("%q by base: %s, want %s", header, got, want[1])
		}
	}
}

func TestWait(t *testing.T) {
	for d, is := range map[time.Duration]string{
		0: "0 s", time.Nanosecond: "1 s", 41713 * time.Millisecond: "42 s", 59*time.Second + 1: "1 min", time.Minute: "1 min",
		785 * time.Second: "13 min 5 s", time.Hour - time.Second: "59 min 59 s", time.Hour: "1 h", 3*time.Hour + 20*time.Minute: "3 h 20 min",
		3*time.Hour + 19*time.Minute + 1: "3 h 20 min", 24 * time.Hour: "1 d", 52 * time.Hour: "2 d 4 h",
	} {
		if got := For("").Wait(d); got != is {
			t.Errorf("%v: %q, want %q", d, got, is)
		}
	}
	if got := For("zh").Wait(785 * time.Second); got != "13 分 5 秒" {
		t.Errorf("in Chinese: %q", got)
	}
}

func TestTook(t *testing.T) {
	for d, is := range map[time.Duration]string{
		0: "–", 400 * time.Microsecond: "0.4 ms", 184 * time.Millisecond: "184 ms", 2100 * time.Millisecond: "2.1 s", 61 * time.Second: "1 min 1 s",
	} {
		if got := For("").Took(d); got != is {
			t.Errorf("%v: %q, want %q", d, got, is)
		}
	}
}
