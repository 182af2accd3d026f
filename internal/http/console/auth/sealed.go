package auth

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/labstack/echo/v4"
)

// expiringValue is a value that a browser keeps but cannot read. It expires at the time Ends.
type expiringValue[V any] struct {
	V    V         `json:"v"`
	Ends time.Time `json:"end"`
}

// seal encrypts the value v and returns the result as a text for a browser to keep. When life has
// passed, unseal no longer accepts the text. To decrypt the text, unseal needs the same label and
// the same data in about.
func seal[V any](a *Auth, label string, about []byte, v V, life time.Duration) (string, error) {
	plain, err := json.Marshal(expiringValue[V]{v, a.now().Add(life)})
	if err != nil {
		return "", err
	}
	sealed, err := a.Ring.Seal(label, plain, about)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// unseal decrypts a text that seal returned. If the text is any other text, or if the value has
// expired, ok is false.
func unseal[V any](a *Auth, label string, about []byte, text string) (v V, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return v, false
	}
	plain, err := a.Ring.Open(label, sealed, about)
	var s expiringValue[V]
	if err != nil || json.Unmarshal(plain, &s) != nil || !a.now().Before(s.Ends) {
		return v, false
	}
	return s.V, true
}

// cookieValue returns the value of a cookie. If the request does not have the cookie, it returns
// "".
func cookieValue(c echo.Context, name string) string {
	cookie, err := c.Cookie(cookieNameFor(c, name))
	if err != nil {
		return ""
	}
	return cookie.Value
}
