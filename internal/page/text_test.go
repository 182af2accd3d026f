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
	"sendcode/internal/texts"
	"sendcode/web"
)

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

// The languages as the tests name them.
var (
	english, englishOnPhones = spoken("en")
	chinese, chineseOnPhones = spoken("zh-Hans")
)

func spoken(lang string) (mails, onPhones *cardTexts) {
	for i, w := range texts.Pages() {
		if w.Lang() == lang {
			onPhones = &cardTexts{}
			decode(w.Forms(texts.Phone), onPhones)
			return catalogues()[i], onPhones
		}
	}
	panic("no texts in " + lang)
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// samples gives every string of a catalogue, plurals for several numbers.
func samples(c *cardTexts) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f := v.Field(i).Interface().(type) {
		case string:
			out[name] = f
		case plurals:
			out[name+" 1"], out[name+" 2"] = c.count(f, 1), c.count(f, 2)
		case map[string]string:
			for reason, text := range f {
				out[name+" "+reason] = text
			}
		}
	}
	return out
}

func TestLanguagesAgreeOnWhatIsFilledIn(t *testing.T) {
	en, zh := samples(english), samples(chinese)
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
	for name, text := range samples(english) {
		if han.MatchString(text) {
			t.Errorf("English %s has Chinese in it: %s", name, text)
		}
	}
	free := regexp.MustCompile(`^(Lang|Dir|Separator|Stop)$|^BadAddress `)
	for name, text := range samples(chinese) {
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
	plain := []string{"encoding", "invalid_character", "unknown_channel", "no_country_code", "invalid_number", "too_short", "number_not_allowed"}
	for _, reason := range recipient.Reasons() {
		for _, c := range []*cardTexts{english, chinese} {
			if c.BadAddress[reason] == "" && !slices.Contains(plain, reason) {
				t.Errorf("%s has no words for %q", c.Lang, reason)
			}
		}
	}
	known := append(recipient.Reasons(), "disposable") // the last one is of package verification
	for reason := range english.BadAddress {
		if !slices.Contains(known, reason) {
			t.Errorf("there are words for %q, which is never said", reason)
		}
	}
}

// What speaks of mails, in some words or in others, has its like where codes go to phones; and that speaks of none.
func TestPhonesHaveTheirOwnWordsForAllThatSpeaksOfMails(t *testing.T) {
	ofMails := []string{ // what a page shows only of mails, or to lead there
		"DidYouMean", "MeantAsIs", "UseInstead", "LookInSpam", "LookInSpamFor", "ByMail", "InsteadMail", "MailInstead", "EnterMailCode",
	}
	for _, c := range []struct {
		all, phones *cardTexts
		mail        *regexp.Regexp
	}{
		{english, englishOnPhones, regexp.MustCompile(`(?i)mail|inbox|spam|address|@`)},
		{chinese, chineseOnPhones, regexp.MustCompile(`邮|信箱|来信|地址|[上新一]封|@`)},
	} {
		onPhones := samples(c.phones)
		for name, text := range samples(c.all) {
			field, _, _ := strings.Cut(name, " ")
			if c.mail.MatchString(text) && field != "BadAddress" && !slices.Contains(ofMails, field) && onPhones[name] == "" {
				t.Errorf("%s: %s speaks of mails on phones too: %s", c.all.Lang, name, text)
			}
		}
		for name, text := range samples(c.all.forChannel(recipient.SMS)) {
			if field, _, _ := strings.Cut(name, " "); c.mail.MatchString(text) && !slices.Contains(ofMails, field) {
				t.Errorf("%s: %s speaks of mails: %s", c.all.Lang, name, text)
			}
			if onPhones[name] != "" && text != onPhones[name] {
				t.Errorf("%s: %s is not what phones say: %s", c.all.Lang, name, text)
			}
		}
	}
}

func TestPhonesFillInTheSame(t *testing.T) {
	for _, c := range []*cardTexts{english, chinese} {
		all := samples(c)
		for name, text := range samples(c.forChannel(recipient.SMS)) {
			if strings.HasPrefix(name, "BadAddress ") || strings.HasPrefix(name, "LookInSpam") {
				continue
			}
			if want, got := placeholder.FindAllString(all[name], -1), placeholder.FindAllString(text, -1); !slices.Equal(want, got) {
				t.Errorf("%s: %s fills in %v, and %v on phones", c.Lang, name, want, got)
			}
		}
	}
}

func TestEveryReasonOfABadNumberHasWords(t *testing.T) {
	ofMails := []string{
		"encoding", "unknown_channel", "comment", "display_name", "domain_incomplete", "full_width_character", "invalid_domain", "ip_literal",
		"local_part_too_long", "misplaced_dot", "no_at_sign", "no_domain", "no_local_part", "quoted_local_part", "several_addresses", "space",
	}
	ofCodes := []string{"country_not_served", "voip"} // of package verification
	for _, c := range []*cardTexts{englishOnPhones, chineseOnPhones} {
		for _, reason := range append(recipient.Reasons(), ofCodes...) {
			if c.BadAddress[reason] == "" && !slices.Contains(ofMails, reason) {
				t.Errorf("there are no words for %q", reason)
			}
		}
		for reason := range c.BadAddress {
			if !slices.Contains(append(recipient.Reasons(), ofCodes...), reason) || slices.Contains(ofMails, reason) {
				t.Errorf("there are words for %q, which is never said", reason)
			}
		}
	}
}

func TestEnglishCounts(t *testing.T) {
	for got, want := range map[string]string{
		english.count(english.WrongCode, 1):    "That code is wrong. 1 try left.",
		english.count(english.WrongCode, 4):    "That code is wrong. 4 tries left.",
		english.count(english.SentSince, 1):    "1 code was sent to {to} at {c}.",
		english.count(english.SentSince, 5):    "5 codes were sent to {to} since {c}.",
		fill("{n} of {n}", "n", "3"):           "3 of 3",
		string(emphasise("<{to}>", "to", "&")): `&lt;<strong dir="auto">&amp;</strong>&gt;`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What the scripts of the widget say is in the catalogue: a name that is not would be shown as "undefined".
func TestTheWidgetsWordsExist(t *testing.T) {
	catalogue := reflect.TypeFor[cardTexts]()
	named := regexp.MustCompile(`\b(?:w|words|words\.sms|this\.#w)\??\.([A-Z]\w*)`)
	seen := 0
	err := fs.WalkDir(web.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" || strings.HasPrefix(name, "admin/") {
			return err
		}
		text, err := fs.ReadFile(web.FS, name)
		if err != nil {
			return err
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, ok := catalogue.FieldByName(found[1]); !ok {
				t.Errorf("%s says %s, which no language has", name, found[1])
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("%d words, %v", seen, err)
	}
}
