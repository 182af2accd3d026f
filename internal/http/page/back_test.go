package page_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/store"
)

var button = regexp.MustCompile(`<a class="button" href="([^"]*)"`)

// leadsTo is where the button of an approved card leads, without its reference; empty: there is no
// button.
func leadsTo(t *testing.T, page string) (to, reference string) {
	t.Helper()
	m := button.FindStringSubmatch(page)
	if m == nil {
		return "", ""
	}
	u, err := url.Parse(html.UnescapeString(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	reference = query.Get("reference")
	query.Del("reference")
	u.RawQuery = query.Encode()
	return u.String(), reference
}

// A person whom an app sent goes back there with a reference, and its own query; its address is not
// in the page's.
func TestAPersonIsReturnedWithAReference(t *testing.T) {
	w := world(t)
	shows(t, get(t, w, "?app=shop&return_url="+url.QueryEscape("https://shop.example/welcome/to?state=a%26b&reference=old")), "ask")
	post(t, w, "", "send", "to", pagetest.Address)
	approved := post(t, w, "", "check", "code", pagetest.Code)
	shows(t, approved, "approved", "Continue")
	to, reference := leadsTo(t, approved)
	if to != "https://shop.example/welcome/to?state=a%26b" || !strings.HasPrefix(reference, "shop&") ||
		strings.Contains(text(approved), "Continue to") {
		t.Errorf("%s with %q: %s", to, reference, text(approved))
	}
	if again, _ := leadsTo(t, get(t, w, "")); again != to {
		t.Errorf("reloaded: %s", again)
	}
	shows(t, get(t, w, "?return_url=https://app.example"), "ask") // another visit is not the old approval
}

// A return_url that the app does not allow, and a purpose that its page does not have, configured or
// not, are explained to the person in the person's words, and to the operator in the log, without the
// address's path and query.
func TestABadLinkIsExplained(t *testing.T) {
	var w *pagetest.World
	for query, logged := range map[string]string{
		"?return_url=" + url.QueryEscape("https://evil.example/x?secret=1"): `"origin":"https://evil.example"`,
		"?app=another&return_url=https://app.example/secret":                `"origin":"https://app.example"`,
		"?app=another&return_url=%25":                                       `"origin":""`,
		"?purpose=gift":                                                     `"purpose":"gift"`,
		"?purpose=nothing":                                                  `"purpose":"nothing"`,
		"?purpose=Confirm":                                                  `"purpose":"Confirm"`,
		"?purpose=%00":                                                      `"purpose":"`,
		"?app=news&purpose=confirm":                                         `"app":"news","purpose":"confirm"`,
		"?app=Ana%40example.com&purpose=%2B4917012345678&return_url=x":      `"app":"","purpose":"","origin":""`,
		"?app=x4917012345678&return_url=https://" + strings.Repeat("a", 99): `"app":"","purpose":"","origin":""`,
		"?purpose=ab%E2%80%AEcd":                                            `"purpose":""`,
		"?purpose=x49-170-1234":                                             `"purpose":""`,
	} {
		w = mailed(t)
		w.Also(page.AppPage{App: "news", Title: "The News"})
		answer := raw(t, w, http.MethodGet, query, nil, nil)
		is(t, answer.StatusCode, http.StatusUnprocessableEntity)
		is(t, answer.Header.Get("Set-Cookie"), "")
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		shows(t, string(body), "link", "This link is not set up correctly", "Go back to the site that you came from.")
		contains(t, w.Log.String(), logged)
		_ = raw(t, w, http.MethodGet, query, nil, nil)
		is(t, strings.Count(w.Log.String(), "link to the page refused"), 1) // in a minute
		silent(t, w.Log.String(), "secret")
	}
	for _, query := range []string{"?app=another&return_url=https://app.example", "?purpose=gift"} {
		is(t, raw(t, w, http.MethodPost, query, nil, nil).StatusCode, http.StatusUnprocessableEntity)
	}
	shows(t, get(t, w, ""), "code") // nothing was lost
	shows(t, get(t, w, "?app=news&purpose=default"), "ask")
}

// An app that the address names has its own name, brand, cookie and return addresses, over every
// post and link, and nothing of the other's.
func TestThePageOfAnAppThatIsNamed(t *testing.T) {
	w := mailed(t)
	w.Also(page.AppPage{
		App: "news", Title: "The News", Sender: "codes@news.example", ReturnURLs: []string{"https://news.example"},
		Brand: message.NewBrand("https://cdn.example/logo.svg", "#0b7a5c", "https://news.example/"),
	})
	first := get(t, w, "?app=news")
	shows(t, first, "ask", "The News")
	own := []string{
		`<a href="https://news.example/">`, `<img src="https://cdn.example/logo.svg" alt="">`,
		`href="/brand.css?app=news&amp;v=`,
	}
	contains(t, first, own...)
	silent(t, get(t, w, ""), own...)
	csp := func(query string) string {
		return raw(t, w, http.MethodGet, query, nil, nil).Header.Get("Content-Security-Policy")
	}
	contains(t, csp("?app=news"), "img-src 'self' https://cdn.example/logo.svg;", "style-src 'self';")
	silent(t, csp(""), "cdn.example")
	if style := get(t, w, "brand.css?app=news"); !strings.HasPrefix(style, ":root{--accent:light-dark(#0b7a5c,") ||
		get(t, w, "brand.css") != "" {
		t.Errorf("the colours are %s", style)
	}
	for query, status := range map[string]int{
		"?app=News": http.StatusNotFound, "brand.css?app=nobody": http.StatusNotFound,
		"?app=news&return_url=https://app.example": http.StatusUnprocessableEntity,
	} {
		is(t, raw(t, w, http.MethodGet, query, nil, nil).StatusCode, status)
	}
	_ = get(t, w, "?app=news&return_url=https://news.example/in")
	const other = "bea@example.com"
	sent := post(t, w, "?app=news", "send", "to", other)
	shows(t, sent, "code", "b•••@example.com", "codes@news.example")
	for _, link := range regexp.MustCompile(`(?:href|action)="(/[^"]*)"`).FindAllStringSubmatch(sent, -1) {
		if !strings.HasPrefix(link[1], "/static/") && !strings.HasPrefix(link[1], "/brand.css?app=news&amp;v=") &&
			!strings.HasPrefix(link[1], "/?app=news") {
			t.Errorf("%s leads to the other app", link[1])
		}
	}
	approved := post(t, w, "?app=news", "check", "code", pagetest.Code)
	if to, reference := leadsTo(t, approved); to != "https://news.example/in" ||
		!strings.HasPrefix(reference, "news&") {
		t.Errorf("%s with %s", to, reference)
	}
	shows(t, get(t, w, ""), "code", "a•••@example.com") // the other app's page is where it was
	shows(t, get(t, w, "?app=shop"), "code", "a•••@example.com")
}

// A purpose that the address names has its own title, codes and cookie, over every post and link,
// and keeps the return address.
func TestThePageOfAPurpose(t *testing.T) {
	w := world(t)
	const query = "?purpose=confirm"
	shows(t, get(t, w, query+"&return_url=https://shop.example/welcome"), "ask",
		"Get a code to confirm your address", "a code of 8 characters")
	post(t, w, "", "send", "to", "bea@example.com")
	w.Codes.Immediately = store.Sent
	sent := post(t, w, query, "send", "to", pagetest.Address)
	shows(t, sent, "code", "Code sent to a•••@example.com to confirm your address")
	contains(t, sent, `href="/?purpose=confirm&amp;view=change"`)
	w.Advance(61 * time.Second)
	shows(t, post(t, w, query, "again"), "code", "Code sent again to a•••@example.com to confirm your address")
	for i, ask := range w.Codes.Asks() {
		is(t, ask.Purpose, []string{"default", "confirm", "confirm"}[i])
	}
	shows(t, get(t, w, ""), "code", "b•••@example.com") // the other purpose's code is where it was
	shows(t, post(t, w, query, "check", "code", "BCDFGHJK"), "code", "4 tries left")
	approved := post(t, w, query, "check", "code", pagetest.Letters)
	shows(t, approved, "approved", "a•••@example.com is confirmed.")
	if to, _ := leadsTo(t, approved); to != "https://shop.example/welcome" {
		t.Errorf("the way back is %q", to)
	}
	w.Codes.SetDown(true)
	contains(t, get(t, w, query), `<input type="hidden" name="purpose" value="confirm">`)
}

// Without an address to go back to, the end leads to the app's home. Without a home it promises no
// way (TestAPersonWithoutScriptsGetsInWithFormsAlone).
func TestTheEndLeadsHome(t *testing.T) {
	w := world(t)
	w.Also(page.AppPage{App: "news", Title: "The News", Brand: message.NewBrand("", "", "https://news.example/")})
	post(t, w, "?app=news", "send", "to", pagetest.Address)
	approved := post(t, w, "?app=news", "check", "code", pagetest.Code)
	shows(t, approved, "approved")
	contains(t, approved, `<a class="button" href="https://news.example/">Continue to The News</a>`)
	silent(t, approved, "data-return", "close this page")
}

// returning lets the page serve an app, too, whose site answers with the address that it was asked
// for, and gives the address to return to.
func returning(t *testing.T, w *pagetest.World) (in string) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(answer, r.URL.RequestURI())
	}))
	t.Cleanup(site.Close)
	in = site.URL + "/in"
	w.Also(page.AppPage{App: "news", Title: "The News", ReturnURLs: []string{in}})
	return in
}

// aReturnByItself: a second after the right code the browser is back at the app, and stays where it
// is when the person comes back to look.
func aReturnByItself(t *testing.T, browser context.Context) {
	w := accepting(t)
	in := returning(t, w)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("?app=news&return_url=" + in)
	b.asked(pagetest.Address)
	b.card("code")
	b.paste(pagetest.Code)
	b.until(`location.href === '` + in + `?reference=news%26verification-1'`)
	b.visit("?app=news")
	b.card("approved")
	b.rest(1500 * time.Millisecond)
	b.card("approved", "Continue")
}
