package providerhttp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sendcode/internal/deliver/providerhttp"
)

func TestJSONPathFind(t *testing.T) {
	var value any
	if err := json.Unmarshal([]byte(`{"a":[{"b-c":["x",true]}],"n":null}`), &value); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a.0.b-c.0": "x", "a.0.b-c.1": "true", "a.0.b-c": "", "a.1": "", "a.-1": "", "a.x": "", "n": "",
		"a.0.b-c.0.z": "",
	} {
		p, err := providerhttp.ParseJSONPath(text)
		if err != nil || p.String() != text {
			t.Errorf("%s: %v, %v", text, p, err)
		}
		if got, found := providerhttp.ScalarText(p.Find(value)); got != want || found != (want != "") {
			t.Errorf("%s: %q, %v", text, got, found)
		}
	}
	for _, bad := range []string{"", ".", "a..b", ".a", "a.", strings.Repeat("a.", 40) + "a", strings.Repeat("x", 65)} {
		if p, err := providerhttp.ParseJSONPath(bad); err == nil {
			t.Errorf("%q: %v", bad, p)
		}
	}
}
