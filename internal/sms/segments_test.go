package sms

import (
	"strings"
	"testing"
)

func TestMeasure(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for name, c := range map[string]struct {
		text string
		want Size
	}{
		"nothing":                          {"", Size{}},
		"160":                              {a(160), Size{1, false}},
		"161":                              {a(161), Size{2, false}},
		"306":                              {a(306), Size{2, false}},
		"307":                              {a(307), Size{3, false}},
		"euro counts two":                  {a(158) + "€", Size{1, false}},
		"159 and a euro":                   {a(159) + "€", Size{2, false}},
		"every one of the extension":       {"^{}\\[~]|€\f", Size{1, false}},
		"an escape is not cut":             {a(152) + "€" + a(152), Size{3, false}},
		"an escape that fits":              {a(151) + "€" + a(153), Size{2, false}},
		"70":                               {strings.Repeat("码", 70), Size{1, true}},
		"71":                               {strings.Repeat("码", 71), Size{2, true}},
		"134":                              {strings.Repeat("码", 134), Size{2, true}},
		"135":                              {strings.Repeat("码", 135), Size{3, true}},
		"backtick":                         {"`", Size{1, true}},
		"curly quote":                      {"it’s", Size{1, true}},
		"emoji counts two":                 {strings.Repeat("😀", 35), Size{1, true}},
		"36 emoji":                         {strings.Repeat("😀", 36), Size{2, true}},
		"a pair is not cut":                {strings.Repeat("码", 66) + "😀" + strings.Repeat("码", 66), Size{3, true}},
		"default alphabet":                 {basic, Size{1, false}},
		"long s, a letter of another kind": {"ſ", Size{1, true}},
		"c with a cedilla, small":          {"ç", Size{1, true}},
	} {
		if got := Measure(c.text); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if n := len([]rune(basic)); n != 127 {
		t.Errorf("the alphabet has %d characters, and one is the escape", n)
	}
}
