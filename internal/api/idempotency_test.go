package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestIdempotencyKey(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    string
		bad     bool
	}{
		{nil, "", false},
		{[]string{`"8e03978e-40d5"`}, "8e03978e-40d5", false},
		{[]string{`8e03978e-40d5`}, "8e03978e-40d5", false},
		{[]string{` "a b" `}, "a b", false},
		{[]string{`"a\"b\\c"`}, `a"b\c`, false},
		{[]string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), false},
		{[]string{strings.Repeat("k", 256)}, "", true},
		{[]string{""}, "", true},
		{[]string{`""`}, "", true},
		{[]string{`"`}, "", true},
		{[]string{`"a`}, "", true},
		{[]string{`"a\n"`}, "", true},
		{[]string{`"a\`}, "", true},
		{[]string{`"a" "b"`}, "", true},
		{[]string{`"a";q=1`}, "", true},
		{[]string{"a b"}, "", true},
		{[]string{"a,b"}, "", true},
		{[]string{`a"b`}, "", true},
		{[]string{"a\tb"}, "", true},
		{[]string{"schlüssel"}, "", true},
		{[]string{"\"\x7f\""}, "", true},
		{[]string{"a", "b"}, "", true},
		{[]string{"a", "a"}, "", true},
	} {
		got, err := idempotencyKey(http.Header{"Idempotency-Key": c.headers})
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%q: %q, %v", c.headers, got, err)
		}
	}
}

// Whatever a header holds, the key is within bounds and free of what could break a line.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"", "a", `"a"`, `"a\"b"`, `"\`, "é", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {header}})
		if err != nil {
			return
		}
		if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q gave %q", header, key)
		}
		again, err := idempotencyKey(http.Header{"Idempotency-Key": {`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}})
		if err != nil || again != key {
			t.Errorf("%q, quoted, is %q, %v", key, again, err)
		}
	})
}
