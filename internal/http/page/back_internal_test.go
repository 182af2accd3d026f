package page

import (
	"strings"
	"testing"
)

func TestAllowedReturnURL(t *testing.T) {
	allowed := []string{"https://shop.example/welcome", "https://app.example"}
	wanted := map[string]string{
		"https://shop.example/welcome":             "https://shop.example/welcome",
		"HTTPS://Shop.Example:443/welcome":         "https://shop.example/welcome",
		"https://shop.example/x/../welcome//a":     "https://shop.example/welcome/a",
		"https://shop.example/welcome/a;b=1/c..;d": "https://shop.example/welcome/a;b=1/c..;d",
		"https://app.example":                      "https://app.example/",
	}
	for _, refused := range []string{
		"https://shop.example/welcomes", "https://shop.example:8443/welcome", "http://shop.example/welcome", "//shop.example/welcome",
		"https://shop.example@evil.example/", "https://shop.example/welcome#fragment", "javascript:alert(1)", "https:shop.example/welcome",
		"", "https://app.example/" + strings.Repeat("a", 1024),
		"https://shop.example/welcome/../admin", "https://shop.example/welcome/..%2fa", "https://shop.example/welcome%2f..%2fa",
		"https://shop.example/welcome/\\..\\a", "https://shop.example/welcome/..%5Cadmin", "https://shop.example/welcome/..%00/admin",
		"https://shop.example/welcome/..;/admin", "https://shop.example/welcome/..;x=1/admin", "https://shop.example/welcome/.;/admin",
		"https://shop.example/welcome/..;", "https://shop.example/welcome/%252e%252e/admin", "https://shop.example/welcome/%252E./admin",
		"https://shop.example/welcome/.%2e;/admin", "https://shop.example/welcome/%2e%2e%3b/admin",
	} {
		wanted[refused] = ""
	}
	for text, want := range wanted {
		if to, ok := allowedReturnURL(allowed, text); ok != (want != "") || ok && to != want {
			t.Errorf("%s leads to %q, want %q", text, to, want)
		}
	}
}
