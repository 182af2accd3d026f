package recipient

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, ch, raw string) {
		r, err := Parse(Channel(ch), raw)
		checkParsed(t, raw, r, err)
		Suggest(raw)
	})
}

// FuzzParseIn: wherever a number is dialled, what comes of it is a number by itself.
func FuzzParseIn(f *testing.F) {
	f.Fuzz(func(t *testing.T, country, raw string) {
		r, err := ParseIn(SMS, raw, country)
		checkParsed(t, raw, r, err)
	})
}

func checkParsed(t *testing.T, raw string, r Recipient, err error) {
	t.Helper()
	if err != nil {
		var bad *InvalidError
		if !errors.As(err, &bad) || !slices.Contains(Reasons(), bad.Reason) || bad.Detail == "" {
			t.Errorf("error %#v for %q", err, raw)
		}
		return
	}
	checkAddress(t, r)
	checkMask(t, r)
	for _, typed := range []string{r.Address(), r.Written()} {
		again, err := Parse(r.Channel(), typed)
		if err != nil || !again.Equal(r) || again.Hash(testKey) != r.Hash(testKey) {
			t.Errorf("not idempotent: %q is %q, %v", typed, again.Address(), err)
		}
	}
	if r.Channel() == Email {
		checkFolding(t, r)
	}
}

// checkAddress: whatever was typed, what goes to a carrier is short, one line and one recipient.
func checkAddress(t *testing.T, r Recipient) {
	t.Helper()
	address := r.Address()
	if !utf8.ValidString(address) || len(address) > 254 || strings.ContainsFunc(address, forbidden) {
		t.Errorf("unsafe address %q", address)
	}
	if r.Channel() == SMS {
		if len(address) > 16 || address[0] != '+' || strings.Trim(address[1:], "0123456789") != "" {
			t.Errorf("number %q is not E.164", address)
		}
		return
	}
	local, domain, _ := strings.Cut(address, "@")
	if local == "" || len(local) > 64 || strings.Trim(domain, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" ||
		!strings.Contains(domain, ".") {
		t.Errorf("address %q", address)
	}
}

// forbidden is written apart from the package's own tests of characters.
func forbidden(r rune) bool {
	return r <= ' ' || 0x7f <= r && r <= 0xa0 || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) ||
		strings.ContainsRune("<>()[],;:\\\"\u2028\u2029", r)
}

func checkMask(t *testing.T, r Recipient) {
	t.Helper()
	masked := r.Masked()
	if strings.Count(masked, "•••") != 1 || strings.ContainsFunc(strings.Replace(masked, " ", "", 1), forbidden) {
		t.Errorf("mask %q", masked)
	}
	if r.Channel() == SMS {
		if len(digitsOf(r.Address()))-len(digitsOf(masked)) < 4 {
			t.Errorf("mask %q hides too little", masked)
		}
		return
	}
	shown, domain, _ := strings.Cut(masked, "@")
	shown = strings.TrimSuffix(shown, "•••")
	letters := 0
	for _, c := range shown {
		if !unicode.IsMark(c) {
			letters++
		}
	}
	if letters != 1 {
		t.Errorf("mask %q shows %d letters", masked, letters)
	}
	if back, err := parseDomain(domain); err != nil || !strings.HasSuffix(r.Address(), "@"+back.ascii) {
		t.Errorf("the domain in mask %q is not the domain of the address", masked)
	}
}

func digitsOf(s string) string {
	return strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, s)
}

func checkFolding(t *testing.T, r Recipient) {
	t.Helper()
	upper := strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf {
			return unicode.ToUpper(c)
		}
		return c
	}, r.Address())
	loud, err := Parse(Email, upper)
	if err != nil || loud.Hash(testKey) != r.Hash(testKey) {
		t.Errorf("case frees quota: %q and %q, %v", upper, r.Address(), err)
	}
}
