package ui

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/recipient"
)

func TestBothLanguagesHaveEveryText(t *testing.T) {
	for _, texts := range []*texts{&english, &chinese} {
		v := reflect.ValueOf(*texts)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).IsZero() && !(name == "Separator" && texts.Lang == "zh-Hans") {
				t.Errorf("%s: %s is missing", texts.Lang, name)
			}
		}
	}
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// samples gives every string of a catalogue, plurals for several numbers.
func samples(c *texts) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i).Interface().(type) {
		case string:
			out[name] = f
		case plurals:
			out[name+" 1"], out[name+" 2"] = f.of(1), f.of(2)
		case map[string]string:
			for reason, text := range f {
				out[name+" "+reason] = text
			}
		}
	}
	return out
}

func TestLanguagesAgreeOnWhatIsFilledIn(t *testing.T) {
	en, zh := samples(&english), samples(&chinese)
	for name, text := range en {
		want, got := placeholder.FindAllString(text, -1), placeholder.FindAllString(zh[name], -1)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%s: English fills in %v, Chinese %v", name, want, got)
		}
	}
}

func TestNoTextIsLeftInTheOtherLanguage(t *testing.T) {
	han := regexp.MustCompile(`\p{Han}`)
	for name, text := range samples(&english) {
		if han.MatchString(text) {
			t.Errorf("English %s has Chinese in it: %s", name, text)
		}
	}
	free := regexp.MustCompile(`^(Lang|Dir|Separator|Stop)$|^BadAddress `)
	for name, text := range samples(&chinese) {
		if !free.MatchString(name) && !han.MatchString(text) {
			t.Errorf("Chinese %s has no Chinese in it: %s", name, text)
		}
		if name == "Lang" || name == "Dir" {
			continue
		}
		if strings.ContainsAny(placeholder.ReplaceAllString(text, ""), ",;?!") {
			t.Errorf("Chinese %s has English punctuation: %s", name, text)
		}
	}
}

// The reasons of a phone number, and those that mean no more than "not an address", have no words of their own.
func TestEveryReasonOfABadAddressHasWords(t *testing.T) {
	plain := []string{"encoding", "invalid_character", "unknown_channel", "no_country_code", "invalid_number", "number_not_allowed"}
	for _, reason := range recipient.Reasons() {
		for _, c := range []*texts{&english, &chinese} {
			if c.BadAddress[reason] == "" && !slices.Contains(plain, reason) {
				t.Errorf("%s has no words for %q", c.Lang, reason)
			}
		}
	}
	known := append(recipient.Reasons(), "disposable") // the last one is of package verification
	for reason := range english.BadAddress {
		if !slices.Contains(known, reason) {
			t.Errorf("there are words for %q, which nobody says", reason)
		}
	}
}

func TestEnglishCounts(t *testing.T) {
	for got, want := range map[string]string{
		english.WrongCode.of(1):                "That is not the code. 1 try left.",
		english.WrongCode.of(4):                "That is not the code. 4 tries left.",
		english.SentSince.of(1):                "1 code was sent to {to} at {c}.",
		english.SentSince.of(5):                "5 codes were sent to {to} since {c}.",
		fill("{n} of {n}", "n", "3"):           "3 of 3",
		string(emphasise("<{to}>", "to", "&")): `&lt;<strong dir="auto">&amp;</strong>&gt;`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
