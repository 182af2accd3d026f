package recipient

import "testing"

func TestFoldingMergesWhatItsDomainIgnores(t *testing.T) {
	f := Folding{"gmail.com": {PlusTags: true, Dots: true}, "tags.example": {PlusTags: true}, "dots.example": {Dots: true},
		"xn--bcher-kva.example": {PlusTags: true}}
	for _, c := range []struct {
		typed, as string
	}{
		{"an.a+shop@gmail.com", "ana@gmail.com"},
		{"A.N.A@GMAIL.com", "ana@gmail.com"},
		{"ana+a+b@gmail.com", "ana@gmail.com"},
		{"ana+a.b@gmail.com", "ana@gmail.com"},
		{"ana+@gmail.com", "ana@gmail.com"},
		{"ana@gmail.com", "ana@gmail.com"},
		{"+ana@gmail.com", "+ana@gmail.com"}, // a tag without a name
		{"+a.na@gmail.com", "+ana@gmail.com"},
		{"an.a+shop@tags.example", "an.a@tags.example"},
		{"an.a+sh.op@dots.example", "ana+shop@dots.example"},
		{"Éva+x@bücher.example", "e\u0301va@BÜCHER.example"},
		{"an.a+x@sub.gmail.com", "an.a+x@sub.gmail.com"}, // exact domains
		{"an.a+x@gmail.com.example", "an.a+x@gmail.com.example"},
		{"ana-shop@gmail.com", "ana-shop@gmail.com"},
	} {
		got, want := f.Hash(mustParse(t, Email, c.typed), testKey), mustParse(t, Email, c.as).Hash(testKey)
		if got != want {
			t.Errorf("%s is not counted as %s", c.typed, c.as)
		}
	}
}

func TestFoldingSeparates(t *testing.T) {
	f := Folding{"gmail.com": {PlusTags: true, Dots: true}, "tags.example": {PlusTags: true}}
	for _, c := range [][2]string{
		{"ana@gmail.com", "ana@tags.example"}, {"ana+x@gmail.com", "anax@gmail.com"}, {"+a@gmail.com", "+b@gmail.com"},
		{"a.na@tags.example", "ana@tags.example"}, {"ana+x@x.example", "ana@x.example"}, {"ana@gmail.com", "ana@xgmail.com"},
	} {
		if f.Hash(mustParse(t, Email, c[0]), testKey) == f.Hash(mustParse(t, Email, c[1]), testKey) {
			t.Errorf("%s and %s are counted as one", c[0], c[1])
		}
	}
}

// Nothing is folded that was not asked for, and never a phone number or an address itself.
func TestFoldingLeavesTheRest(t *testing.T) {
	phone := mustParse(t, SMS, "+4915123456789")
	for _, f := range []Folding{nil, {}, {"gmail.com": {}}, {"": {PlusTags: true, Dots: true}}} {
		for _, r := range []Recipient{phone, mustParse(t, Email, "an.a+x@gmail.com")} {
			if f.Hash(r, testKey) != r.Hash(testKey) {
				t.Errorf("%v folds %s", f, r)
			}
		}
	}
	r := mustParse(t, Email, "An.a+x@gmail.com")
	Folding{"gmail.com": {PlusTags: true, Dots: true}}.Hash(r, testKey)
	if r.Address() != "An.a+x@gmail.com" {
		t.Error("the address was changed")
	}
}
