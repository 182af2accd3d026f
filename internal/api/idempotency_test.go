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
		{[]string{`"8e03978e-40d5-43"`}, "8e03978e-40d5-43", false},
		{[]string{`8e03978e-40d5-43`}, "8e03978e-40d5-43", false},
		{[]string{`8e03978e-40d5-4`}, "", true},
		{[]string{`"8e03978e-40d5-4"`}, "", true},
		{[]string{` "one and another" `}, "", true},
		{[]string{` "one and a third " `}, "one and a third ", false},
		{[]string{`"a\"b\\c 3456789abcdef"`}, `a"b\c 3456789abcdef`, false},
		{[]string{`"a\"b\\c 3456789"`}, "", true},
		{[]string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), false},
		{[]string{strings.Repeat("k", 256)}, "", true},
		{[]string{""}, "", true},
		{[]string{`""`}, "", true},
		{[]string{`"`}, "", true},
		{[]string{`"0123456789abcdef`}, "", true},
		{[]string{`"0123456789abcdef\n"`}, "", true},
		{[]string{`"0123456789abcdef\`}, "", true},
		{[]string{`"0123456789abcdef" "b"`}, "", true},
		{[]string{`"0123456789abcdef";q=1`}, "", true},
		{[]string{"0123456789abcdef b"}, "", true},
		{[]string{"0123456789abcdef,b"}, "", true},
		{[]string{`0123456789abcdef"b`}, "", true},
		{[]string{"0123456789abcdef\tb"}, "", true},
		{[]string{"schlüssel-0123456789"}, "", true},
		{[]string{"\"0123456789abcdef\x7f\""}, "", true},
		{[]string{"0123456789abcdef", "fedcba9876543210"}, "", true},
		{[]string{"0123456789abcdef", "0123456789abcdef"}, "", true},
	} {
		got, err := idempotencyKey(http.Header{"Idempotency-Key": c.headers})
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%q: %q, %v", c.headers, got, err)
		}
	}
}

// Whatever a header holds, the key is within bounds and free of what could break a line.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"", "a", "0123456789abcdef", `"0123456789abcdef"`, `"0123456789\"abcdef"`, `"\`, "é", "0123456789abcdef\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {header}})
		if err != nil {
			return
		}
		if len(key) < minKey || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q gave %q", header, key)
		}
		again, err := idempotencyKey(http.Header{"Idempotency-Key": {`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}})
		if err != nil || again != key {
			t.Errorf("%q, quoted, is %q, %v", key, again, err)
		}
	})
}
