package message

import (
	"strings"
	"testing"

	"sendcode/templates"
)

func TestCanonicalTags(t *testing.T) {
	for text, want := range map[string]string{
		"en": "en", "zh-CN": "zh-CN", "ZH-cn": "zh-CN", "zh-hans-cn": "zh-Hans-CN", "en_US": "en-US", "de-1996": "de-1996",
		"en-x-internal": "en-x-internal", "en-garbage": "en", "sr-Latn": "sr-Latn",
		"": "", "zh-CN,en;q=0.8": "", "en-": "", "x": "", "not a tag": "", "a\x00b": "", "…": "", "*": "", "toolongasatag": "",
		"en-x-" + strings.Repeat("a", 8) + "-" + strings.Repeat("b", 8) + "-" + strings.Repeat("c", 8): "en-x-aaaaaaaa-bbbbbbbb-cccccccc",
		"en-x-aaaaaaaa-bbbbbbbb-cccccccc-ddd": "en-x-aaaaaaaa-bbbbbbbb-cccccccc-ddd", "en-x-aaaaaaaa-bbbbbbbb-cccccccc-dddd": "",
	} {
		if got, ok := Canonical(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, ok, want)
		}
	}
}

func TestPreferredTagChoosesAsTheListDoes(t *testing.T) {
	r, err := New(templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"fr-CA, zh-CN;q=0.8, en;q=0.5": "zh-CN", "zh-TW": "zh-TW", "en-GB,zh;q=0.9": "en-GB", "fr, de": "fr", "*": "", "": "", "zh": "zh",
		"xx-yy; nonsense, zh": "", "de-CH-1996-x-aaaaaaaa-bbbbbbbb-cccccccc": "de-CH", strings.Repeat("en,", 100): "",
	} {
		got := r.Prefer("", list)
		if list != "*" && got != want {
			t.Errorf("of %q %q is preferred; want %q", list, got, want)
		}
		if r.match(got) != r.match(list) || len(got) > maxTag {
			t.Errorf("%q is written in %s and %q in %s", list, r.match(list), got, r.match(got))
		}
	}
}
