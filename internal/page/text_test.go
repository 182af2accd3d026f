package page

import (
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/recipient"
	"sendcode/web"
)

// The languages as the tests name them.
var english, chinese = spoken("en"), spoken("zh-Hans")

func spoken(lang string) *cardTexts {
	return catalogues()[slices.IndexFunc(catalogues(), func(t *cardTexts) bool { return t.Lang == lang })]
}

func TestEveryLanguageHasEveryText(t *testing.T) {
	for _, c := range catalogues() {
		v := reflect.ValueOf(*c)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).IsZero() && !(name == "Separator" && c.Lang == "zh-Hans") {
				t.Errorf("%s: %s is missing", c.Lang, name)
			}
		}
	}
}

// Every reason for which an address or a number is refused has words, but for those that mean no more than "not an address". There are
// words for no other reason.
func TestEveryReasonOfABadRecipientHasWords(t *testing.T) {
	ofMails := []string{
		"encoding", "unknown_channel", "comment", "display_name", "domain_incomplete", "full_width_character", "invalid_domain", "ip_literal",
		"local_part_too_long", "misplaced_dot", "no_at_sign", "no_domain", "no_local_part", "quoted_local_part", "several_addresses", "space",
	}
	ofNone := []string{
		"encoding", "invalid_character", "unknown_channel", "no_country_code", "invalid_number", "too_short", "number_not_allowed",
	}
	numbers := slices.DeleteFunc(recipient.Reasons(), func(reason string) bool { return slices.Contains(ofMails, reason) })
	for _, c := range catalogues() {
		for name, of := range map[string]struct {
			words      map[string]string
			said, none []string // reasons; those of them that need no words
		}{
			"mails":  {c.BadAddress, append(recipient.Reasons(), "disposable"), ofNone}, // the last one is of package verification
			"phones": {c.phones.BadAddress, append(numbers, "country_not_served", "voip"), nil},
		} {
			for _, reason := range of.said {
				if of.words[reason] == "" && !slices.Contains(of.none, reason) {
					t.Errorf("%s, %s: no words for %q", c.Lang, name, reason)
				}
			}
			for reason := range of.words {
				if !slices.Contains(of.said, reason) {
					t.Errorf("%s, %s: words for %q, which is no reason", c.Lang, name, reason)
				}
			}
		}
	}
}

func TestEnglishCounts(t *testing.T) {
	for got, want := range map[string]string{
		english.count(english.WrongCode, 1):    "That code is wrong. 1 try left.",
		english.count(english.WrongCode, 4):    "That code is wrong. 4 tries left.",
		fill("{n} of {n}", "n", "3"):           "3 of 3",
		string(emphasise("<{to}>", "to", "&")): `&lt;<strong dir="auto">&amp;</strong>&gt;`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Every text that a script of the widget names is in the catalogue; it would show another one as "undefined".
func TestTheWidgetsWordsExist(t *testing.T) {
	catalogue := reflect.TypeFor[cardTexts]()
	named := regexp.MustCompile(`\b(?:w|words|words\.sms|this\.#w)\??\.([A-Z]\w*)`)
	seen := 0
	err := fs.WalkDir(web.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" || strings.HasPrefix(name, "admin/") {
			return err
		}
		text, err := fs.ReadFile(web.FS, name)
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, ok := catalogue.FieldByName(found[1]); !ok {
				t.Errorf("%s names %s, which no language has", name, found[1])
			}
		}
		return err
	})
	if err != nil || seen < 50 {
		t.Errorf("%d words, %v", seen, err)
	}
}
