package ui_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/ui/uitest"
)

// Whatever a form or an address line holds, the page answers with a page or the way to one, and shows nothing as markup
// that was typed.
func FuzzPage(f *testing.F) {
	for _, seed := range [][3]string{
		{"send", "ana@example.com", ""}, {"send", "<script>alert(1)</script>@example.com", "?view=change"}, {"check", "123 456", ""},
		{"check", "١٢٣٤٥٦", ""}, {"again", "", "?view=new"}, {"use", "ana@gmial.com", "?view=change"}, {"send", "a\r\nBcc: b@c.d", "?view=%00"},
		{"send", "0151 23456789", "?view=instead"}, {"send", "+1 (202) 555-0143", "?view=other"}, {"other", "＋٤٩", "?view=other"},
		{"nothing", "\xff\x00", "?%zz"}, {"send", `"><img src=x onerror=1>`, "?lang=zh"}, {"send", strings.Repeat("a", 400) + "@b.c", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, act, typed, query string) {
		w, err := uitest.NewWorld(uitest.DefaultRules())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		w.Codes.Text("DE", "US")
		target, err := url.Parse(w.URL)
		if err != nil {
			t.Fatal(err)
		}
		target.RawQuery = strings.TrimPrefix(strings.Map(printable, query), "?")
		form := url.Values{"act": {act}, "to": {typed}, "code": {typed}, "sure": {typed}, "intent": {typed}, "of": {""}}
		phoned := url.Values{"act": {act}, "channel": {"sms"}, "phone": {typed}, "country": {typed}, "code": {typed}, "sure": {typed}, "of": {""}}
		for _, r := range []*http.Request{
			{Method: http.MethodPost, URL: target, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: io.NopCloser(strings.NewReader(phoned.Encode()))},
			{Method: http.MethodPost, URL: target, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: io.NopCloser(strings.NewReader(form.Encode()))},
			{Method: http.MethodGet, URL: target, Header: http.Header{}},
		} {
			for _, c := range w.Cookies() {
				r.AddCookie(c)
			}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatalf("%q %q %q: %v", act, typed, query, err)
			}
			w.Keep(resp.Cookies())
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode >= 500 {
				t.Errorf("%q %q %q: %d, %v", act, typed, query, resp.StatusCode, err)
			}
			if strings.ContainsAny(typed, `<>"`) && len(typed) > 4 && strings.Contains(string(body), typed) {
				t.Errorf("%q stands in the page as it was typed", typed)
			}
		}
	})
}

// printable leaves what a request line can carry.
func printable(r rune) rune {
	if r <= ' ' || r > '~' || r == '#' {
		return -1
	}
	return r
}
