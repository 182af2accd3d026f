package clients

import (
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

// Whatever a browser reads comes encoded to those that read that, and a program may ask for its head alone.
func TestWhatBrowsersReadIsEncoded(t *testing.T) {
	s := apptest.Embedded(t).Start(1)
	for _, path := range []string{"/", "/widget.js", "/client.js", "/static/page.css", "/static/page.js", "/openapi.yaml", "/problems/quota-exceeded"} {
		for _, encoding := range []string{"br", "gzip"} {
			got := s.Do(0, http.MethodGet, path, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", encoding) })
			if got.StatusCode != http.StatusOK || got.Header.Get("Content-Encoding") != encoding || len(got.Header.Values("Vary")) == 0 {
				t.Errorf("%s as %s: %d %v", path, encoding, got.StatusCode, got.Header)
			}
		}
		if got := s.Do(0, http.MethodHead, path, ""); got.StatusCode != http.StatusOK || len(got.Raw) != 0 {
			t.Errorf("HEAD %s: %d, %d bytes", path, got.StatusCode, len(got.Raw))
		}
	}
	got := s.Do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`, func(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip") })
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Encoding") != "" {
		t.Errorf("an answer of the API: %d %v", got.StatusCode, got.Header)
	}
}
