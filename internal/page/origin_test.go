package page

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A page under another host than text messages name is told of once: browsers would not fill their codes in there.
func TestTextMessagesNameThePagesHost(t *testing.T) {
	for host, told := range map[string]int{
		"shop.example": 0, "shop.example:8443": 0, "codes.shop.example": 0, "127.0.0.1:8080": 0, "localhost": 0,
		"other.example": 1, "notshop.example": 1, "example": 1,
	} {
		for _, origin := range []string{"shop.example", ""} {
			var log bytes.Buffer
			u := New(Config{App: "shop", Origin: origin, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for range 3 {
				u.current().seenAt(host)
			}
			want := told
			if origin == "" {
				want = 0
			}
			if got := strings.Count(log.String(), "level=WARN"); got != want {
				t.Errorf("%s, texts name %q: %d warnings", host, origin, got)
			}
		}
	}
}

// What a browser names goes before what is configured, and that before what a language only suggests.
func TestWhereAReaderMayBe(t *testing.T) {
	for languages, want := range map[string]string{
		"de-AT,en;q=0.5": "AT CH US", "de,en-GB;q=0.8": "GB CH DE", "zh-Hans": "CH CN", "": "CH", "es-419": "CH", "x": "CH",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Language", languages)
		if got := strings.Join(regionsOf(r, "CH"), " "); got != want {
			t.Errorf("%q: %s, want %s", languages, got, want)
		}
	}
}
