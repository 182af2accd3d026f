package auth

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/labstack/echo/v4"
)

// expiringValue is a value V that a browser keeps until Ends and cannot read.
type expiringValue[V any] struct {
	V    V         `json:"v"`
	Ends time.Time `json:"end"`
}

// seal encrypts a value for a browser to keep, which is valid for life. unseal needs the same label
// and the same about.
func seal[V any](a *Auth, label string, about []byte, v V, life time.Duration) (string, error) {
	plain, err := json.Marshal(expiringValue[V]{v, a.now().Add(life)})
	if err != nil {
		return "", err
	}
	sealed, err := a.Ring.Seal(label, plain, about)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// unseal decrypts a value that seal made. It returns false for other texts, and after expiry.
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

// cookieValue returns a cookie's value; "" if it is missing.
func cookieValue(c echo.Context, name string) string {
	cookie, err := c.Cookie(cookieNameFor(c, name))
	if err != nil {
		return ""
	}
	return cookie.Value
}
