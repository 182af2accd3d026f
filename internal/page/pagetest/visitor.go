package pagetest

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
)

// Visitor looks at a page and posts its forms, as a browser without scripts does.
type Visitor struct {
	URL    string // of the page
	Lang   string // Accept-Language
	client *http.Client
}

// NewVisitor returns a visitor of the page without cookies.
func NewVisitor(page string) *Visitor {
	jar, _ := cookiejar.New(nil) // fails for no options
	return &Visitor{URL: page, Lang: "en", client: &http.Client{Jar: jar}}
}

// Cookies are what the visitor's browser keeps.
func (v *Visitor) Cookies() []*http.Cookie {
	u, _ := url.Parse(v.URL)
	return v.client.Jar.Cookies(u)
}

// Forget deletes the visitor's cookies.
func (v *Visitor) Forget() error {
	jar, err := cookiejar.New(nil)
	v.client.Jar = jar
	return err
}

// Keep replaces the visitor's cookies by these.
func (v *Visitor) Keep(cookies []*http.Cookie) {
	v.client.Jar, _ = cookiejar.New(nil) // fails for no options
	u, _ := url.Parse(v.URL)
	v.client.Jar.SetCookies(u, cookies)
}

// Client is the visitor's, with its cookies; it follows redirects.
func (v *Visitor) Client() *http.Client { return v.client }

// Form returns the hidden fields of the form for act, as the page shows it now.
func (v *Visitor) Form(query, act string) (url.Values, error) {
	_, values, err := v.form(query, act)
	return values, err
}

// form returns the address and the hidden fields of the form for act, as the page shows it now.
func (v *Visitor) form(query, act string) (action string, values url.Values, err error) {
	body, err := v.Get(query)
	if err != nil {
		return "", nil, err
	}
	return FormIn(body, act)
}

// Get loads the page and returns its HTML.
func (v *Visitor) Get(query string) (string, error) {
	r, err := http.NewRequest(http.MethodGet, v.URL+query, nil)
	if err != nil {
		return "", err
	}
	return v.do(r)
}

// Post fills in and posts a form that the page shows now, with its hidden fields, as a browser without scripts does. It fails if
// there is no such form. It returns the HTML of the page that follows.
func (v *Visitor) Post(query, act string, fields ...string) (string, error) {
	action, values, err := v.form(query, act)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	r, err := http.NewRequest(http.MethodPost, strings.TrimSuffix(v.URL, "/")+action, strings.NewReader(values.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(r)
}

func (v *Visitor) do(r *http.Request) (string, error) {
	r.Header.Set("Accept-Language", v.Lang)
	r.Header.Set("Accept", "text/html")
	answer, err := v.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	cards := []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusTooManyRequests} // that have one of the page's cards
	if err == nil && !slices.Contains(cards, answer.StatusCode) {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(body), err
}

// FormIn returns the address and the hidden fields of the form for act in an HTML page.
func FormIn(page, act string) (action string, values url.Values, err error) {
	for form := range strings.SplitSeq(page, "<form ") {
		form, _, _ = strings.Cut(form, "</form>")
		if !strings.Contains(form, `name="act" value="`+act+`"`) {
			continue
		}
		action, values = attribute(form, "action"), url.Values{}
		for input := range strings.SplitSeq(form, "<input ") {
			if strings.Contains(input, `type="hidden"`) {
				values.Set(attribute(input, "name"), attribute(input, "value"))
			}
		}
		return html.UnescapeString(action), values, nil
	}
	return "", nil, fmt.Errorf("the page shows no form for %q", act)
}

func attribute(tag, name string) string {
	_, rest, _ := strings.Cut(tag, " "+name+`="`)
	if after, ok := strings.CutPrefix(tag, name+`="`); ok {
		rest = after
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
