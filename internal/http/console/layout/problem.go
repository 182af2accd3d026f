package layout

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/server"
)

// ReasonProblem returns a text about what is wrong with the reason of an action. It returns "" if
// no text describes the mistake. maxLength is in characters.
func ReasonProblem(w texts.Words, bad *fault.InvalidError, maxLength int) string {
	return w.Get("action.problem."+bad.Reason, "n", strconv.Itoa(maxLength))
}

// ErrEndsBeforeBeginning is the error for a time range that ends before it begins.
var ErrEndsBeforeBeginning = Invalid("to", "invalid", "order", "The end must be after the beginning.")

// ParameterProblem returns what is wrong with a parameter, in the reader's language if err is or
// wraps an error of Invalid or of a ParseFunc. It returns "" if err is not about a parameter.
func ParameterProblem(w texts.Words, err error) string {
	if p, ok := errors.AsType[*parameterError](err); ok {
		return cmp.Or(w.Get("parameter."+p.kind, "values", p.values), p.Detail)
	}
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
		return bad.Detail
	}
	return ""
}

// FilterMistake is what is wrong with a parameter of a page that has a form of filters. The page
// shows the form as it was filled in, with the mistake. The zero value means that there is none.
type FilterMistake struct {
	Field string // the parameter's name in the query
	Name  string // the parameter's name in the reader's language
	Value string // the parameter's value, for the form
	Text  string // the value and what is wrong with it, in the reader's language
}

// FilterMistakeOf returns the mistake that an error is about, and all values of the raw query; ok
// is false if the error is not about a parameter.
func FilterMistakeOf(raw string, err error, w texts.Words) (mistake FilterMistake, values url.Values, ok bool) {
	bad, ok := errors.AsType[*fault.InvalidError](err)
	if !ok {
		return mistake, nil, false
	}
	values, _ = url.ParseQuery(raw)
	mistake = FilterMistake{Field: bad.Field, Name: filterName(bad.Field, w), Value: values.Get(bad.Field)}
	if bad.Reason == "unknown" || bad.Reason == "repeated" {
		mistake.Text = ParameterProblem(w, err)
		return mistake, values, true
	}
	return mistake.WithProblem(ParameterProblem(w, err), w), values, true
}

// WithProblem returns the mistake with another problem of its value. The text names the value,
// because a form can't show a value that is not one of its choices, or a time that a browser can't
// read.
func (m FilterMistake) WithProblem(problem string, w texts.Words) FilterMistake {
	m.Text = problem
	if m.Value != "" {
		m.Text = w.Get("parameter.given", "problem", problem, "value", shownValue(m.Value))
	}
	return m
}

// shownValue shortens a value as shortenName does. It also replaces the characters that a page
// can't show, or that would reorder the text.
func shownValue(value string) string {
	return shortenName(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, value))
}

// StatusOr returns the status of a page with this mistake. If there is no mistake, it returns
// other.
func (m FilterMistake) StatusOr(other int) int {
	if m.Field == "" {
		return other
	}
	return server.InvalidField.Status
}

// Of returns what is wrong with a field; "" if nothing is.
func (m FilterMistake) Of(field string) string {
	if m.Field != field {
		return ""
	}
	return m.Text
}

// problemView is the data of a page that says what went wrong.
type problemView struct {
	Page
	Detail string
	Field  string // the address's parameter that is wrong; empty: another problem
}

// problemPages has the kinds of problems for which the console has its own page. The values are
// parts of the keys of the page's texts.
var problemPages = map[server.ProblemKind]string{
	server.InvalidField: "invalid", server.NotFound: "notfound",
	server.Unavailable: "unavailable",
}

// otherOrigin returns the part of the keys for a request that may have come from another site. Over
// http, browsers send Sec-Fetch-Site only to their own machine. To another machine they send Origin
// alone, which differs from the host if a proxy changes the host.
func otherOrigin(r *http.Request) string {
	if r.Header.Get("Sec-Fetch-Site") == "" && !strings.HasPrefix(r.Header.Get(echo.HeaderOrigin), "https:") {
		return "https"
	}
	return "site"
}

// showErrorsAsPages shows a page of the console if a parameter is invalid, a row is unknown, a part
// of the service is unavailable or the request may have come from another site. The server answers
// other errors.
func (l *Layout) showErrorsAsPages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if _, answered := errors.AsType[*server.Problem](err); err == nil || answered || c.Response().Committed {
			return err
		}
		p := server.ProblemOf(err)
		name, shown := problemPages[p.Kind]
		if errors.Is(err, server.ErrOtherOrigin) {
			name, shown = otherOrigin(c.Request()), true
		}
		if !shown {
			return err
		}
		server.LogFailure(c.Request().Context(), l.logger, err)
		v := problemView{
			Page:   NewPage(c, "problem."+name+".title", ""),
			Detail: Words(c).Get("problem." + name + ".detail"),
		}
		if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
			v.Detail, v.Field = cmp.Or(ParameterProblem(Words(c), err), v.Detail), bad.Field
		}
		return l.Show(c, p.Kind.Status, "problem", v)
	}
}

// ShowNotFound shows that there is no page at the address.
func (l *Layout) ShowNotFound(c echo.Context) error {
	v := problemView{Page: NewPage(c, "problem.nopage.title", ""), Detail: Words(c).Get("problem.nopage.detail")}
	return l.Show(c, http.StatusNotFound, "problem", v)
}

// PageMiddleware returns the middleware of a page: it rejects requests from other sites, and shows
// errors as pages.
func (l *Layout) PageMiddleware() []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{l.showErrorsAsPages, server.RequireSameOrigin}
}

// CrossSitePageMiddleware is PageMiddleware for a page that another site may lead to.
func (l *Layout) CrossSitePageMiddleware() []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{l.showErrorsAsPages}
}
