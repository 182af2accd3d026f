package server

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// The short way over usual bodies finds what the whole way finds.
func TestNamesTwiceAreFoundBothWays(t *testing.T) {
	tokens := []string{
		"{", "}", "[", "]", ":", ",", ",", ":", `"to"`, `"TO"`, `"a"`, `"A"`, `"b"`, `"\u0061"`, `"a\""`, `"\\"`, `"k"`, `"K"`, `"ſ"`, `"s"`, `":"`, `"{"`, "1", "null", " ", "\n",
	}
	names := func(body string) {
		if !json.Valid([]byte(body)) {
			return
		}
		name, at, found := nameTwice([]byte(body))
		wantName, wantAt, want := duplicateName([]byte(body))
		if found != want || name != wantName || at != wantAt {
			t.Errorf("%s: %q at %d, %v; want %q at %d, %v", body, name, at, found, wantName, wantAt, want)
		}
	}
	for range 100_000 {
		var b strings.Builder
		b.WriteString("{")
		for n := range rand.IntN(4) {
			if n > 0 {
				b.WriteString(",")
			}
			b.WriteString(tokens[8+rand.IntN(len(tokens)-10-6)] + tokens[len(tokens)-2+rand.IntN(2)] + ":" + tokens[8+rand.IntN(len(tokens)-8)])
		}
		names(b.String() + "}")
	}
	for range 100_000 {
		var b strings.Builder
		for range rand.IntN(12) {
			b.WriteString(tokens[rand.IntN(len(tokens))])
		}
		names(b.String())
	}
	for _, body := range []string{
		`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"a":"b","b":"a"}`, `{"a":{"b":1,"b":2}}`, `{"a":[{"b":1,"B":2}],"c":1}`, `{"a\"":1,"a\"":2}`, `{"a":"\\","a":1}`, `{"a":"\"b\":","b":1}`,
		`{"k":1,"K":2}`, `{"s":1,"ſ":2}`, "{" + strings.Repeat(`"x":1,`, 0) + `"x":1}`, `{}`, ` { "a" : 1 , "a" : 2 } `, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"A":1}`,
	} {
		names(body)
	}
	if plainNames([]byte(`{"a":1,"A":2}`)) || !plainNames([]byte(`{"channel":"email","to":"a@b.example"}`)) {
		t.Error("the short way is not taken")
	}
}
