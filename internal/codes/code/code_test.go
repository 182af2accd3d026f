package code

import (
	"encoding/binary"
	"flag"
	"math"
	"strings"
	"testing"
	"unicode"
)

// codeCount is how many codes of each alphabet the test derives; make sizes derives 10 million.
var codeCount = flag.Int("code.codes", 100_000, "codes to derive for the test of their distribution")

// normalize returns only characters of the alphabet. Of the letters outside ASCII, it accepts only
// full-width ones.
func TestNormalizeGivesTheAlphabetAlone(t *testing.T) {
	for a, all := range alphabets {
		for r := rune(0); r <= unicode.MaxRune; r++ {
			got, err := Format{a, 1}.normalize(string(r))
			if err == nil && (len(got) != 1 || !strings.Contains(all, got)) {
				t.Fatalf("%s: U+%04X is read as %q", a, r, got)
			}
			if a == Unambiguous && err == nil && r > unicode.MaxASCII && (r < 'Ａ' || r > 'ｚ') {
				t.Fatalf("U+%04X is read as %q", r, got)
			}
		}
	}
}

// Each character is equally likely at each place. The bounds are those of a chi-square test with p
// = 0.001 for one place, for 9 and 19 degrees of freedom. The inputs are fixed, so the result is,
// too.
func TestDeriveIsUniform(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	for a, bound := range map[Alphabet]float64{Digits: 27.9, Unambiguous: 43.9} {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			all, nonce, n := alphabets[a], make([]byte, 16), *codeCount
			seen := make([][256]int, 6)
			for i := range n {
				binary.LittleEndian.PutUint64(nonce, uint64(i))
				for place, c := range []byte(deriveCharacters(key, "v", nonce, all, len(seen))) {
					seen[place][c]++
				}
			}
			want := float64(n) / float64(len(all))
			for place, counts := range seen {
				chi := 0.0
				for _, c := range []byte(all) {
					chi += math.Pow(float64(counts[c])-want, 2) / want
				}
				if t.Logf("place %d of %d codes: chi-square %.1f", place, n, chi); chi > bound {
					t.Errorf("place %d: chi-square %.1f", place, chi)
				}
			}
		})
	}
}

// Another program computed these codes from the definition in derive.go. A hundred digits need
// several blocks.
func TestDeriveVectors(t *testing.T) {
	key, nonce := []byte("0123456789abcdef0123456789abcdef"), []byte("fedcba9876543210")
	for _, c := range []struct {
		alphabet Alphabet
		id, want string
	}{
		{Digits, "v1", "523676"},
		{Digits, "another", "227773"},
		{Digits, "v1", "5236768495789728501422988626551542726322601704648181000025740392544249083116209123988566590623656611"},
		{Unambiguous, "v1", "HDFJKJLSMT"},
		{Unambiguous, "another", "QQWWKRNHXQ"},
	} {
		if got := deriveCharacters(key, c.id, nonce, alphabets[c.alphabet], len(c.want)); got != c.want {
			t.Errorf("derive(%q, %d) = %s, want %s", c.id, len(c.want), got, c.want)
		}
	}
}

// The value of each decimal digit of Unicode is its position among the ten digits of its script.
func TestDigitValue(t *testing.T) {
	want := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.IsDigit(r) {
			if want != 0 {
				t.Fatalf("the run before U+%04X ends at %d", r, want)
			}
			continue
		}
		if got := digitValue(r); got != want {
			t.Fatalf("U+%04X is %d, want %d", r, got, want)
		}
		want = (want + 1) % 10
	}
}
