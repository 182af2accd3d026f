package server

import (
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
)

// assignRequestID is middleware that puts an ID into each request's context, and into the
// response's X-Request-Id.
func assignRequestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		ctx, id := logs.WithRequestID(r.Context(), r.Header.Get(echo.HeaderXRequestID), r.Header.Get("Traceparent"))
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		c.SetRequest(r.WithContext(ctx))
		return next(c)
	}
}

// AdoptRequestID gives the request the client's own ID; see logs.AdoptRequestID.
func AdoptRequestID(c echo.Context) {
	h := c.Response().Header()
	if id := logs.AdoptRequestID(c.Request().Context()); id != h.Get(echo.HeaderXRequestID) { // since Set allocates
		h.Set(echo.HeaderXRequestID, id)
	}
}
