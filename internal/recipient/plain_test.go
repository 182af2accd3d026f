package recipient

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/idna"
)

// A domain that is taken as it was typed is one that UTS 46 leaves as it is.
func TestPlainDomainsAreMappedToThemselves(t *testing.T) {
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.CheckHyphens(false), idna.VerifyDNSLength(true))
	tried := 0
	try := func(typed string) {
		if !plainDomain(typed) {
			return
		}
		tried++
		ascii, err := profile.ToASCII(typed)
		readable, err2 := profile.ToUnicode(typed)
		if err != nil || err2 != nil || ascii != typed || readable != typed {
			t.Fatalf("%q is mapped to %q, %v, and shown as %q, %v", typed, ascii, err, readable, err2)
		}
	}
	const characters = "az09-..xnAü"
	for range 200_000 {
		typed := make([]rune, 1+rand.IntN(12))
		for i := range typed {
			typed[i] = []rune(characters)[rand.IntN(11)]
		}
		try(string(typed))
	}
	for _, typed := range []string{"example.com", "xn--bcher-kva.example", "a.xn--a", "a--b.example", "1.2", "-a.b",
		strings.Repeat("a", 63) + ".de", strings.Repeat("a", 64) + ".de",
		strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a", ".a", "a.", "a..b", ""} {
		try(typed)
	}
	if tried < 10_000 {
		t.Errorf("%d of the domains are plain", tried)
	}
	for _, typed := range []string{"xn--bcher-kva.example", "a.xn--a", strings.Repeat("a", 64) + ".de", ".a", "a.", "a..b", "", "Example.com",
		"bücher.example"} {
		if plainDomain(typed) {
			t.Errorf("%q is taken for plain", typed)
		}
	}
}

// The three hashes are those that are computed one by one.
func TestHashesAreTheSame(t *testing.T) {
	folding := Folding{"example.com": {PlusTags: true}, "gmail.com": {Dots: true}}
	for _, address := range []string{"ana@example.com", "Ana+Shop@example.com", "a.n.a@gmail.com", "a.na+x@googlemail.com",
		"a.na+x@other.example", "+@example.com", "ana@bücher.example"} {
		r, err := Parse(Email, address)
		if err != nil {
			t.Fatal(err)
		}
		want := Hashes{r.Hash(testKey), folding.Hash(r, testKey), folding.Mailbox(r, testKey)}
		if got := folding.Hashes(r, testKey); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	number, err := Parse(SMS, "+4915123456789")
	if err != nil {
		t.Fatal(err)
	}
	if got, h := folding.Hashes(number, testKey), number.Hash(testKey); got != (Hashes{h, h, h}) {
		t.Errorf("%v", got)
	}
}
