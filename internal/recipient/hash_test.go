package recipient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

var testKey = []byte("an index key for the tests only.")

// Fixed vectors: a change here frees everybody's quota and hides the history, so it must be meant.
func TestHashVectors(t *testing.T) {
	for _, c := range []struct {
		ch   Channel
		raw  string
		over string
	}{
		{Email, "Ana.Maria@Example.COM", "sendcode recipient 1\x00email\x00ana.maria@example.com"},
		{Email, "ÁNA@bücher.example", "sendcode recipient 1\x00email\x00ána@xn--bcher-kva.example"},
		{SMS, "+49 1512 3456789", "sendcode recipient 1\x00sms\x00+4915123456789"},
	} {
		mac := hmac.New(sha256.New, testKey)
		mac.Write([]byte(c.over))
		want := hex.EncodeToString(mac.Sum(nil))[:32]
		if got := mustParse(t, c.ch, c.raw).Hash(testKey).String(); got != want {
			t.Errorf("%s %s: %s, want %s", c.ch, c.raw, got, want)
		}
	}
	if got := mustParse(t, Email, "ana@example.com").Hash(testKey).String(); got != "3781e988d42d816a32ec7a6e2d9770af" {
		t.Errorf("fixed vector: %s", got)
	}
}

func TestHashMergesAndSeparates(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"case":                        {"A@X.de", "a@x.DE", true},
		"accent composed or not":      {"\u00e9va@x.de", "E\u0301VA@x.de", true},
		"idn and A-label":             {"a@BÜCHER.de", "a@xn--bcher-kva.de", true},
		"kelvin sign":                 {"\u212a@x.de", "k@x.de", true},
		"final sigma":                 {"νίκος@x.de", "ΝΊΚΟΣ@x.de", true},
		"capital sharp s":             {"STRAẞE@x.de", "straße@x.de", true},
		"spaces around":               {" a@x.de ", "a@x.de", true},
		"sharp s is not ss":           {"straße@x.de", "strasse@x.de", false},
		"long s is not s":             {"ſam@x.de", "sam@x.de", false},
		"dotless i is not i":          {"ıda@x.de", "ida@x.de", false},
		"dotted capital i is not i":   {"İda@x.de", "ida@x.de", false},
		"cyrillic a is not a":         {"аna@x.de", "ana@x.de", false},
		"tag":                         {"ana+b@x.de", "ana@x.de", false},
		"dot":                         {"a.na@x.de", "ana@x.de", false},
		"domain":                      {"a@x.de", "a@y.de", false},
		"sharp s in a domain":         {"a@straße.de", "a@strasse.de", false},
		"accent":                      {"éva@x.de", "eva@x.de", false},
		"part moved over the at sign": {"a.b@x.de", "a@b.x.de", false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := mustParse(t, Email, c.a).Hash(testKey), mustParse(t, Email, c.b).Hash(testKey)
			if (a == b) != c.same {
				t.Errorf("%s and %s: same hash %v, want %v", c.a, c.b, a == b, c.same)
			}
		})
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
