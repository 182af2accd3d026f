package frame

import (
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"

	"sendcode/internal/fault"
	"sendcode/internal/server"
)

// problemView is a page that says what went wrong.
type problemView struct {
	Page
	Detail string
	Field  string // of the address, when it is to blame
}

// showErrorsAsPages shows invalid parameters, unknown rows and an unavailable log as pages of the console. Other errors are left to the
// server.
func (l *Layout) showErrorsAsPages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err == nil || c.Response().Committed {
			return err
		}
		var bad *fault.InvalidError
		switch {
		case errors.As(err, &bad):
			return l.showProblem(c, server.InvalidField, "invalid", bad.Detail, bad.Field)
		case errors.Is(err, fault.NotFound):
			return l.showProblem(c, server.NotFound, "notfound", "", "")
		case errors.Is(err, fault.Unavailable):
			return l.showProblem(c, server.Unavailable, "unavailable", "", "")
		}
		return err
	}
}

func (l *Layout) showProblem(c echo.Context, k server.Kind, name, detail, field string) error {
	w := Words(c)
	if detail == "" {
		detail = w.Get("problem." + name + ".detail")
	}
	v := problemView{Page: NewPage(c, "problem."+name+".title", ""), Detail: detail, Field: field}
	if k == server.Unavailable {
		c.Response().Header().Set("Retry-After", "2")
	}
	return l.Show(c, k.Status, "problem", v)
}

// convertStoreErrors turns the store's errors into those of verification, which the server maps to a status.
func (l *Layout) convertStoreErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err, ctx := next(c), c.Request().Context()
		away := errors.Is(err, fault.Unavailable)
		switch {
		case errors.Is(err, fault.NotFound):
			return fault.NotFound
		case ctx.Err() != nil && (away || errors.Is(err, ctx.Err())):
			return fmt.Errorf("%w: the reader left", fault.Unavailable)
		case away:
			l.logger.ErrorContext(ctx, "log could not be read", "error", err)
			return fault.Unavailable
		}
		return err
	}
}

// PageMiddleware returns the middleware of a page: it rejects requests from other sites, and shows errors as pages.
func (l *Layout) PageMiddleware() []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{l.showErrorsAsPages, l.convertStoreErrors, server.RequireSameOrigin}
}

// CrossSitePageMiddleware is PageMiddleware for a page that another site may lead to.
func (l *Layout) CrossSitePageMiddleware() []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{l.showErrorsAsPages, l.convertStoreErrors}
}

// APIMiddleware returns the middleware of a route of the JSON API: it rejects requests from other sites, and converts the store's errors.
func (l *Layout) APIMiddleware() []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{l.convertStoreErrors, server.RequireSameOrigin}
}
