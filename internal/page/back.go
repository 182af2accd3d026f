package page

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/runbook"
	"sendcode/internal/verification"
)

// referenceIssuer names an approved verification to the app's back end. Implementation:
// redemption.Service.
type referenceIssuer interface {
	NewReference(app, id string) (string, error)
}

// maxReturn is the longest address to return to, in bytes: the cookie that carries it holds 4096.
const maxReturn = 1024

// acceptReturnURL handles a visit from an app with a return_url. It stores that address in the
// cookie and redirects to the page without it.
func (u *Page) acceptReturnURL(c echo.Context) error {
	to, ok := allowedReturnURL(u.ReturnURLs, c.QueryParam("return_url"))
	if !ok {
		return u.refuseLink(c)
	}
	s := u.loadSession(c)
	if a, err := u.Codes.Get(c.Request().Context(), u.callerOf(c), s.ID); err == nil &&
		a.View.State == verification.Approved {
		s = session{} // of an earlier visit, perhaps of another person
	}
	s.Return = to
	if err := u.saveSession(c, s); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, u.viewURL(""))
}

// ambiguousPath matches decoded paths that servers take for different ones: with a percent sign,
// which some decode again, a backslash, a control character, or a parameter after dots ("/..;/"),
// which some cut off before they go up.
var ambiguousPath = regexp.MustCompile(`[%\\\x00-\x1f\x7f]|(^|/)\.\.?;`)

// refuseLink answers a visit whose purpose or return_url is not among those of the app, or that
// comes with a return_url from an app that has no page. The person can do nothing about that; the
// log line names the app, the purpose and the origin.
func (u *Page) refuseLink(c echo.Context) error {
	origin := ""
	if to, err := url.Parse(c.QueryParam("return_url")); err == nil {
		origin = to.Scheme + "://" + to.Host
	}
	u.Logger.WarnContext(c.Request().Context(),
		"link to the page refused: not among the page_purposes or return_urls of the app, or the app has no page",
		"app", c.QueryParam("app"), "purpose", c.QueryParam("purpose"), "origin", origin, runbook.Configuration.See())
	l := u.newVisit(c)
	k := l.newCard("link", l.t["BadLink"])
	k.Lead = escapeHTML(l.t["BadLinkLead"])
	return l.writeCard(c, k)
}

// allowedReturnURL returns the address normalized, and true if it is one of the allowed origins and
// paths, or below one. Its query is kept, but for the parameter reference.
func allowedReturnURL(allowed []string, text string) (string, bool) {
	to, err := url.Parse(text)
	if err != nil || len(text) > maxReturn || to.User != nil || to.Opaque != "" || to.RawPath != "" ||
		strings.Contains(text, "#") ||
		ambiguousPath.MatchString(to.Path) {
		return "", false
	}
	to.Scheme, to.Host = strings.ToLower(to.Scheme), strings.ToLower(to.Host)
	if port := to.Port(); to.Scheme == "https" && port == "443" || to.Scheme == "http" && port == "80" {
		to.Host = strings.TrimSuffix(to.Host, ":"+port)
	}
	if to = to.JoinPath(); to.Path == "" { // without dots and double slashes
		to.Path = "/"
	}
	query := to.Query()
	query.Del("reference")
	to.RawQuery = query.Encode()
	for _, a := range allowed {
		one, err := url.Parse(a)
		if err != nil || to.Scheme != one.Scheme || to.Host != one.Host {
			continue
		}
		if prefix := strings.TrimSuffix(one.JoinPath().Path, "/"); to.Path == prefix ||
			strings.HasPrefix(to.Path, prefix+"/") {
			return to.String(), true
		}
	}
	return "", false
}

// returnLink returns the address that the button of the approved card leads to, with a reference to
// the verification; "" if the person is not returned to an app.
func (l *visit) returnLink(id string) string {
	to, err := url.Parse(l.session.Return)
	if err != nil || l.session.Return == "" {
		return ""
	}
	if _, ok := allowedReturnURL(l.ReturnURLs, l.session.Return); !ok { // the configuration has changed
		return ""
	}
	reference, err := l.References.NewReference(l.App, id)
	if err != nil {
		l.Logger.Error("could not make return reference", "error", err, runbook.Defect.See())
		return ""
	}
	query := to.Query()
	query.Set("reference", reference)
	to.RawQuery = query.Encode()
	return to.String()
}
