package page

import (
	"bytes"
	"crypto/rand"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/brand"
	"sendcode/internal/server"
	"sendcode/quota"
)

// show renders the card of the present state, alone for the script, else within the page.
func (u *Page) show(c echo.Context) error {
	u.warnOfOtherHost(c.Request().Host)
	if c.QueryParams().Has("return_url") {
		return u.arrive(c)
	}
	words, s, v := textsOf(c.Request()), u.remembered(c), view(c.QueryParam("view"))
	if v == besides && s.Other.ID != "" {
		s, v = s.onOtherChannel(), ""
	}
	t := words.forChannel(s.channel())
	l := &look{
		Page: u, ctx: c.Request().Context(), caller: u.caller(c), session: s, view: v,
		words: words, t: t, regions: regionsOf(c.Request(), u.Country),
	}
	return u.draw(c, l, l.card())
}

// draw renders a card and answers with it.
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
	if u.Brand.Logo != "" {
		server.Allow(c, "img-src", u.Brand.Logo)
	}
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

// render executes the card's template and, unless only a fragment is wanted, the page's around it.
func (u *Page) render(k card, fragment bool) ([]byte, error) {
	k.head().Page = u
	title := k.head().Heading
	if u.Title != "" {
		title += " · " + u.Title
	}
	body, err := execute(k.kind(), k)
	if err != nil {
		return nil, err
	}
	framed, err := execute("card", struct {
		*frame
		Kind, Title string
		Body        template.HTML
	}{k.head(), k.kind(), title, template.HTML(body)})
	if err != nil || fragment {
		return framed, err
	}
	return execute("page", struct {
		*frame
		Title string
		Card  template.HTML
	}{k.head(), title, template.HTML(framed)})
}

// StyleSheet returns the URL of the brand's colours; "" if it has none.
func (u *Page) StyleSheet() string {
	if u.Brand.Light == (brand.Tone{}) {
		return ""
	}
	return stylePath + "?" + url.Values{"app": {u.App}, "v": {u.Brand.Version()}}.Encode()
}

// style answers with the brand's colours.
func (u *Page) style(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age=3600")
	return c.Blob(http.StatusOK, "text/css; charset=utf-8", []byte(u.Brand.Style()))
}

// Header returns what stands above the card; nil for the app of visits that name none, unless it has a brand.
func (u *Page) Header() *AppPage {
	if u.Brand == (brand.Brand{}) && !u.named {
		return nil
	}
	return &u.AppPage
}

func execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := templates().ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

// rule is what a browser was told of the rule that refused it. Its limit is reached until the refusal ends.
type rule struct {
	Name   string        `json:"n"`
	Scope  quota.Scope   `json:"s"`
	Limit  int           `json:"l"`
	Window time.Duration `json:"w"`
	Per    quota.Period  `json:"p,omitempty"`
	Days   int           `json:"d,omitempty"`
}

func ruleOf(d quota.Decision) rule {
	r, _ := d.Blocking()
	return rule{r.Name, r.Scope, r.Limit, r.Window, r.Per, r.Days}
}

// decision returns the refusal as it stands now.
func (r rule) decision(until, now time.Time) quota.Decision {
	left := until.Sub(now)
	of := quota.Rule{Name: r.Name, Scope: r.Scope, Limit: r.Limit, Window: r.Window, Per: r.Per, Days: r.Days}
	return quota.Decision{At: now, Rules: []quota.State{{Rule: of, Used: r.Limit, ResetAfter: left, RetryAfter: left}}}
}

// admitted calls answer, unless the network made too many requests: then it only shows a card with the wait.
func (u *Page) admitted(c echo.Context, answer func(*Page, echo.Context) error) error {
	if u.Requests == nil {
		return answer(u, c)
	}
	wait, ok := u.Requests.Admit(u.caller(c).IP)
	if ok {
		return answer(u, c)
	}
	words, s := textsOf(c.Request()), u.remembered(c)
	l := &look{Page: u, session: s, words: words, t: words.forChannel(s.channel())}
	return u.draw(c, l, l.crowded(wait))
}

// crowded returns the card shown after too many requests of a network. Like the card of a failure it only offers to reload.
func (l *look) crowded(wait time.Duration) card {
	t := l.t
	k := &awayCard{Lead: fill(t.CrowdedLead, "d", t.durationUp(time.Duration(quota.Seconds(wait))*time.Second)), Reload: true}
	k.Heading = t.Crowded
	k.Say = k.Heading + t.Stop + k.Lead
	k.Crowded = wait
	k.Again = l.button(&k.frame, t.TryAgain, wait, wait)
	k.Again.Spoken, k.Again.Reason = k.Again.Wait, k.Again.Now
	k.Rev = rev(k.kind(), "crowded")
	return k
}
