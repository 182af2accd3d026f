package recipient_test

import (
	"testing"

	"sendcode/internal/base/recipient"
)

// A tag is the same for one recipient, differs for another, and says nothing of a forgotten one.
func TestTag(t *testing.T) {
	key := []byte("key")
	tag := func(address string) string {
		r, err := recipient.Parse(recipient.Email, address)
		if err != nil {
			t.Fatal(err)
		}
		return r.Hash(key).Tag()
	}
	one := tag("ben@example.com")
	if len(one) != 4 || one != tag("Ben@Example.com") || one == tag("bea@example.com") {
		t.Errorf("%s, %s, %s", one, tag("Ben@Example.com"), tag("bea@example.com"))
	}
	if got := (recipient.Hash{}).Tag(); got != "" {
		t.Errorf("a forgotten recipient has the tag %s", got)
	}
	if got := (recipient.Hash{0xff, 0xff, 0xf0}).Tag(); got != "ZZZZ" {
		t.Errorf("20 bits are %s", got)
	}
}
