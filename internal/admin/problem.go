package admin

import (
	"errors"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
	"sendcode/internal/verification"
)

// problemView is a page that says what went wrong.
type problemView struct {
	page
	Detail string
	Field  string // of the address, when it is to blame
}

// asPages shows those problems as pages of the console that a reader meets here. Everything else is for the
// server's own table.
func (a *Admin) asPages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err == nil || c.Response().Committed {
			return err
		}
		var bad *verification.InvalidError
		switch {
		case errors.As(err, &bad):
			return a.showProblem(c, server.InvalidField, "invalid", bad.Detail, bad.Field)
		case errors.Is(err, verification.ErrNotFound):
			return a.showProblem(c, server.NotFound, "notfound", "", "")
		case errors.Is(err, verification.ErrUnavailable):
			return a.showProblem(c, server.Unavailable, "unavailable", "", "")
		}
		return err
	}
}

func (a *Admin) showProblem(c echo.Context, k server.Kind, name, detail, field string) error {
	w := wordsFor(c)
	if detail == "" {
		detail = w.Get("problem." + name + ".detail")
	}
	v := problemView{page: page{W: w, Title: w.Get("problem." + name + ".title"), In: true}, Detail: detail, Field: field}
	if k == server.Unavailable {
		c.Response().Header().Set("Retry-After", "2")
	}
	return a.pages.show(c, k.Status, "problem", v)
}
