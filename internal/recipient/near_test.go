package recipient

import (
	"slices"
	"testing"
)

func TestNear(t *testing.T) {
	for _, c := range []struct {
		channel     Channel
		to          string
		near, never []string
	}{
		{Email, "Ana@gmail.com", []string{"ana@gmial.com", "ana@gmail.con", "ana@gmail.co", "ana@gmaill.com", "anna@gmail.com", "an@gmail.com",
			"naa@gmail.com", "ana@g.mail.com"}, []string{"ana@gmail.com", "ana@gamli.com", "ana@qq.com"}},
		{Email, "mañana@example.com", []string{"mañana@exmaple.com"}, []string{"mañana@example.com"}},
		{SMS, "+4915123456789", []string{"+4915123456798", "+4915123456780", "+4915213456789"}, []string{"+4915123456789", "+4915123456000"}},
	} {
		r, err := Parse(c.channel, c.to)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, near := range r.Near() {
			all = append(all, near.Address())
		}
		for _, want := range c.near {
			if !slices.Contains(all, want) {
				t.Errorf("%s is not near %s", want, c.to)
			}
		}
		for _, other := range c.never {
			if slices.Contains(all, other) {
				t.Errorf("%s is near %s", other, c.to)
			}
		}
		if slices.Sort(all); len(all) != len(slices.Compact(slices.Clone(all))) || len(all) > 2500 {
			t.Errorf("%s: %d, some of them twice", c.to, len(all))
		}
	}
	if near := (Recipient{}).Near(); near != nil {
		t.Errorf("no recipient is near %v", near)
	}
}
