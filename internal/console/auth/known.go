package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// knownFor is how long a browser is known after a login.
const knownFor = 90 * 24 * time.Hour

// browserLabel is what cookies of known browsers are sealed with.
const browserLabel = "known browser"

// knownBrowser is the content of such a cookie, sealed for one account. It logs nobody in: attempts that carry it are counted
// apart from those of unknown browsers.
type knownBrowser struct {
	ID   []byte    `json:"id"` // random; attempts are counted by it
	Ends time.Time `json:"end"`
}

// browserName is the cookie's name for an account: one browser may be known for several.
func browserName(account string) string {
	sum := sha256.Sum256([]byte(account))
	return cookieName + "-browser-" + hex.EncodeToString(sum[:4])
}

// rememberBrowser makes the browser known for the account. Each login makes another cookie, so that attempts with one that
// was stolen earlier are not counted against this browser.
func (a *Auth) rememberBrowser(c echo.Context, account string) {
	id := make([]byte, 16)
	rand.Read(id) // never fails: the program stops when the system has no randomness
	plain, err := json.Marshal(knownBrowser{id, a.now().Add(knownFor)})
	if err == nil {
		plain, err = a.ring.Seal(browserLabel, plain, []byte(account))
	}
	if err != nil {
		a.logger.ErrorContext(c.Request().Context(), "the cookie of a known browser could not be made", "error", err)
		return
	}
	c.SetCookie(a.browserCookie(c, account, base64.RawURLEncoding.EncodeToString(plain)))
}

func (a *Auth) browserCookie(c echo.Context, account, value string) *http.Cookie {
	cookie := a.cookie(c, value, int(knownFor/time.Second))
	if cookie.Name = browserName(account); isHTTPS(c) {
		cookie.Name = "__Host-" + cookie.Name
	}
	return cookie
}

// browserOf identifies a browser that logged in to the account before; empty: it is unknown.
func (a *Auth) browserOf(c echo.Context, account string) string {
	cookie, err := c.Cookie(a.browserCookie(c, account, "").Name)
	if err != nil {
		return ""
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	plain, err := a.ring.Open(browserLabel, sealed, []byte(account))
	var known knownBrowser
	if err != nil || json.Unmarshal(plain, &known) != nil || !a.now().Before(known.Ends) {
		return ""
	}
	return hex.EncodeToString(known.ID)
}
