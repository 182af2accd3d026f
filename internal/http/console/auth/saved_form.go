package auth

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/frame"
)

// A form that is posted into an ended session is kept in a sealed cookie. After a login to the same
// account, the form's page shows it filled in, to be sent again.
const (
	formTokenSealLabel = "form token"
	savedFormSealLabel = "kept form"
	savedFormCookie    = sessionCookieName + "-form"

	formTokenLife    = 24 * time.Hour // a page may stay open for longer than its session
	savedFormLife    = 15 * time.Minute
	maxSavedFormSize = 3800 // bytes of the cookie's value; browsers take 4096 with its name and attributes
)

// savedFields are the fields of forms that are kept: no password, code or secret. The box that
// confirms an action is not kept either.
var savedFields = []string{
	"address", "app", "channel", "days", "do", "event", "id", "identity", "locale", "name",
	"provider", "purpose", "q", "reason", "role", "to",
}

type savedForm struct {
	Page   string     `json:"page"` // the address of the page that has the form
	Fields url.Values `json:"fields"`
}

// keepForm keeps the form of a request whose session has ended, and returns the address of the page
// that has the form. Without the token of an account nothing is kept, and it returns ""; also if the
// session is known to be of another account, or if the form is too large.
func (a *Auth) keepForm(c echo.Context, sessionAccount string) (page string) {
	r := c.Request()
	if r.Method != http.MethodPost || r.ParseForm() != nil { // ParseForm reads no field of other media types
		return ""
	}
	account, ok := unseal[string](a, formTokenSealLabel, nil, r.PostForm.Get("token"))
	if !ok || sessionAccount != "" && sessionAccount != account {
		return ""
	}
	kept := savedForm{pageOfForm(r.URL), url.Values{}}
	for _, name := range savedFields {
		if r.PostForm.Has(name) {
			kept.Fields.Set(name, r.PostForm.Get(name))
		}
	}
	value, err := seal(a, savedFormSealLabel, []byte(account), kept, savedFormLife)
	if err != nil || kept.Page == "" || len(kept.Fields) == 0 || len(value) > maxSavedFormSize {
		return ""
	}
	c.SetCookie(newCookie(c, savedFormCookie, value, int(savedFormLife/time.Second)))
	return kept.Page
}

// pageOfForm returns the address of the page whose form is posted to an address; "" if there is none.
func pageOfForm(form *url.URL) string {
	page := url.URL{Path: form.Path, RawQuery: form.RawQuery}
	if !inMenu(page.Path) {
		parent, action := path.Split(page.Path)
		page.Path = strings.TrimSuffix(parent, "/")
		if !inMenu(page.Path) {
			page.RawQuery = url.Values{"do": {action}}.Encode() // the page of a send shows one form at a time
		}
	}
	return consolePageOrEmpty(page.RequestURI())
}

// TakeSavedForm returns, once, the fields of this page's form that the request's account posted into an
// ended session, and the text that says so; nil and "" if there is none. It deletes the cookie. A
// page that its script reads again gets none.
func (a *Auth) TakeSavedForm(c echo.Context) (fields url.Values, text string) {
	r := c.Request()
	kept, ok := unseal[savedForm](a, savedFormSealLabel, []byte(ActorOf(c).Name), cookieValue(c, savedFormCookie))
	if !ok || kept.Page != r.URL.RequestURI() || r.Header.Get("Sec-Fetch-Dest") == "empty" {
		return nil, ""
	}
	c.SetCookie(newCookie(c, savedFormCookie, "", -1))
	return kept.Fields, frame.Words(c).Get("login.kept")
}
