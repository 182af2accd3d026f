package pagetest

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Visitor looks at a page and posts its forms, as a browser without scripts does.
type Visitor struct {
	URL    string      // of the page
	Lang   string      // Accept-Language
	Header http.Header // more headers of each request
	client *http.Client
}

// NewVisitor returns a visitor of the page without cookies.
func NewVisitor(page string) *Visitor {
	jar, _ := cookiejar.New(nil) // fails for no options
	return &Visitor{URL: page, Lang: "en", Header: http.Header{}, client: &http.Client{Jar: jar}}
}

// newVisitorOf is NewVisitor for a handler that is called in this process, without a network.
func newVisitorOf(h http.Handler) *Visitor {
	v := NewVisitor("https://codes.example/")
	v.client.Transport = inProcess{h}
	return v
}

// inProcess is a transport that calls a handler as the server does for a client of this machine.
type inProcess struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w, in := httptest.NewRecorder(), r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr, in.Host = r.URL.RequestURI(), "127.0.0.1:999", cmp.Or(r.Host, r.URL.Host)
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1 // which requests of redirects lack
	if in.Body == nil {
		in.Body = http.NoBody
	}
	p.ServeHTTP(w, in)
	return w.Result(), nil
}

// Cookies returns the visitor's cookies.
func (v *Visitor) Cookies() []*http.Cookie {
	u, _ := url.Parse(v.URL)
	return v.client.Jar.Cookies(u)
}

// Forget deletes the visitor's cookies.
func (v *Visitor) Forget() { v.Keep(nil) }

// Keep replaces the visitor's cookies by these.
func (v *Visitor) Keep(cookies []*http.Cookie) {
	v.client.Jar, _ = cookiejar.New(nil) // fails for no options
	u, _ := url.Parse(v.URL)
	v.client.Jar.SetCookies(u, cookies)
}

// Client returns the HTTP client with the visitor's cookies. It follows redirects.
func (v *Visitor) Client() *http.Client { return v.client }

// Form returns the hidden fields of the form for act, as the page shows it now.
func (v *Visitor) Form(query, act string) (url.Values, error) {
	body, err := v.Get(query)
	if err != nil {
		return nil, err
	}
	_, values, err := formIn(body, act)
	return values, err
}

// Get loads the page and returns its HTML.
func (v *Visitor) Get(query string) (string, error) { return v.request(http.MethodGet, query, nil) }

// Post loads the page and submits its form for act.
func (v *Visitor) Post(query, act string, fields ...string) (string, error) {
	page, err := v.Get(query)
	if err != nil {
		return "", err
	}
	return v.Submit(page, act, fields...)
}

// Submit fills in and posts a form of a page, with its hidden fields, as a browser without scripts
// does. It fails if there is no such form. It returns the HTML of the page that follows.
func (v *Visitor) Submit(page, act string, fields ...string) (string, error) {
	action, values, err := formIn(page, act)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return v.request(http.MethodPost, strings.TrimPrefix(action, "/"), values)
}

func (v *Visitor) request(method, query string, form url.Values) (string, error) {
	r, err := http.NewRequest(method, v.URL+query, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header = v.Header.Clone()
	r.Header.Set("Accept-Language", v.Lang)
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := v.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	// that have one of the page's cards
	cards := []int{
		http.StatusOK, http.StatusServiceUnavailable, http.StatusTooManyRequests,
		http.StatusUnprocessableEntity,
	}
	if err == nil && !slices.Contains(cards, answer.StatusCode) {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(body), err
}

var (
	forms  = regexp.MustCompile(`(?s)<form [^>]*action="([^"]*)".*?</form>`)
	hidden = regexp.MustCompile(`<input type="hidden"[^>]* name="([^"]*)" value="([^"]*)">`)
)

// formIn returns the address and the hidden fields of the form for act in an HTML page.
func formIn(page, act string) (action string, values url.Values, err error) {
	for _, form := range forms.FindAllStringSubmatch(page, -1) {
		if strings.Contains(form[0], `name="act" value="`+act+`"`) {
			values = url.Values{}
			for _, input := range hidden.FindAllStringSubmatch(form[0], -1) {
				values.Set(input[1], input[2])
			}
			return html.UnescapeString(form[1]), values, nil
		}
	}
	return "", nil, fmt.Errorf("the page shows no form for %q", act)
}
