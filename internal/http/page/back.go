package page

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/verify/verification"
)

// referenceIssuer names an approved verification to the app's back end. Implementation:
// proof.Redeemer.
type referenceIssuer interface {
	NewReference(app, id string) (string, error)
}

// maxReturnURLLength is the longest return_url, in bytes: the cookie that carries it has at most
// 4096.
const maxReturnURLLength = 1024

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
		s = session{} // that verification was of an earlier visit, perhaps of another person
	}
	s.Return = to
	if err := u.saveSession(c, s); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, u.viewURL(""))
}

// ambiguousPathPattern matches decoded paths that servers may resolve to different ones: paths with
// a percent sign, which some servers decode again, with a backslash, with a control character, or
// with a parameter after two dots ("/..;/"), which some servers remove before they resolve the
// dots.
var ambiguousPathPattern = regexp.MustCompile(`[%\\\x00-\x1f\x7f]|(^|/)\.\.?;`)

// refuseLink answers a visit by a wrong link: the app does not have its purpose or does not allow
// its return_url, or there is no page for the app. The person cannot mend the link, so a log line, at most
// one in a minute, names the app, the purpose and the origin, as far as a stranger's text may be logged.
func (u *Page) refuseLink(c echo.Context) error {
	origin := ""
	if to, err := url.Parse(c.QueryParam("return_url")); err == nil {
		origin = to.Scheme + "://" + to.Host
	}
	if n, due := u.lines.Add("link", u.Now()); due {
		u.Logger.WarnContext(c.Request().Context(),
			"link to the page refused: not among the page_purposes or return_urls of the app, or the app has no page",
			"count", n, "app", loggablePart(c.QueryParam("app")), "purpose", loggablePart(c.QueryParam("purpose")),
			"origin", loggablePart(origin), logs.SeeConfiguration)
	}
	l := u.newVisit(c)
	k := l.newCard("link", l.t["BadLink"])
	k.Lead = escapeHTML(l.t["BadLinkLead"])
	return l.writeCard(c, k)
}

// loggablePattern matches what names, schemes and hosts consist of, up to 64 characters.
var loggablePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9.:/_-]{0,63}$`)

// longNumberPattern matches what may be of a phone number.
var longNumberPattern = regexp.MustCompile(`\d([.:/_-]*\d){6}`)

// loggablePart returns a stranger's text if it has no mail address, no phone number and nothing to escape;
// else "".
func loggablePart(text string) string {
	part := loggablePattern.FindString(text)
	if longNumberPattern.MatchString(part) {
		return ""
	}
	return part
}

// allowedReturnURL returns the address normalized; true if it equals an allowed origin and path, or
// is below one. It keeps the query but for the parameter reference.
func allowedReturnURL(allowed []string, text string) (normalized string, ok bool) {
	to, err := url.Parse(text)
	if err != nil || len(text) > maxReturnURLLength || to.User != nil || to.Opaque != "" || to.RawPath != "" ||
		strings.Contains(text, "#") ||
		ambiguousPathPattern.MatchString(to.Path) {
		return "", false
	}
	to.Scheme, to.Host = strings.ToLower(to.Scheme), strings.ToLower(to.Host)
	if port := to.Port(); to.Scheme == "https" && port == "443" || to.Scheme == "http" && port == "80" {
		to.Host = strings.TrimSuffix(to.Host, ":"+port)
	}
	to = to.JoinPath()
	if to.Path == "" { // JoinPath resolves dots and double slashes
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

// returnLink returns the address of the button that returns an approved person to the app, with a
// reference to the verification; "" if no app sent the person.
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
		l.Logger.Error("could not make return reference", "error", err, logs.SeeDefect)
		return ""
	}
	query := to.Query()
	query.Set("reference", reference)
	to.RawQuery = query.Encode()
	return to.String()
}
