package recipient

import "testing"

func TestMailboxIsOneForAllSpellings(t *testing.T) {
	f := Folding{"dots.example": {Dots: true}}
	for _, c := range []struct{ typed, as string }{
		{"ana+1@example.com", "ana@example.com"},
		{"ANA+a+b@Example.com", "ana@example.com"},
		{"an.a+x@gmail.com", "ana@gmail.com"},
		{"A.na@googlemail.com", "ana@gmail.com"},
		{"ana+x@GoogleMail.com", "ana@gmail.com"},
		{"an.a+x@dots.example", "ana@dots.example"},
		{"Éva+x@bücher.example", "éva@bücher.example"},
		{"+ana@example.com", "+ana@example.com"}, // a tag of nothing
		{"ana@example.com", "ana@example.com"},
	} {
		got, want := f.Mailbox(mustParse(t, Email, c.typed), testKey), mustParse(t, Email, c.as).Hash(testKey)
		if got != want {
			t.Errorf("%s is not in the mailbox of %s", c.typed, c.as)
		}
	}
}

func TestMailboxesStayApart(t *testing.T) {
	for _, c := range [][2]string{
		{"ana@example.com", "bea@example.com"}, {"ana@example.com", "ana@example.org"}, {"an.a@example.com", "ana@example.com"},
		{"ana-x@example.com", "ana@example.com"}, {"ana@gmail.com", "ana@gmail.example"}, {"+a@example.com", "+b@example.com"},
	} {
		if Folding(nil).Mailbox(mustParse(t, Email, c[0]), testKey) == Folding(nil).Mailbox(mustParse(t, Email, c[1]), testKey) {
			t.Errorf("%s and %s are one mailbox", c[0], c[1])
		}
	}
	phone := mustParse(t, SMS, "+4915123456789")
	if Folding(nil).Mailbox(phone, testKey) != phone.Hash(testKey) {
		t.Error("a number has no spellings")
	}
}
