package page

import (
	"bytes"
	"crypto/rand"
	"html/template"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
)

// show renders the card that is true now; to the script alone, else in its page.
func (u *Page) show(c echo.Context) error {
	u.seenAt(c.Request().Host)
	if c.QueryParams().Has("return_url") {
		return u.arrive(c)
	}
	words, s, v := textsOf(c.Request()), u.remembered(c), view(c.QueryParam("view"))
	if v == besides && s.Other.ID != "" {
		s, v = s.turned(), ""
	}
	t := words.on(s.channel())
	l := &look{
		Page: u, ctx: c.Request().Context(), caller: u.caller(c), session: s, view: v,
		words: words, t: t, regions: regionsOf(c.Request(), u.Country),
	}
	return u.draw(c, l, l.card())
}

// draw answers with a card.
func (u *Page) draw(c echo.Context, l *look, k card) error {
	f, t := k.head(), l.t
	f.T, f.Of, f.Intent = t, l.session.mark(), rand.Text()
	body, err := u.render(k, wantsFragment(c))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Add("Vary", "Accept-Language, Cookie, "+fragmentHeader)
	h.Set("Content-Language", t.Lang)
	h.Set("Cache-Control", "no-store") // also where no middleware says so: the card is one person's, and for now
	status := http.StatusOK
	switch {
	case f.Crowded > 0:
		status = http.StatusTooManyRequests
		h.Set("Retry-After", strconv.Itoa(quota.Seconds(f.Crowded)))
	case f.Away:
		status = http.StatusServiceUnavailable
		h.Set("Retry-After", strconv.Itoa(int(awayWait.Seconds())))
	}
	return c.HTMLBlob(status, body)
}

// render draws the card into its frame and, unless a fragment is wanted, the frame into the page.
func (u *Page) render(k card, fragment bool) ([]byte, error) {
	title := k.head().Heading
	if u.Title != "" {
		title += " · " + u.Title
	}
	body, err := u.execute(k.kind(), k)
	if err != nil {
		return nil, err
	}
	framed, err := u.execute("card", struct {
		*frame
		Kind, Title string
		Body        template.HTML
	}{k.head(), k.kind(), title, template.HTML(body)})
	if err != nil || fragment {
		return framed, err
	}
	return u.execute("page", struct {
		*frame
		Title string
		Card  template.HTML
	}{k.head(), title, template.HTML(framed)})
}

func (u *Page) execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := u.templates.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}
