package ui_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/ui/uitest"
)

func TestTheCookieIsSealedAndBound(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	for _, https := range []bool{false, true} {
		answer := raw(t, w, http.MethodPost, "", formOf(t, w, "?view=new", "send", "to", uitest.Address), func(r *http.Request) {
			if https {
				r.Header.Set("X-Forwarded-Proto", "https")
			}
		})
		if len(answer.Cookies()) != 1 {
			t.Fatalf("%d cookies", len(answer.Cookies()))
		}
		c := answer.Cookies()[0]
		want := map[bool]string{false: "sendcode", true: "__Host-sendcode"}[https]
		if c.Name != want || c.Secure != https || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("https %v: %s", https, c.Raw)
		}
		if c.MaxAge < 3500 || c.MaxAge > 24*3600 {
			t.Errorf("it lives %d s", c.MaxAge)
		}
		sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		// "ana" alone is in one of some hundred cookies by chance.
		for _, secret := range []string{"ana@", "example", "verification-", uitest.Code} {
			if strings.Contains(c.Value, secret) || strings.Contains(string(sealed), secret) {
				t.Errorf("the cookie shows %q", secret)
			}
		}
	}
}

func TestATamperedOldOrForeignCookieIsNone(t *testing.T) {
	w, other := world(t), world(t)
	for _, each := range []*uitest.World{w, other} {
		each.Codes.Immediately = store.Sent
		post(t, each, "", "send", "to", uitest.Address)
	}
	good := w.Cookies()[0]
	shows(t, get(t, w, ""), "code")
	flipped := []byte(good.Value)
	flipped[len(flipped)/2] ^= 1
	for name, value := range map[string]string{
		"tampered": string(flipped), "cut": good.Value[:20], "foreign": other.Cookies()[0].Value, "not sealed": "e30", "not base64": "***", "empty": "",
	} {
		w.Keep([]*http.Cookie{{Name: good.Name, Value: value}})
		t.Run(name, func(t *testing.T) { shows(t, get(t, w, ""), "ask") })
		w.Keep([]*http.Cookie{good})
		shows(t, get(t, w, ""), "code")
	}
	w.Advance(time.Hour)
	shows(t, get(t, w, ""), "ask") // also when a browser keeps it longer than it was told to
}

// A browser drops a cookie of more than 4096 bytes (RFC 6265 section 6.1), and the state with it.
func TestTheCookieFitsWhateverIsTyped(t *testing.T) {
	w := world(t)
	for _, n := range []int{200, 320, 321, 4000} {
		answer := raw(t, w, http.MethodPost, "", formOf(t, w, "?view=new", "send", "to", strings.Repeat("é", n/2)), nil)
		if size := len(answer.Header.Get("Set-Cookie")); size == 0 || size > 4096 {
			t.Errorf("%d bytes typed: a cookie of %d", n, size)
		}
	}
}
