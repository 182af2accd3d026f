package recipient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
)

var testKey = []byte("an index key for the tests only.")

// These vectors were computed by another program, as HMAC-SHA-256 of "sendcode recipient 1\0" +
// channel + "\0" + folded address. A change here resets every quota and hides the history, so it
// must be intended.
func TestHashVectors(t *testing.T) {
	for _, c := range []struct {
		ch        Channel
		raw, want string
	}{
		{Email, "ana@example.com", "3781e988d42d816a32ec7a6e2d9770af"},
		{Email, "ÁNA@bücher.example", "ea8aee3513edac2052fa2bbe7b102015"},
		{SMS, "+49 1512 3456789", "b0edf1a5803ed91ea990138dcf09f6c5"},
	} {
		if got := mustParse(t, c.ch, c.raw).Hash(testKey).String(); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.ch, c.raw, got, c.want)
		}
	}
}

func TestHashWithoutAKey(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an empty key is accepted")
		}
	}()
	mustParse(t, Email, "ana@example.com").Hash(nil)
}

// Two spellings have the same hash of the address, or only the same hash by which sends are
// counted, or neither.
func TestFoldingOfSpellings(t *testing.T) {
	f := DefaultFolding()
	f["dots.example"], f["exact.example"] = FoldRules{Dots: true}, FoldRules{}
	const address, counted, none = 2, 1, 0
	for _, c := range []struct {
		a, b  string
		share int
	}{
		{"A@X.de", " a@x.DE ", address},
		{"\u00e9va@x.de", "E\u0301VA@x.de", address}, // the first is composed, the second decomposed
		{"a@BÜCHER.de", "a@xn--bcher-kva.de", address},
		{"\u212a@x.de", "k@x.de", address}, // the first has a Kelvin sign
		{"νίκος@x.de", "ΝΊΚΟΣ@x.de", address},
		{"STRAẞE@x.de", "straße@x.de", address},
		{"+49 1512 3456789", "+4915123456789", address},

		{"an.a+shop@gmail.com", "ana@gmail.com", counted},
		{"ana+a.b+c@gmail.com", "ana@gmail.com", counted},
		{"+54 9 11 6677-3399", "+54 11 6677-3399", counted}, // both numbers reach one handset
		{"+52 1 55 1234 5678", "+52 55 1234 5678", address},
		{"+a.na@gmail.com", "+ana@gmail.com", counted}, // with nothing before the plus, there is no tag
		{"an.a+shop@tags.example", "an.a@tags.example", counted},
		{"an.a+sh.op@dots.example", "ana+shop@dots.example", counted},

		{"ANA+a+b@Example.com", "ana@example.com", counted},
		{"A.na+x@GoogleMail.com", "ana@gmail.com", counted},
		{"an.a+x@sub.gmail.com", "an.a@sub.gmail.com", counted},
		{"a+x@bücher.de", "a@xn--bcher-kva.de", counted},

		{"an.a+x@dots.example", "ana@dots.example", none},
		{"ana+x@exact.example", "ana@exact.example", none},
		{"ana@googlemail.com.example", "ana@gmail.com", none},

		{"straße@x.de", "strasse@x.de", none},
		{"ſam@x.de", "sam@x.de", none},
		{"ıda@x.de", "ida@x.de", none},
		{"İda@x.de", "ida@x.de", none},
		{"аna@x.de", "ana@x.de", none}, // the first has a Cyrillic a
		{"a.b@x.de", "a@b.x.de", none},
		{"a.na@tags.example", "ana@tags.example", none},
		{"+a@gmail.com", "+b@gmail.com", none},
		{"ana-x@gmail.com", "ana@gmail.com", none},
		{"an.a@gmail.com.example", "ana@gmail.com.example", none},
	} {
		channel := Email
		if !strings.Contains(c.a, "@") {
			channel = SMS
		}
		a, b := mustParse(t, channel, c.a), mustParse(t, channel, c.b)
		one, other := f.Hashes(a, testKey), f.Hashes(b, testKey)
		for what, same := range map[string][2]bool{
			"address": {one.Address == other.Address, c.share >= address},
			"counted": {one.Counted == other.Counted, c.share >= counted},
		} {
			if same[0] != same[1] {
				t.Errorf("%s and %s share the hash %s: %v", c.a, c.b, what, same[0])
			}
		}
		for _, f := range []Folding{nil, {a.Domain(): {}}} {
			if h := f.Hashes(a, testKey); h.Counted != one.Address || h.Address != a.Hash(testKey) {
				t.Errorf("%v folds %s", f, c.a)
			}
		}
	}
	// The simplest spelling has the same hashes with and without folding.
	ana := mustParse(t, Email, "ana@gmail.com")
	if h := ana.Hash(testKey); f.Hashes(ana, testKey) != (Hashes{h, h}) {
		t.Error("the simplest spelling is changed")
	}
}

func TestParseHash(t *testing.T) {
	h := mustParse(t, Email, "ana@example.com").Hash(testKey)
	back, err := ParseHash(h.String())
	if err != nil || back != h {
		t.Errorf("ParseHash(%s) = %s, %v", h, back, err)
	}
	text, err := json.Marshal(map[string]Hash{"recipient": h})
	if err != nil || string(text) != `{"recipient":"`+h.String()+`"}` {
		t.Errorf("JSON %s, %v", text, err)
	}
	for _, s := range []string{"", "abc", h.String() + "00", h.String()[:30], strings.Repeat("g", 32), strings.Repeat("A", 32)} {
		if _, err := ParseHash(s); err == nil {
			t.Errorf("ParseHash(%q) has no error", s)
		}
	}
}

func mustParse(t *testing.T, ch Channel, raw string) Recipient {
	t.Helper()
	r, err := Parse(ch, raw)
	if err != nil {
		t.Fatalf("Parse(%s, %q): %v", ch, raw, err)
	}
	return r
}

// refuses checks that each input is refused with the reason under which it is listed.
func refuses(t *testing.T, parse func(raw string) error, reasons map[string][]string) {
	t.Helper()
	for reason, inputs := range reasons {
		for _, raw := range inputs {
			err := parse(raw)
			if bad, ok := errors.AsType[*InvalidError](err); !ok || bad.Reason != reason {
				t.Errorf("%q: %v, want %s", raw, err, reason)
			}
		}
	}
}

func TestParseChannel(t *testing.T) {
	for _, ch := range []Channel{Email, SMS} {
		if got, err := ParseChannel(string(ch)); got != ch || err != nil {
			t.Errorf("ParseChannel(%q) = %q, %v", ch, got, err)
		}
	}
	unknown := map[string][]string{"unknown_channel": {"", "Email", "sms ", "push", "email\n"}}
	refuses(t, func(s string) error { _, err := ParseChannel(s); return err }, unknown)
	refuses(t, func(s string) error { _, err := Parse(Channel(s), "a@example.com"); return err }, unknown)
}

func TestEqual(t *testing.T) {
	ana := mustParse(t, Email, "ana@example.com")
	if !ana.Equal(mustParse(t, Email, " ana@EXAMPLE.com ")) || ana.Equal(mustParse(t, Email, "ben@example.com")) || ana.Equal(Recipient{}) {
		t.Error("Equal does not compare channel and address")
	}
	var r Recipient
	if r.Channel() != "" || r.Address() != "" || r.Masked() != "" || r.Country() != "" || r.VoIP() || r.Landline() {
		t.Errorf("the zero value is not empty: %v", r)
	}
}

func TestRecipientPrintsMasked(t *testing.T) {
	r := mustParse(t, Email, "leaky.person@example.com")
	for verb, want := range map[string]string{
		"%v": "l•••@example.com", "%d": "l•••@example.com", "%q": `"l•••@example.com"`,
		"%18s|": "  l•••@example.com|", "%#v": "recipient.Recipient(l•••@example.com)",
	} {
		if got, pointed := fmt.Sprintf(verb, r), fmt.Sprintf(verb, &r); got != want || pointed != want {
			t.Errorf("%s gives %q, of a pointer %q, want %q", verb, got, pointed, want)
		}
	}
	if text, err := json.Marshal(map[string]any{"to": r}); err != nil || string(text) != `{"to":"l•••@example.com"}` {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// No verb, logger, template or encoder shows the hidden fields of a Recipient, however it is
// nested.
func TestRecipientNeverLeaks(t *testing.T) {
	type holder struct {
		r Recipient
		p *Recipient
		R Recipient
	}
	for ch, raw := range map[Channel]string{Email: "leaky.person@example.com", SMS: "+4915123456789"} {
		r := mustParse(t, ch, raw)
		secret := map[Channel]string{Email: "eaky", SMS: "5123456"}[ch]
		var out bytes.Buffer
		nested := []any{
			r, &r,
			holder{r, &r, r},
			&holder{r, &r, r},
			[]Recipient{r},
			map[string]Recipient{"x": r},
			[1]holder{{r, &r, r}},
			map[string]holder{"x": {r, &r, r}},
			struct{ a any }{r},
			struct{ a any }{holder{r, &r, r}},
			fmt.Errorf("to %v", r),
		}
		for _, v := range nested {
			for _, verb := range "vsqxXdobcUeEfFgGtpw" {
				for _, flags := range []string{"", "+", "#", "#+", " ", "010"} {
					fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", v)
				}
			}
			_ = json.NewEncoder(&out).Encode(v)
			slog.New(slog.NewTextHandler(&out, nil)).Info("x", "to", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "to", v)
			_ = template.Must(template.New("").Parse("{{.}} {{printf `%#v` .}}")).Execute(&out, v)
		}
		if at := strings.Index(out.String(), secret); at >= 0 {
			t.Errorf("%s: leaked in %q", ch, out.String()[max(0, at-60):at+10])
		}
		if strings.Contains(strings.ToLower(out.String()), fmt.Sprintf("%x", secret)) {
			t.Errorf("%s: leaked in hexadecimal", ch)
		}
	}
}

// A recipient has the same tag in any letter case. ben@example.com and bea@example.com have
// different tags. The zero Hash has none.
func TestTag(t *testing.T) {
	tag := func(address string) string { return mustParse(t, Email, address).Hash(testKey).Tag() }
	one := tag("ben@example.com")
	if len(one) != 4 || one != tag("Ben@Example.com") || one == tag("bea@example.com") {
		t.Errorf("%s, %s, %s", one, tag("Ben@Example.com"), tag("bea@example.com"))
	}
	if got := (Hash{}).Tag() + (Hash{0xff, 0xff, 0xf0}).Tag(); got != "ZZZZ" {
		t.Errorf("no recipient and 20 bits are %s", got)
	}
}
