package message

import (
	"cmp"
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

// maxNameRunes bounds the texts that CheckName accepts.
const maxNameRunes = 64

const (
	minCodeLength = 4
	maxCodeLength = 16
)

// CheckName returns an error if the name of an app or the title of a purpose could carry a
// stranger's message in our mails. Such a text has more than 64 characters, a control or invisible
// character, a URL, or a name that mail programs turn into a link, such as "booking.com". The error
// repeats no more of the text than the beginning of that URL or that name.
func CheckName(s string) error {
	if err := checkText(s, maxNameRunes); err != nil {
		return err
	}
	if word := linkIn(s); word != "" {
		return fmt.Errorf("contains %s, which mail programs turn into a link", word)
	}
	return nil
}

// CheckDetails returns an error if a text can't stand in a message as the details that a code
// confirms. The text may have at most longest characters. Unlike a name, it may have a domain's
// form, as "Co.KG" has, because messages show it with a blank (see unlinked). The error repeats
// nothing but the beginning of a URL.
func CheckDetails(s string, longest int) error {
	err := checkText(s, longest)
	if at := strings.IndexAny(s, "\n\r\u0085\u2028\u2029"); at >= 0 {
		err = fmt.Errorf("more than one line (character %d is a line break)", utf8.RuneCountInString(s[:at])+1)
	}
	switch word := linkIn(unlinked(s)); {
	case err != nil:
		return err
	case strings.TrimSpace(s) != s:
		return errors.New("a blank at the beginning or the end")
	case word != "":
		return fmt.Errorf("a URL, which begins with %s", word)
	}
	return nil
}

func checkText(s string, longest int) error {
	hidden := HiddenCharacter(s)
	switch {
	case !utf8.ValidString(s):
		return errors.New("not valid UTF-8")
	case utf8.RuneCountInString(s) > longest:
		return fmt.Errorf("longer than %d characters: it has %d", longest, utf8.RuneCountInString(s))
	case hidden != "":
		return errors.New(hidden + ", a control or invisible character")
	case s != "" && !strings.ContainsFunc(s, visible):
		return errors.New("without a letter, number, symbol or punctuation mark")
	}
	return nil
}

// visible reports whether a person sees something where the character stands alone. U+2800, the
// blank pattern of Braille, shows nothing, although Unicode counts it among the symbols.
func visible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.S, unicode.P) && r != '\u2800'
}

func checkCodeAndNotifyMode(req RenderRequest) error {
	if req.Notify != "" && req.Notify != NotifyPrivate && req.Notify != NotifyGlance {
		return errors.New(`message: notify must be "private" or "glance"`)
	}
	if code := req.Data.Code; len(code) < minCodeLength || len(code) > maxCodeLength ||
		strings.ContainsFunc(code, notLetterOrDigit) {
		return fmt.Errorf("message: the code must be %d to %d ASCII letters and digits", minCodeLength, maxCodeLength)
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
		return errors.New("message: the minutes are less than 0")
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

// joiningScripts are the scripts with letters that change their form next to a joiner.
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

// Mail programs make a link of a text that has one of these marks.
var linkMarks = []string{"://", "www.", "mailto:"}

// linkIn returns the part of a text that a mail program might show as a link: one of linkMarks, or
// a domain. It finds these also if they have full-width letters, ideographic dots or variation
// selectors. If there is none, it returns "".
func linkIn(s string) string {
	plain := withoutVariationSelectors.String(norm.NFKC.String(s))
	plain = strings.ReplaceAll(plain, "。", ".")
	lower := strings.ToLower(plain)
	for _, mark := range linkMarks {
		if strings.Contains(lower, mark) {
			return mark
		}
	}
	names := dottedNamePattern.FindAllString(plain, -1)
	if i := slices.IndexFunc(names, func(name string) bool { return isDomain(strings.ToLower(name)) }); i >= 0 {
		return names[i]
	}
	return ""
}

// unlinked returns a text in which no program finds a domain: in a word with a domain, a blank
// follows each dot, so "Muster GmbH & Co.KG" becomes "Muster GmbH & Co. KG". An invisible character
// would do the same, but it makes a text message longer, and filters treat it as a sign of
// phishing.
func unlinked(s string) string {
	const dots = ".。．｡"
	words := strings.Split(s, " ")
	for i, word := range words {
		if !strings.ContainsAny(word, dots) || linkIn(word) == "" { // each check of a code calls this several times, and linkIn is slow
			continue
		}
		var out strings.Builder
		for j, r := range word {
			out.WriteRune(r)
			if strings.ContainsRune(dots, r) && j+utf8.RuneLen(r) < len(word) {
				out.WriteByte(' ')
			}
		}
		words[i] = out.String()
	}
	return strings.Join(words, " ")
}

// WithoutTexts removes known texts from a text that may be one of our messages. It finds each of
// them as it is, and as unlinked writes it. It removes only whole words. Spaces and line breaks are
// alike, because mail programs break lines.
func WithoutTexts(text string, known ...string) string {
	rest := " " + strings.Join(strings.Fields(text), " ") + " "
	whole := rest
	slices.SortFunc(known, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, k := range known {
		for _, form := range []string{k, unlinked(k)} {
			form = strings.Join(strings.Fields(form), " ")
			for at := 0; form != ""; {
				i := strings.Index(rest[at:], form)
				if i < 0 {
					break
				}
				i += at
				before, _ := utf8.DecodeLastRuneInString(rest[:i])
				after, _ := utf8.DecodeRuneInString(rest[i+len(form):])
				if isWordRune(before) || isWordRune(after) {
					at = i + 1
					continue
				}
				rest, at = rest[:i]+" "+rest[i+len(form):], i
			}
		}
	}
	if rest == whole {
		return text
	}
	return rest
}

func isWordRune(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.M) }

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
