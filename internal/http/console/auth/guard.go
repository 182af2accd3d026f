package auth

import (
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
)

// requireSession redirects a request without a session to the login page. After the login, the
// login page redirects back. If the person must still enter a code of the second factor, or must
// first set up a second factor, requireSession redirects to the page for that.
func (a *Auth) requireSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, ok, err := a.currentSession(c)
		if err != nil {
			return err
		}
		if !ok {
			return c.Redirect(http.StatusSeeOther, loginAddress(c, "/admin/login"))
		}
		switch {
		case v.lacks == lacksCode:
			return c.Redirect(http.StatusSeeOther, loginAddress(c, codePath))
		case v.lacks == lacksFactor && c.Path() != factorPath:
			return c.Redirect(http.StatusSeeOther, loginAddress(c, factorPath))
		}
		if err := a.attachAndTouchSession(c, v); err != nil {
			return err
		}
		return next(c)
	}
}

// startPagePath is where a login leads if no page was requested.
const startPagePath = "/admin"

// loginAddress returns the address in the argument login, with a query parameter that has the page
// to return to. The argument is a page of the login, or the page that sets up a second factor. The
// page to return to is the requested page, the page whose form was posted, or the list that was
// exported. The page of a send opens with the form that was posted. A list keeps its filters,
// except those whose values may name a person. For startPagePath, the query parameter is left out.
func loginAddress(c echo.Context, login string) string {
	r, u := c.Request(), *c.Request().URL
	switch {
	case u.Path == "/v1/admin/sends.csv":
		query := u.Query()
		query.Del("separator")
		u.Path, u.RawQuery = startPagePath, query.Encode()
	case r.Method == http.MethodPost && u.Path == "/admin/filter" && r.ParseForm() == nil:
		query := url.Values{}
		for name, values := range r.PostForm {
			if len(values) == 0 || values[0] == "" {
				continue
			}
			if slices.Contains(impersonalFilters, name) || !mayNamePerson.MatchString(recipient.AsRead(values[0])) {
				query.Set(name, values[0])
			}
		}
		u.Path, u.RawQuery = startPagePath, query.Encode()
	case u.Path == sessionsPath:
		u.Path = factorPath // the page that has this form
	case r.Method == http.MethodPost && !inMenu(u.Path):
		page, form := path.Split(u.Path)
		u.Path = path.Clean(page)
		if strings.HasPrefix(u.Path, "/admin/sends/") {
			u.RawQuery = url.Values{"do": {form}}.Encode()
		}
	}
	back := consolePageOrEmpty(u.RequestURI())
	if back == startPagePath {
		back = ""
	}
	return withReturnPage(login, back)
}

// mayNamePerson matches texts that may be an address or a number, which no URL may contain.
var mayNamePerson = regexp.MustCompile(`@|\+\W*\d|^[\d\s()./-]{5,}$`)

// impersonalFilters has the filters whose values never name a person, even if they contain digits.
var impersonalFilters = []string{"recipient", "from", "to", "network"}

// consolePageOrEmpty returns the address if it is the address of a console page, otherwise "". It
// keeps links from making a login redirect to another site.
func consolePageOrEmpty(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || strings.Contains(address, `\`) {
		return ""
	}
	if !inMenu(u.Path) && (!strings.HasPrefix(u.Path, "/admin/sends/") || strings.Contains(u.Path, "..")) {
		return ""
	}
	return address
}

// inMenu reports whether the menu has the page.
func inMenu(path string) bool {
	return slices.ContainsFunc(layout.MenuEntries, func(s layout.MenuEntry) bool { return s.Path == path })
}

// requireTokenOrSession admits requests with a valid bearer token or a valid session. If the
// request has a token, the session is ignored. If a person follows a link without a valid session,
// requireTokenOrSession redirects to the login page.
func (a *Auth) requireTokenOrSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
			bearer, err := a.authenticateToken(c)
			if err != nil {
				return err
			}
			bearer.attachTo(c)
			return next(c)
		}
		if strings.Contains(c.Request().Header.Get("Accept"), "text/html") { // a person followed a link
			return a.requireSession(next)(c)
		}
		v, ok, err := a.currentSession(c)
		if err != nil {
			return err
		}
		if !ok || v.lacks != "" {
			return &server.Problem{
				Kind:   server.Unauthorized,
				Detail: "Send the admin token as a bearer token, or log in at /admin.",
			}
		}
		if err := a.attachAndTouchSession(c, v); err != nil {
			return err
		}
		return next(c)
	}
}
