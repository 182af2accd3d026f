package page

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
)

// english has the page's texts for mail in English.
var english = wordsByLanguage()["en"][recipient.Email]

// wordsByLanguage has the page's texts by language and channel.
func wordsByLanguage() map[string]map[recipient.Channel]map[string]string {
	all := map[string]map[recipient.Channel]map[string]string{}
	for _, w := range texts.PageLanguages() {
		mails, phones := w.Section(texts.PageSection), w.Section(texts.PhoneSection)
		for key, text := range mails {
			if _, own := phones[key]; !own && !strings.HasPrefix(key, "BadAddress.") {
				phones[key] = text
			}
		}
		all[w.Lang()] = map[recipient.Channel]map[string]string{recipient.Email: mails, recipient.SMS: phones}
	}
	return all
}

// Every reason for which an address or a number is refused has a text, except reasons that say no
// more than "not an address". No text is for another reason.
func TestEveryRecipientReasonHasAText(t *testing.T) {
	ofMails := strings.Fields(`encoding unknown_channel comment display_name domain_incomplete full_width_character invalid_domain
		ip_literal local_part_too_long misplaced_dot no_at_sign no_domain no_local_part quoted_local_part several_addresses space`)
	ofNone := strings.Fields(`encoding invalid_character unknown_channel no_country_code invalid_number too_short number_not_allowed`)
	numbers := slices.DeleteFunc(recipient.Reasons(), func(reason string) bool { return slices.Contains(ofMails, reason) })
	for lang, spoken := range wordsByLanguage() {
		// reasons has the channel's reasons, and wordless has those that need no text
		for channel, of := range map[recipient.Channel]struct{ reasons, wordless []string }{
			// the last one comes from package verification
			recipient.Email: {append(recipient.Reasons(), "disposable"), ofNone},
			recipient.SMS:   {append(numbers, "country_not_served", "voip"), nil},
		} {
			for _, reason := range of.reasons {
				if spoken[channel]["BadAddress."+reason] == "" && !slices.Contains(of.wordless, reason) {
					t.Errorf("%s, %s: no words for %q", lang, channel, reason)
				}
			}
			for key := range spoken[channel] {
				if reason, ok := strings.CutPrefix(key, "BadAddress."); ok && !slices.Contains(of.reasons, reason) {
					t.Errorf("%s, %s: words for %q, which is no reason", lang, channel, reason)
				}
			}
		}
	}
}

// filesLike returns the texts of the files that match a pattern, by name, without tests.
func filesLike(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, _ := filepath.Glob(pattern)
	all := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			all[name] = string(text)
		}
	}
	return all
}

// Every text that the page's code, its templates or the widget's scripts name exists. A missing
// text would be shown as nothing, or as "undefined".
func TestCatalogueHasEachNamedText(t *testing.T) {
	script := regexp.MustCompile(`\b(?:w|words|words\.sms|this\.#w)\??\.([A-Z]\w*)`)
	for pattern, c := range map[string]struct {
		names *regexp.Regexp
		least int
	}{
		"../../../web/page/*.html": {regexp.MustCompile(`\.T\.(\w+)`), 9},
		"../../../web/static/*.js": {script, 4},
		"../../../web/widget/*.js": {script, 50},
	} {
		seen := 0
		for name, text := range filesLike(t, pattern) {
			for _, found := range c.names.FindAllStringSubmatch(text, -1) {
				seen++
				is := func(end string) bool { _, ok := english[found[1]+end]; return ok }
				if !is("") && !is(".other") && !is("In") &&
					!slices.Contains([]string{"BadAddress"}, found[1]) {
					t.Errorf("%s names %s, which no language has", name, found[1])
				}
			}
		}
		if seen < c.least {
			t.Errorf("%s: only %d names", pattern, seen)
		}
	}
}

// Each sentence is only in the catalogue, so that one change changes page and widget: no two keys
// have the same sentence, and neither templates nor scripts nor the page's code contain it.
func TestCatalogueHasEachTextOnce(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"*.go", "../../../web/page/*.html", "../../../web/static/*.js", "../../../web/widget/*.js"} {
		for _, text := range filesLike(t, pattern) {
			code.WriteString(text)
		}
	}
	for lang, spoken := range wordsByLanguage() {
		keys, sentences := map[string]string{}, 0
		for key, text := range spoken[recipient.Email] {
			if !regexp.MustCompile(`[.?!。？！؟]$`).MatchString(text) || len(text) < 12 {
				continue
			}
			sentences++
			key, _, _ = strings.Cut(key, ".") // reasons may share a sentence, and plural forms may be equal
			if other := keys[text]; other != "" && other != key {
				t.Errorf("%s: %s and %s are both %q", lang, other, key, text)
			}
			if keys[text] = key; strings.Contains(code.String(), text) {
				t.Errorf("%s: %q stands in the code too", lang, text)
			}
		}
		if sentences < 50 {
			t.Errorf("%s: only %d sentences", lang, sentences)
		}
	}
}
