package page

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/http/server"
)

const maxReturnURLLength = 1024 // bytes

// returnPath is where the page posts the proof of a right code.
const returnPath = "/return"

// endedParameter is the URL parameter with which the page says that a confirmation has ended.
const endedParameter = "ended"

// returnToApp redirects an approved person to the app, with a reference to the verification. If the
// proof is no longer valid, it redirects to the page, which says so and lets the person request
// another code.
func (page *Page) returnToApp(c echo.Context) error {
	v, err := page.newVisit(c)
	if err != nil {
		return err
	}
	c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, 16<<10)
	if err := c.Request().ParseForm(); err != nil {
		return server.UnreadableBodyProblem(err)
	}
	form := c.Request().PostForm
	back, proof := form.Get("return_url"), form.Get("proof")
	to, ok := allowedReturnURL(v.ReturnURLs, back)
	if !ok {
		return &server.Problem{Kind: server.BadRequest, Detail: "The app does not allow this return_url."}
	}
	reference, err := page.References.ReferenceTo(v.App, proof)
	if _, stale := errors.AsType[*fault.InvalidError](err); stale {
		return c.Redirect(http.StatusSeeOther, "/?"+url.Values{"app": {v.App}, "purpose": {v.Purpose}, "return_url": {to}, endedParameter: {"1"}}.Encode())
	}
	if err != nil {
		return err
	}
	address, _ := url.Parse(to) // allowedReturnURL made it
	query := address.Query()
	query.Set("reference", reference)
	address.RawQuery = query.Encode()
	return c.Redirect(http.StatusSeeOther, address.String())
}

// originOf returns the origin of a normalized return URL.
func originOf(address string) string {
	to, _ := url.Parse(address) // allowedReturnURL made it
	return to.Scheme + "://" + to.Host
}

// ambiguousPathPattern matches a decoded path that different servers may resolve in different ways.
// It matches a percent sign, because some servers decode the path again. It matches a backslash and
// control characters. It also matches dots that are followed by a parameter ("/..;/"), because some
// servers remove the parameter and then resolve the dots.
var ambiguousPathPattern = regexp.MustCompile(`[%\\\x00-\x1f\x7f]|(^|/)\.\.?;`)

// logBadLink logs a visit by a wrong link. The link is wrong if the app has no page, lacks the
// purpose, or does not allow the return_url. The person cannot repair the link, so a log line
// reports it to the operator, at most once a minute. The line has the app, the purpose and the
// origin, unless loggablePart removes them.
func (page *Page) logBadLink(c echo.Context) {
	origin := ""
	if to, err := url.Parse(c.QueryParam("return_url")); err == nil {
		origin = to.Scheme + "://" + to.Host
	}
	if n, due := page.lines.Add("link", page.Now()); due {
		page.Logger.WarnContext(c.Request().Context(),
			"link to the page refused: not among the page_purposes or return_urls of the app, or the app has no page",
			"count", n, "app", loggablePart(c.QueryParam("app")), "purpose", loggablePart(c.QueryParam("purpose")),
			"origin", loggablePart(origin), logs.SeeConfiguration)
	}
}

// loggablePattern matches a text of at most 64 characters that may be a name or an origin.
var loggablePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9.:/_-]{0,63}$`)

// longNumberPattern matches seven digits, which may be part of a phone number.
var longNumberPattern = regexp.MustCompile(`\d([.:/_-]*\d){6}`)

// loggablePart returns a text from a visitor if it may be logged. It returns "" if the text does
// not match loggablePattern, or if it contains a number that may be a phone number.
func loggablePart(text string) string {
	part := loggablePattern.FindString(text)
	if longNumberPattern.MatchString(part) {
		return ""
	}
	return part
}

// allowedReturnURL returns a normalized return URL. The result ok reports whether the URL equals an
// allowed origin and path or lies below them. The normalized URL keeps the query except for the
// parameter reference.
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
	to = to.JoinPath() // resolves dots and double slashes
	if to.Path == "" {
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
