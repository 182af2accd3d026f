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
	for range 50_000 {
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
	if tried < 2_500 {
		t.Errorf("only %d of the domains are plain", tried)
	}
	for _, typed := range []string{"xn--bcher-kva.example", "a.xn--a", strings.Repeat("a", 64) + ".de", ".a", "a.", "a..b", "", "Example.com",
		"bücher.example"} {
		if plainDomain(typed) {
			t.Errorf("%q is taken for plain", typed)
		}
	}
}
