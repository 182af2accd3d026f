package message

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/runes"
	"golang.org/x/text/unicode/norm"
)

// maxNameRunes is the length limit of a caller's text in characters.
const maxNameRunes = 64

const (
	minCodeLength = 4
	maxCodeLength = 16
)

// CheckName returns an error if the name of an app or the title of a purpose could carry a
// stranger's message in our mails. Such a text has more than 64 characters, a control or invisible
// character, a URL, or a name that mail programs turn into a link, such as "booking.com". The error
// does not repeat the text.
func CheckName(s string) error { return CheckText(s, maxNameRunes) }

// CheckText is CheckName for a text of another length, in characters.
func CheckText(s string, longest int) error {
	hidden := HiddenCharacter(s)
	switch {
	case !utf8.ValidString(s):
		return errors.New("not valid UTF-8")
	case utf8.RuneCountInString(s) > longest:
		return fmt.Errorf("longer than %d characters", longest)
	case hidden != "":
		return errors.New(hidden + ", a control or invisible character")
	case s != "" && !strings.ContainsFunc(s, visible):
		return errors.New("without a letter, number, symbol or punctuation mark")
	case containsLink(s):
		return errors.New("a URL, or a name that mail programs turn into a link")
	}
	return nil
}

// visible reports whether a person sees something where the character stands alone. U+2800, a blank
// pattern of Braille, is a symbol of Unicode.
func visible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.S, unicode.P) && r != '\u2800'
}

// checkCodeAndNotifyMode returns an error if the Notify or the code of a request is invalid.
func checkCodeAndNotifyMode(req RenderRequest) error {
	if req.Notify != "" && req.Notify != NotifyPrivate && req.Notify != NotifyGlance {
		return errors.New(`message: notify must be "private" or "glance"`)
	}
	if code := req.Data.Code; len(code) < minCodeLength || len(code) > maxCodeLength ||
		strings.ContainsFunc(code, notLetterOrDigit) {
		return fmt.Errorf("message: code: not %d to %d ASCII letters and digits", minCodeLength, maxCodeLength)
	}
	return nil
}

func checkRenderRequest(req RenderRequest) error {
	d := req.Data
	for _, field := range []struct{ name, text string }{
		{"app", d.App},
		{"purpose", d.Purpose},
		{"support", d.Support},
	} {
		if err := CheckName(field.text); err != nil {
			return fmt.Errorf("message: %s: %w", field.name, err)
		}
	}
	switch {
	case strings.TrimSpace(d.App) == "":
		return errors.New("message: app: empty")
	case d.Minutes < 0:
		return errors.New("message: minutes: less than 0")
	}
	return checkCodeAndNotifyMode(req)
}

func notLetterOrDigit(r rune) bool {
	return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
}

// isInvisible reports whether r is a control or format character, a line break or a filler. Such a
// character could break a subject, hide a link or reverse the text.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// HiddenCharacter returns the first character of a title that controls or hides text, with its
// position, such as "U+202E (character 2)". It returns "" if there is no such character. A joiner
// of width zero is allowed between letters of a script that needs joiners, after a virama (RFC
// 5892, appendix A), or in a sequence of emoji (UTS 51). Unicode spaces (category Zs) are allowed.
func HiddenCharacter(s string) string {
	padded := []rune("\x00" + s + "\x00")
	for i := 1; i < len(padded)-1; i++ {
		if isInvisible(padded[i]) && !isJoined(padded[i-1], padded[i], padded[i+1]) {
			return fmt.Sprintf("%U (character %d)", padded[i], i)
		}
	}
	return ""
}

// joiningScripts are those with letters that change their form next to a joiner.
var joiningScripts = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Devanagari,
	unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
	unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
}

// isJoined reports whether r is a joiner that is allowed between these characters.
func isJoined(before, r, after rune) bool {
	const nonJoiner, joiner, emojiPresentation, virama = '\u200c', '\u200d', '\ufe0f', 9
	letter := func(r rune) bool { return unicode.In(r, joiningScripts...) && unicode.In(r, unicode.L, unicode.M) }
	emoji := unicode.Is(unicode.So, before) || '\U0001f3fb' <= before && before <= '\U0001f3ff' || before == emojiPresentation
	return (r == joiner || r == nonJoiner) && letter(before) &&
		(letter(after) || norm.NFC.PropertiesString(string(before)).CCC() == virama) ||
		r == joiner && emoji && unicode.Is(unicode.So, after)
}

var dottedNamePattern = regexp.MustCompile(`[\pL\pN][\pL\pN\pM-]*(?:\.[\pL\pN\pM-]+)+`)

var withoutVariationSelectors = runes.Remove(runes.In(unicode.Variation_Selector))

// containsLink reports whether a mail program might find a link in the text, also with full-width
// letters, ideographic dots or variation selectors.
func containsLink(s string) bool {
	plain := withoutVariationSelectors.String(norm.NFKC.String(s))
	plain = strings.ToLower(strings.ReplaceAll(plain, "。", "."))
	if strings.Contains(plain, "://") || strings.Contains(plain, "www.") || strings.Contains(plain, "mailto:") {
		return true
	}
	return slices.ContainsFunc(dottedNamePattern.FindAllString(plain, -1), isDomain)
}

// isDomain reports whether a name is an IPv4 address, or ends with a suffix of the public suffix
// list: "shop.com" and "shop.github.io" do, "Node.js" does not.
func isDomain(name string) bool {
	ascii, err := idna.Punycode.ToASCII(strings.Trim(name, "-"))
	if err != nil {
		ascii = name
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	suffix, managed := publicsuffix.PublicSuffix(ascii)
	return managed || strings.Contains(suffix, ".") // an entry of the private section has a dot
}
