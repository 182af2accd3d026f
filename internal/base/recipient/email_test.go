package recipient

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestParseEmail(t *testing.T) {
	label63, local64 := strings.Repeat("d", 63), strings.Repeat("l", 64)
	longest := local64 + "@" + label63 + "." + label63 + "." + strings.Repeat("e", 58) + ".ab" // 254 octets
	for _, c := range []struct{ raw, address, masked string }{
		{"ana@example.com", "ana@example.com", "a•••@example.com"},
		{"  ana@example.com  ", "ana@example.com", "a•••@example.com"},
		// These have blanks and invisible characters at the ends, quotes, or the forms of links and
		// address books.
		{"\t\u00a0\ufeffana@example.com\u3000\r\n", "ana@example.com", "a•••@example.com"},
		{"\u202aana@example.com\u202c", "ana@example.com", "a•••@example.com"},
		{"MAILTO:ana@example.com", "ana@example.com", "a•••@example.com"},
		{`"Ana, Maria" < ana@example.com >`, "ana@example.com", "a•••@example.com"},
		{`"ana..b."@example.com`, `"ana..b."@example.com`, "a•••@example.com"}, // only quotes allow these dots
		{`"ana"@example.com`, "ana@example.com", "a•••@example.com"},
		{"<jean-luc@example.com>", "jean-luc@example.com", "j•••@example.com"},
		// These are unusual, but valid as they are.
		{"Ana.Maria@Example.COM", "Ana.Maria@example.com", "A•••@example.com"}, // case is kept in the local part
		{"-a!#$%&'*+-/=?^_`{|}~9@163.com", "-a!#$%&'*+-/=?^_`{|}~9@163.com", "-•••@163.com"},
		{longest, longest, "l•••" + longest[64:]},
		{"ana@r3---sn-a.example", "ana@r3---sn-a.example", "a•••@r3---sn-a.example"}, // has hyphens where A-labels have them
		// These have domains beyond ASCII.
		{"ana@BÜCHER.Example", "ana@xn--bcher-kva.example", "a•••@bücher.example"},
		{"ana@XN--BCHER-KVA.example", "ana@xn--bcher-kva.example", "a•••@bücher.example"},
		{"ana@straße.example", "ana@xn--strae-oqa.example", "a•••@straße.example"},
		{"ana@例子。中国", "ana@xn--fsqu00a.xn--fiqs8s", "a•••@例子.中国"},
		{"ana@ｅｘａｍｐｌｅ．ｃｏｍ", "ana@example.com", "a•••@example.com"},
		{"ana@почта.рф", "ana@xn--80a1acny.xn--p1ai", "a•••@почта.рф"},
		{"ana@сосол.example", "ana@xn--k1afakb.example", "a•••@сосол.example"}, // one letter looks like no Latin letter
		{"ana@ドメイン名.example", "ana@xn--eckwd4c7c777u.example", "a•••@ドメイン名.example"},
		{"ana@도메인.example", "ana@xn--hq1bm8jm9l.example", "a•••@도메인.example"},
		// These domains may be mistaken for others, so they are shown as A-labels. The first one
		// has a zero-width character.
		{"ana@xn--mgbaw3gfg64gp19l.example", "ana@xn--mgbaw3gfg64gp19l.example", "a•••@xn--mgbaw3gfg64gp19l.example"},
		{"ana@аррӏе.com", "ana@xn--80ak6aa92e.com", "a•••@xn--80ak6aa92e.com"},
		{"ana@gооgle.com", "ana@xn--ggle-55da.com", "a•••@xn--ggle-55da.com"},
		{"ana@דוגמה.example", "ana@xn--6dbbec0c.example", "a•••@xn--6dbbec0c.example"},
		{"ana@gmaıl.com", "ana@xn--gmal-nza.com", "a•••@xn--gmal-nza.com"},
		{"ana@παράδειγμα.example", "ana@xn--hxajbheg2az3al.example", "a•••@xn--hxajbheg2az3al.example"},
		{"ana@ノ.example", "ana@xn--ldk.example", "a•••@xn--ldk.example"},
		{"ana@col·lecció.example", "ana@xn--collecci-ioa91d.example", "a•••@xn--collecci-ioa91d.example"},
		{"ana@ア・ア.example", "ana@xn--ccka0y.example", "a•••@xn--ccka0y.example"},
		{"ana@shop商店.example", "ana@xn--shop-ou2gn70c.example", "a•••@xn--shop-ou2gn70c.example"},
		// These have local parts in other scripts. A mark is shown with its letter.
		{"小明@example.com", "小明@example.com", "小•••@example.com"},
		{"e\u0301va@example.com", "e\u0301va@example.com", "é•••@example.com"},
		{"कि@example.com", "कि@example.com", "कि•••@example.com"},
	} {
		r := mustParse(t, Email, c.raw)
		if r.Address() != c.address || r.Masked() != c.masked || r.Channel() != Email || r.Country() != "" || r.VoIP() {
			t.Errorf("got %q, %q\nwant %q, %q", r.Address(), r.Masked(), c.address, c.masked)
		}
	}
}

func TestParseEmailRefuses(t *testing.T) {
	label63, local64 := strings.Repeat("d", 63), strings.Repeat("l", 64)
	refuses(t, func(raw string) error { _, err := Parse(Email, raw); return err }, map[string][]string{
		"empty":             {"", "   "},
		"no_at_sign":        {"ana.example.com"},
		"no_local_part":     {"@example.com"},
		"no_domain":         {"ana@"},
		"several_addresses": {"ana@b@example.com", "ana@example.com,ben@example.com", "a@x.de;b@x.de", "all:ana@x.de", "ana@x.de:25"},
		"display_name":      {"ana@example.com> SIZE=1", "Ana <ana@example.com> x", "ana@x.de <b@x.de>", "<a@x.de>, <b@x.de>"},
		"comment":           {"ana(home)@example.com"},
		"quoted_local_part": {`"ana@example.com`, `ana"@example.com`, `"a"b@example.com`, `"a"b"@example.com`},
		"ip_literal":        {"ana@[192.0.2.1]", "ana@[IPv6:2001:db8::1]", "ana@192.0.2.1"},
		"space": {
			`"a b"@example.com`, "an a@example.com", "ana @example.com", "ana\u00a0@example.com",
			"a@x.de NOTIFY=NEVER",
		},
		"local_part_too_long": {local64 + "l@example.com", `"` + local64[:62] + `."@example.com`, strings.Repeat("é", 33) + "@example.com"},
		"domain_incomplete":   {"ana@localhost"},
		"encoding":            {"an\xffa@example.com"},
		"misplaced_dot": {
			".ana@example.com", "ana.@example.com", "a..b@example.com", "ana@.example.com",
			"ana@example.com..", "ana@example.com...", "ana@例子。中国。。",
			"ana@example｡．com", "ana@example..com",
		},
		"too_long": {local64 + "@" + label63 + "." + label63 + "." + strings.Repeat("e", 59) + ".ab", // 255 octets
			"ana@" + strings.Repeat("dddddddddd.", 34) + "example", strings.Repeat("a", 1100) + "@example.com"},
		"invalid_domain": {
			"ana@example.123", "ana@" + label63 + "d.com", "ana@ex_ample.com", "ana@-example.com", "ana@example-.com",
			"ana@xn--a.com", "ana@xn--example-.com", "ana@💩.la", "ana@xn--ls8h.la", "ana@example.com/x", "ana@אa1.example",
		},
		"invalid_character":    {`a\b@example.com`, "😀@example.com", "•••@example.com", "\u0301a@example.com", "o’neil@example.com"},
		"full_width_character": {"ana＠example.com", "ａna@example.com", "ｱ@example.com"},
		"control_character": {
			"ana@example.com\nBcc: b@example.com", "ana\r@example.com", "ana\x00@example.com", "ana\x7f@example.com",
			"ana\u0085@example.com", "ana@example\u2028.com",
		},
		// These are a bidi override, zero-width space and joiner, soft hyphen, variation selector,
		// Hangul filler, and tag character.
		"invisible_character": {
			"ana\u202emoc@example.com", "ana\u200b@example.com", "a\u200dna@example.com", "ana@exam\u200bple.com",
			"ana@exam\u00adple.com", "ana\ufe0f@example.com", "ana\u3164@example.com", "ana\U000e0041@example.com",
		},
	})
}

// The error names the refused character in words, so that a person can find a character that is
// invisible.
func TestParseNamesTheCharacter(t *testing.T) {
	for raw, want := range map[string]string{
		"ana\u200b@example.com": "It is U+200B.", "o’neil@example.com": "It is U+2019 '’'.",
		"an a@example.com": "It is U+0020 ' '.", "ana\x07@example.com": "It is U+0007.", "ａna@example.com": "It is U+FF41 'ａ'.",
	} {
		if _, err := Parse(Email, raw); !strings.HasSuffix(err.(*InvalidError).Detail, want) {
			t.Errorf("%q: %s", raw, err.(*InvalidError).Detail)
		}
	}
	if _, err := Parse(SMS, "+49 151 2345678x"); !strings.HasSuffix(err.(*InvalidError).Detail, "It is U+0078 'x'.") {
		t.Error(err.(*InvalidError).Detail)
	}
}

// The error about a dot in the domain has the position of the dot, and does not advise quotes,
// which help only before the @.
func TestParseNamesTheDot(t *testing.T) {
	for raw, want := range map[string]string{
		"ana@example.com..": "at its end.", "ana@.example.com": "at its beginning.",
		"ana@example..com": "twice in a row.", "ana@.例子": "at its beginning.", "ana.@example.com": `"ana."@example.com.`,
	} {
		if _, err := Parse(Email, raw); !strings.HasSuffix(err.(*InvalidError).Detail, want) ||
			strings.Contains(err.(*InvalidError).Detail, "after the @") != strings.Contains(want, " ") {
			t.Errorf("%q: %s", raw, err.(*InvalidError).Detail)
		}
	}
}

// If a person copies an address or a number from a sentence, a list, a table, code or a link, the
// characters around it are not part of it.
func TestParseCopied(t *testing.T) {
	for form, address := range map[string]string{
		"X,": "", "X;": "", "X.": "", "X:": "", "X!": "", "X?": "", "X ,": "", "X),": "", "(X)": "", "[X]": "", "[X": "", "{X}": "",
		"X>": "", "<X>,": "", "< X >.": "",
		`"X"`: "", `"X",`: "", `X"`: "", "'X'": "", "X'.": "", "“X”": "", "“X”。": "", "„X“": "", "«X»": "", "‘X’": "", "`X`": "", "*X*": "",
		"**X**": "", "_X_": "", "X|": "", "| X |": "",
		"X，": "", "X。": "", "X、": "", "X；": "", "（X）": "", "「X」": "", "【X】": "", "《X》": "", "X؛": "", "X،": "", "X؟": "", ", X": "",
		"- X": "", "* X": "", "('X')": "", `["X"]`: "", "- 'X'": "", "| `X` |": "", "(**X**)": "", "• X": "", "– X": "", "X –": "",
		"<X":       "",
		"Ana <X>,": "", "Ana <X>;": "", "“Ana” <X>": "", "mailto:X.": "@", "mailto:X?subject=code&cc=b@x.de": "@",
		"X...": "-", "X…": "-", "X, Y": "-", "X; Y": "-", "<X>, <Y>": "-", "Ana <X>; Ben <Y>": "-", "X (home)": "-", "Ana: X": "-",
		"X/": "-",
	} {
		for ch, of := range map[Channel][2]string{Email: {"ana@example.com", "ben@example.com"}, SMS: {"+4915123456789", "+493023125000"}} {
			if ch == SMS && (address != "" || strings.ContainsRune(form, '<')) {
				continue
			}
			typed := strings.NewReplacer("X", of[0], "Y", of[1]).Replace(form)
			r, err := Parse(ch, typed)
			if read := err == nil && r.Address() == of[0]; read != (address != "-") {
				t.Errorf("%q: %q, %v", typed, r.Address(), err)
			}
		}
	}
	for typed, want := range map[string]string{
		"'ana@example.com": "'ana@example.com", "_ana@example.com.": "_ana@example.com",
		"_ana@example.com~": "_ana@example.com", "*ana@example.com_": "*ana@example.com",
		"mailto:ana%2Bx@example.com": "ana+x@example.com", "mailto:50%off@example.com": "50%off@example.com",
		"mailto:ana%EF%B8%8F@example.com": "ana%EF%B8%8F@example.com", "what?@example.com": "what?@example.com",
	} {
		if got := mustParse(t, Email, typed).Address(); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

func TestAsRead(t *testing.T) {
	for text, want := range map[string]string{
		"a%2Bb%40x.de": "a+b@x.de", "%252540": "@", "50%off %ff": "50%off %ff", "&#x40; &commat; AT&T; &nosuch;": "@ @ AT&T; &nosuch;",
		`\u0040 \U002B`: "@ +", "a=40b": "a@b", "ａ＠ｘ．ｄｅ　１": "a@x.de 1", "①⁴": "14", "a\u200b\u00adb": "ab", "“a” ’b’ –": `"a" 'b' -`,
		"a [at] b": "a@b", "a at b dot c": "a@b dot c", "look at b.c": "look at b.c", "a\t\u00a0b": "a  b",
	} {
		if got := AsRead(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, ch, raw string) {
		r, err := Parse(Channel(ch), raw)
		checkParsed(t, raw, r, err)
		SuggestDomain(raw)
	})
}

// FuzzParseIn parses a number for any country. The parsed number must be valid without the country.
func FuzzParseIn(f *testing.F) {
	f.Fuzz(func(t *testing.T, country, raw string) {
		r, err := ParseInCountry(SMS, raw, country)
		checkParsed(t, raw, r, err)
	})
}

// checkParsed checks that the parsed address or number is short, one line and one recipient, and
// that its mask hides enough. Parsing the address again, or in capital letters, must not lead to
// another recipient.
func checkParsed(t *testing.T, raw string, r Recipient, err error) {
	t.Helper()
	if err != nil {
		if bad, ok := errors.AsType[*InvalidError](err); !ok || !slices.Contains(Reasons(), bad.Reason) || bad.Detail == "" {
			t.Errorf("error %#v for %q", err, raw)
		}
		return
	}
	address, masked := r.Address(), r.Masked()
	if !utf8.ValidString(address) || len(address) > 254 || strings.ContainsFunc(quotes.ReplaceAllString(address, "$1@"), forbidden) {
		t.Errorf("unsafe address %q", address)
	}
	if strings.Count(masked, maskBullets) != 1 || strings.ContainsFunc(strings.Replace(masked, " ", "", 1), forbidden) {
		t.Errorf("mask %q", masked)
	}
	if r.Channel() == SMS {
		if !regexp.MustCompile(`^\+[0-9]{1,15}$`).MatchString(address) ||
			len(address)-len(strings.NewReplacer(maskBullets, "", " ", "").Replace(masked)) < 4 {
			t.Errorf("number %q is not E.164, or its mask %q hides too little", address, masked)
		}
	} else {
		local, domain, _ := strings.Cut(address, "@")
		if local == "" || len(local) > 64 || !regexp.MustCompile(`^[a-z0-9.-]+\.[a-z0-9.-]+$`).MatchString(domain) {
			t.Errorf("address %q", address)
		}
		shown, _, _ := strings.Cut(masked, maskBullets)
		if letters := strings.FieldsFunc(shown, unicode.IsMark); len(letters) != 1 || utf8.RuneCountInString(letters[0]) != 1 {
			t.Errorf("mask %q shows more than a letter", masked)
		}
		if back, _, err := parseDomain(DomainOfMasked(masked)); err != nil || back != domain {
			t.Errorf("the domain in mask %q is not the domain of the address", masked)
		}
		upperCased := regexp.MustCompile(`[a-z]+`).ReplaceAllStringFunc(address, strings.ToUpper)
		if other, err := Parse(Email, upperCased); err != nil || other.Hash(testKey) != r.Hash(testKey) {
			t.Errorf("case frees quota: %q and %q, %v", upperCased, address, err)
		}
	}
	if again, err := Parse(r.Channel(), address); err != nil || !again.Equal(r) || again.Hash(testKey) != r.Hash(testKey) {
		t.Errorf("not idempotent: %q is %q, %v", address, again.Address(), err)
	}
}

// quotes matches a local part in quotes.
var quotes = regexp.MustCompile(`^"([^"]+)"@`)

// forbidden does not use the package's own tests of characters, so that it can't share their
// mistakes.
func forbidden(r rune) bool {
	return r <= ' ' || 0x7f <= r && r <= 0xa0 || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) ||
		strings.ContainsRune("<>()[],;:\\\"\u2028\u2029", r)
}
