package page_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// asks returns the server's answer to a request, without following redirects.
func asks(t *testing.T, w *pagetest.World, method, query string, form url.Values, headers ...string) (*httptest.ResponseRecorder, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1/"+query, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:999"
	r.Header.Set("Accept-Language", "en")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return answer, answer.Body.String()
}

func get(t *testing.T, w *pagetest.World, query string) string {
	t.Helper()
	_, body := asks(t, w, http.MethodGet, query, nil)
	return body
}

// A person who came from an app returns to it after the proof, with a reference, and with the query
// of the return URL.
func TestPageReturnsToTheAppWithAReference(t *testing.T) {
	w := world(t)
	const to = "https://shop.example/welcome/to?state=a%26b"
	answer, body := asks(t, w, http.MethodGet, "?app=shop&return_url="+url.QueryEscape(to+"&reference=old"), nil)
	contains(t, body, `name="return_url" value="https://shop.example/welcome/to?state=a%26b"`, "data-return", "Continue</button>")
	contains(t, answer.Header().Get("Content-Security-Policy"), "form-action 'self' https: https://shop.example;")
	form := url.Values{"return_url": {to}, "proof": {"a proof"}}
	answer, _ = asks(t, w, http.MethodPost, "return?app=shop&purpose=default", form)
	is(t, answer.Code, http.StatusSeeOther)
	is(t, answer.Header().Get("Location"), "https://shop.example/welcome/to?reference=shop%26a+proof&state=a%26b")
	form.Set("proof", "")
	answer, _ = asks(t, w, http.MethodPost, "return?app=shop&purpose=default", form)
	is(t, answer.Code, http.StatusSeeOther) // back to our page, not to the app
	contains(t, get(t, w, "?ended=1"), "Your confirmation has ended. Ask for a code once more. We&#39;ll send a 6-digit code")
	contains(t, answer.Header().Get("Location"), "/?app=shop&ended=1&purpose=default&return_url=https%3A%2F%2Fshop.example%2Fwelcome")
	form.Set("return_url", "https://evil.example")
	answer, _ = asks(t, w, http.MethodPost, "return?app=shop&purpose=default", form)
	is(t, answer.Code, http.StatusBadRequest)
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		answer, _ = asks(t, w, http.MethodPost, "return?app=shop&purpose=default", form, "Sec-Fetch-Site", "", name, value)
		is(t, answer.Code, http.StatusForbidden)
	}
}

// If the app does not allow a return_url, or its page does not have the purpose, the page explains
// this to the person. The log explains it to the operator, without the path and the query of the
// address.
func TestPageExplainsABadLink(t *testing.T) {
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
		w = world(t)
		w.AddApp(page.AppPage{App: "news", Title: "The News"})
		answer, body := asks(t, w, http.MethodGet, query, nil)
		is(t, answer.Code, http.StatusUnprocessableEntity)
		contains(t, body, "This link is not set up correctly", "Go back to the site that you came from.")
		contains(t, w.Log.String(), logged)
		_ = get(t, w, query)
		is(t, strings.Count(w.Log.String(), "link to the page refused"), 1) // once a minute
		containsNone(t, w.Log.String(), "secret")
	}
}

// If the address names an app, the page has the name, brand, key and return addresses of that app,
// and nothing of the other app. If it names a purpose, the page has the texts and codes of that
// purpose.
func TestPageForANamedAppAndPurpose(t *testing.T) {
	w := world(t)
	w.AddApp(page.AppPage{
		App: "news", Title: "The News", Sender: "codes@news.example", ReturnURLs: []string{"https://news.example"},
		Brand: message.NewBrand("https://cdn.example/logo.svg", "#0b7a5c", "https://news.example/"),
	})
	own := []string{
		`<a href="https://news.example/">`, `<img src="https://cdn.example/logo.svg" alt="">`, `public-key="pk_page_news"`,
		`href="/brand.css?app=news&amp;v=`, `sender="codes@news.example"`, "Continue to The News",
	}
	answer, first := asks(t, w, http.MethodGet, "?app=news", nil)
	contains(t, first, own...)
	containsNone(t, get(t, w, ""), own...)
	contains(t, answer.Header().Get("Content-Security-Policy"), "img-src 'self' https://cdn.example/logo.svg;", "style-src 'self';",
		"form-action 'self';")
	is(t, answer.Header().Get("Set-Cookie"), "")
	contains(t, get(t, w, "brand.css?app=news"), ":root{--accent:light-dark(#0b7a5c,")
	is(t, get(t, w, "brand.css"), "")
	contains(t, get(t, w, "?purpose=confirm"), `purpose="confirm"`, "a code of 8 characters", "to confirm your address",
		"You can close this page.")
	for query, status := range map[string]int{
		"?app=News": http.StatusNotFound, "brand.css?app=nobody": http.StatusNotFound,
		"?app=news&return_url=https://app.example": http.StatusUnprocessableEntity,
	} {
		answer, _ := asks(t, w, http.MethodGet, query, nil)
		is(t, answer.Code, status)
	}
}

// Without a script, the page says that it needs one. The page offers only channels that the service
// has and that are not paused. If there is none, the page offers its first channel.
func TestPageOffersServedChannels(t *testing.T) {
	w := world(t)
	contains(t, get(t, w, ""), "<noscript>", "needs JavaScript", `channels="email"`)
	w.Codes.Pause("email")
	contains(t, get(t, w, ""), `channels="email"`)
	w.Codes.SetCountries("DE")
	contains(t, get(t, w, ""), `channels="sms"`, "to your phone", `rel="modulepreload"`)
	w.Codes.Pause("")
	both := get(t, w, "")
	contains(t, both, `channels="email sms"`, `&#34;country&#34;:&#34;DE&#34;`)
	containsNone(t, both, "modulepreload") // a preload would delay the card, which does not need the module
}

// returning adds an app to the page, and returns the address to which the page may return people.
// The app's site answers each request with the request's path and query.
func returning(t *testing.T, w *pagetest.World) (in string) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(answer, r.URL.RequestURI())
	}))
	t.Cleanup(site.Close)
	in = site.URL + "/in"
	w.AddApp(page.AppPage{App: "news", Title: "The News", ReturnURLs: []string{in}})
	return in
}

// aReturnByItself tests that the browser returns to the app by itself after the right code. When
// the person then goes back to the page, the browser stays there.
func aReturnByItself(t *testing.T, browser context.Context) {
	w := accepting(t)
	in := returning(t, w)
	b := open(t, browser, w, browsertest.Look{})
	b.visit("?app=news&return_url=" + in)
	b.asked(pagetest.Address)
	b.card("code")
	b.paste(pagetest.Code)
	b.until(`location.href.startsWith('` + in + `?reference=news%26')`)
	b.run("setTimeout(() => history.back())")
	b.until(`location.href.includes('return_url')`)
	b.rest(1500 * time.Millisecond)
	b.until(`location.href.includes('return_url')`)
}

// A page that was rendered before an update sends its form after the update. The answer is a card
// that says to reload the page.
func TestPageOfAnOldReleaseIsToldToReload(t *testing.T) {
	w := world(t)
	answer, _ := asks(t, w, http.MethodPost, "?app=shop", url.Values{"to": {"ana@example.com"}, "act": {"send"}})
	is(t, answer.Code, http.StatusOK)
	contains(t, answer.Body.String(), `<section class="card" id="card"`,
		`<p class="box warn">This page could not be loaded completely. Reload it.`)
	is(t, w.Codes.Sends(), 0)
	containsNone(t, get(t, w, ""), `id="card"`)
}
