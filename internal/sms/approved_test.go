package sms

import "testing"

func TestApprovedTemplates(t *testing.T) {
	a := Approved{"default": {"en": "e", "zh-Hans": "z"}, "login": {"zh-Hans": "l"}}
	for _, c := range []struct{ purpose, language, want string }{
		{"login", "zh-Hans", "l"}, {"login", "en", "e"}, {"other", "zh-Hans", "z"}, {"login", "de", "e"}, {"other", "de", "e"},
	} {
		if got := a.Find(c.purpose, c.language); got != c.want {
			t.Errorf("%s %s: %q", c.purpose, c.language, got)
		}
	}
	if got := (Approved{"default": {"zh-Hant": "t", "zh-Hans": "s"}}).Find("x", "fr"); got != "s" {
		t.Errorf("%q", got)
	}
}
