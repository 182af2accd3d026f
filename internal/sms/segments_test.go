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
		"160":                              {a(160), Size{1, false, 160}},
		"161":                              {a(161), Size{2, false, 161}},
		"306":                              {a(306), Size{2, false, 306}},
		"307":                              {a(307), Size{3, false, 307}},
		"euro counts two":                  {a(158) + "€", Size{1, false, 160}},
		"159 and a euro":                   {a(159) + "€", Size{2, false, 161}},
		"every one of the extension":       {"^{}\\[~]|€\f", Size{1, false, 20}},
		"an escape is not cut":             {a(152) + "€" + a(152), Size{3, false, 306}},
		"an escape that fits":              {a(151) + "€" + a(153), Size{2, false, 306}},
		"70":                               {strings.Repeat("码", 70), Size{1, true, 70}},
		"71":                               {strings.Repeat("码", 71), Size{2, true, 71}},
		"134":                              {strings.Repeat("码", 134), Size{2, true, 134}},
		"135":                              {strings.Repeat("码", 135), Size{3, true, 135}},
		"backtick":                         {"`", Size{1, true, 1}},
		"curly quote":                      {"it’s", Size{1, true, 4}},
		"emoji counts two":                 {strings.Repeat("😀", 35), Size{1, true, 70}},
		"36 emoji":                         {strings.Repeat("😀", 36), Size{2, true, 72}},
		"a pair is not cut":                {strings.Repeat("码", 66) + "😀" + strings.Repeat("码", 66), Size{3, true, 134}},
		"default alphabet":                 {basic, Size{1, false, 127}},
		"long s, a letter of another kind": {"ſ", Size{1, true, 1}},
		"c with a cedilla, small":          {"ç", Size{1, true, 1}},
	} {
		if got := Measure(c.text); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if n := len([]rune(basic)); n != 127 {
		t.Errorf("the alphabet has %d characters, and one is the escape", n)
	}
}
