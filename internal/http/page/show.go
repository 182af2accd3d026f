package page

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/http/server"
)

// showCard answers with the card of the present state.
func (u *Page) showCard(c echo.Context) error {
	if c.QueryParams().Has("return_url") {
		return u.acceptReturnURL(c)
	}
	l := u.newVisit(c)
	if l.cookieLost() {
		if n, due := u.lines.Add("cookie", u.Now()); due {
			u.Logger.WarnContext(l.ctx, "a browser does not keep the page's cookie: it keeps none, or a proxy drops it or says https "+
				"of a connection by http", "count", n, "app", u.App, "scheme", c.Scheme(), logs.SeeConfiguration)
		}
	} else if l.view.asksForCookie() { // a later visit may have no cookie for another reason
		return c.Redirect(http.StatusSeeOther, u.viewURL(""))
	}
	return l.writeCard(c, l.card())
}

// writeCard answers with a card: without the page if the script asks for it, else within the page.
func (l *visit) writeCard(c echo.Context, k *card) error {
	k.Of, k.Intent = l.session.verificationMark(), rand.Text()
	if k.Ask != nil && l.session == (session{}) { // a post needs a cookie
		if err := l.saveSession(c, session{Ends: l.Now()}); err != nil {
			return err
		}
	}
	body, err := render(k, c.Request().Header.Get(fragmentHeader) == "card")
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Add("Vary", "Accept-Language, Cookie, "+fragmentHeader)
	h.Set("Content-Language", k.T["Lang"])
	if l.Brand.Logo != "" {
		server.AllowCSPSource(c, "img-src", l.Brand.Logo)
	}
	h.Set("Cache-Control", "no-store") // the card is of one person and one moment
	status, wait := http.StatusOK, time.Duration(0)
	switch {
	case k.Crowded > 0:
		status, wait = http.StatusTooManyRequests, k.Crowded
	case k.Kind == "link":
		status = http.StatusUnprocessableEntity
	case k.Away > 0:
		status, wait = http.StatusServiceUnavailable, k.Away
	}
	server.SetRetryAfter(c, wait)
	return c.HTMLBlob(status, body)
}

// render returns the HTML of a card; if alone, without the page around it.
func render(k *card, alone bool) ([]byte, error) {
	name := "page"
	if alone {
		name = "card"
	}
	var b bytes.Buffer
	err := templates().ExecuteTemplate(&b, name, k)
	return b.Bytes(), err
}

// StyleSheetURL returns the URL of the style sheet with the brand's colours; "" if the brand has
// none.
func (u *Page) StyleSheetURL() string {
	if u.Brand.Light == (message.Palette{}) {
		return ""
	}
	return brandStylePath + "?" + url.Values{"app": {u.App}, "v": {u.Brand.StyleVersion()}}.Encode()
}

// serveBrandStyle answers with the style sheet of the brand's colours.
func (u *Page) serveBrandStyle(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age=3600")
	return c.Blob(http.StatusOK, "text/css; charset=utf-8", []byte(u.Brand.StyleSheet()))
}
