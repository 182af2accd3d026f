package recipient

import (
	"encoding/json"
	"strings"
	"testing"
)

var testKey = []byte("an index key for the tests only.")

// Fixed vectors, computed with another program as HMAC-SHA-256 of "sendcode recipient 1\0" + channel + "\0" + folded address. A change
// here resets every quota and hides the history, so it must be intended.
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

func TestHashDependsOnTheKey(t *testing.T) {
	r := mustParse(t, Email, "ana@example.com")
	if r.Hash(testKey) == r.Hash([]byte("another index key for the tests.")) {
		t.Error("two keys give one hash")
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty key is accepted")
		}
	}()
	r.Hash(nil)
}

// Two spellings share the hash of the address, only the one by which sends are counted (with these domains' folding), only the one of
// the mailbox, or none.
func TestSpellings(t *testing.T) {
	f := Folding{"gmail.com": {PlusTags: true, Dots: true}, "tags.example": {PlusTags: true}, "dots.example": {Dots: true},
		"xn--bcher-kva.example": {PlusTags: true}, "": {PlusTags: true, Dots: true}}
	const address, counted, mailbox, none = 3, 2, 1, 0
	for _, c := range []struct {
		a, b  string
		share int
	}{
		{"A@X.de", " a@x.DE ", address},
		{"\u00e9va@x.de", "E\u0301VA@x.de", address}, // composed and decomposed
		{"a@BÜCHER.de", "a@xn--bcher-kva.de", address},
		{"\u212a@x.de", "k@x.de", address}, // Kelvin sign
		{"νίκος@x.de", "ΝΊΚΟΣ@x.de", address},
		{"STRAẞE@x.de", "straße@x.de", address},
		{"+49 1512 3456789", "+4915123456789", address},

		{"an.a+shop@gmail.com", "ana@gmail.com", counted},
		{"A.N.A@GMAIL.com", "ana@gmail.com", counted},
		{"ana+a.b+c@gmail.com", "ana@gmail.com", counted},
		{"ana+@gmail.com", "ana@gmail.com", counted},
		{"+a.na@gmail.com", "+ana@gmail.com", counted}, // a tag without a name is no tag
		{"an.a+shop@tags.example", "an.a@tags.example", counted},
		{"an.a+sh.op@dots.example", "ana+shop@dots.example", counted},
		{"Éva+x@bücher.example", "e\u0301va@BÜCHER.example", counted},

		{"ANA+a+b@Example.com", "ana@example.com", mailbox},
		{"A.na+x@GoogleMail.com", "ana@gmail.com", mailbox},
		{"an.a+x@dots.example", "ana@dots.example", mailbox},
		{"an.a+x@sub.gmail.com", "an.a@sub.gmail.com", mailbox},

		{"straße@x.de", "strasse@x.de", none},
		{"ſam@x.de", "sam@x.de", none},
		{"ıda@x.de", "ida@x.de", none},
		{"İda@x.de", "ida@x.de", none},
		{"аna@x.de", "ana@x.de", none}, // Cyrillic a
		{"éva@x.de", "eva@x.de", none},
		{"a@straße.de", "a@strasse.de", none},
		{"a.b@x.de", "a@b.x.de", none},
		{"a.na@tags.example", "ana@tags.example", none},
		{"+a@gmail.com", "+b@gmail.com", none},
		{"ana+x@gmail.com", "anax@gmail.com", none},
		{"ana-x@gmail.com", "ana@gmail.com", none},
		{"an.a@gmail.com.example", "ana@gmail.com.example", none},
		{"ana@gmail.com", "ana@gmail.example", none},
	} {
		channel := Email
		if strings.HasPrefix(c.a, "+49") {
			channel = SMS
		}
		a, b := mustParse(t, channel, c.a), mustParse(t, channel, c.b)
		one, other := f.Hashes(a, testKey), f.Hashes(b, testKey)
		for what, same := range map[string][2]bool{
			"address": {one.Address == other.Address, c.share >= address},
			"counted": {one.Counted == other.Counted, c.share >= counted},
			"mailbox": {one.Mailbox == other.Mailbox, c.share >= mailbox},
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
	if h := ana.Hash(testKey); f.Hashes(ana, testKey) != (Hashes{h, h, h}) {
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
